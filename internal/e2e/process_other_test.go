//go:build !linux

package e2e

import "syscall"

// endWithParent does nothing: only Linux ends a child with its parent. Here a test process that is killed
// leaves its children behind; each one listens on loopback only.
func endWithParent() *syscall.SysProcAttr { return nil }
