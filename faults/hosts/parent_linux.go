package hosts

import "syscall"

// endWithParent lets the kernel end the child when the thread that started it ends, which lives as long as
// the child or this process; see [run.live].
func endWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
