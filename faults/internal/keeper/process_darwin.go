package keeper

import (
	"bufio"
	"bytes"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// Process is one running process, as the kernel saw it a moment ago.
type Process struct {
	PID, Parent int
	State       byte // R, S, I, U running or waiting; T stopped; Z ended
}

// Ended says that the process has ended.
func (p Process) Ended() bool { return p.State == 'Z' }

// Stopped says that the process is frozen.
func (p Process) Stopped() bool { return p.State == 'T' }

// adoptOrphans does nothing: macOS has no such thing. A Postgres backend whose
// server died ends by itself.
func adoptOrphans() error { return nil }

// removeFaketimeMemory does nothing: here such memory has no name in a folder.
func removeFaketimeMemory(int) {}

func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// Processes lists all processes.
func Processes() ([]Process, error) {
	out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=,state=").Output()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var all []Process
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 3 {
			continue
		}
		pid, errPID := strconv.Atoi(fields[0])
		parent, errParent := strconv.Atoi(fields[1])
		if errPID != nil || errParent != nil {
			continue
		}
		all = append(all, Process{PID: pid, Parent: parent, State: fields[2][0]})
	}
	return all, lines.Err()
}
