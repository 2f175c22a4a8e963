package pgserver

import (
	"bufio"
	"bytes"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// process is one running process, as the kernel saw it a moment ago.
type process struct {
	pid, parent int
	state       byte // R, S, I, U running or waiting; T stopped; Z ended
}

func (p process) ended() bool   { return p.state == 'Z' }
func (p process) stopped() bool { return p.state == 'T' }

// adoptOrphans does nothing: macOS has no such thing. A Postgres backend whose
// server died ends by itself.
func adoptOrphans() error { return nil }

// removeFaketimeMemory does nothing: here such memory has no name in a folder.
func removeFaketimeMemory(int) {}

func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// processes lists all processes.
func processes() ([]process, error) {
	out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=,state=").Output()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var all []process
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
		all = append(all, process{pid: pid, parent: parent, state: fields[2][0]})
	}
	return all, lines.Err()
}
