//go:build !linux

package hosts

import "syscall"

// endWithParent does nothing: only Linux ends a child with its parent. Elsewhere the child sees the end of
// its standard input.
func endWithParent() *syscall.SysProcAttr { return nil }
