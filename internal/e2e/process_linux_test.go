package e2e

import "syscall"

// endWithParent lets the kernel end the child when the test process dies, however it dies.
func endWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
