package hosts

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// What package syscall does not name: the arguments of waitid, and what it says.
const (
	pPID       = 1
	wStopped   = 2
	wExited    = 4
	wNoWait    = 0x1000000
	cldStopped = 5
)

// siginfo is what the kernel fills, of its fixed size.
type siginfo struct {
	_           int32    // si_signo
	errnoOrCode [2]int32 // si_errno, which is 0 here, and si_code; on MIPS the other way round
	_           [116]byte
}

// pause stops the process. The kernel says so to the parent when the last thread has stopped.
func pause(r *run) error {
	if err := r.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return endedOr(err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- awaitStop(r.pid()) }()
	timer := time.NewTimer(signalMax)
	defer timer.Stop()
	select {
	case err := <-stopped:
		return err
	case <-timer.C: // the goroutine ends when the process does, at the latest
		return fmt.Errorf("process %d was not stopped %v after SIGSTOP", r.pid(), signalMax)
	}
}

// awaitStop waits until the child is stopped or gone, and leaves it for others to wait for.
func awaitStop(pid int) error {
	for {
		var info siginfo
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, pPID, uintptr(pid),
			uintptr(unsafe.Pointer(&info)), wStopped|wExited|wNoWait, 0, 0) //nolint:gosec // the kernel fills it
		switch errno {
		case 0:
			if max(info.errnoOrCode[0], info.errnoOrCode[1]) != cldStopped {
				return ErrExited
			}
			return nil
		case syscall.EINTR:
		case syscall.ECHILD: // waited for already
			return ErrExited
		default:
			return fmt.Errorf("waitid: %w", errno)
		}
	}
}

// resume lets the process go on; it does when the signal is sent.
func resume(r *run) error { return endedOr(r.cmd.Process.Signal(syscall.SIGCONT)) }

func endedOr(err error) error {
	if errors.Is(err, os.ErrProcessDone) {
		return ErrExited
	}
	return err
}
