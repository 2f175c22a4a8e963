//go:build unix && !linux

package hosts

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// lookInterval lies between two looks at a process that was told to stop.
const lookInterval = 2 * time.Millisecond

// pause stops the process. ps says T when all of it has stopped.
func pause(r *run) error {
	if err := r.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return endedOr(err)
	}
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	timer := time.NewTimer(signalMax)
	defer timer.Stop()
	for {
		state, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(r.pid())).Output()
		if err == nil && strings.HasPrefix(strings.TrimSpace(string(state)), "T") {
			return nil
		}
		select {
		case <-look.C:
		case <-r.exited:
			return ErrExited
		case <-timer.C:
			return fmt.Errorf("process %d was not stopped %v after SIGSTOP", r.pid(), signalMax)
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
