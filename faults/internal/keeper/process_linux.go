package keeper

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Process is one running process, as the kernel saw it a moment ago.
type Process struct {
	PID, Parent int
	State       byte // R, S, D running or waiting; T stopped; Z ended
}

// Ended says that the process has ended.
func (p Process) Ended() bool { return p.State == 'Z' || p.State == 'X' }

// Stopped says that the process is frozen.
func (p Process) Stopped() bool { return p.State == 'T' || p.State == 't' }

// adoptOrphans makes this process the parent of those descendants whose own
// parent ends, so that a server's children stay in sight when the server died
// first.
func adoptOrphans() error {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// removeFaketimeMemory removes the shared memory and the semaphore that libfaketime makes for a program, and
// leaves behind when it is killed.
func removeFaketimeMemory(pid int) {
	for _, name := range []string{"faketime_shm_", "sem.faketime_sem_"} {
		_ = os.Remove("/dev/shm/" + name + strconv.Itoa(pid))
	}
}

// childAttributes lets a child end at once (for Postgres, SIGQUIT is an
// immediate shutdown) when the keeper itself is killed. It holds only for a
// child started from the keeper's main thread.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
}

// Processes lists all processes. Those that end while it looks are left out.
func Processes() ([]Process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var all []Process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		// pid (name) state parent …; the name may hold spaces and brackets.
		_, rest, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
		fields := strings.Fields(rest)
		if len(fields) < 2 {
			continue
		}
		parent, err := strconv.Atoi(fields[1])
		if err != nil {
			continue
		}
		all = append(all, Process{PID: pid, Parent: parent, State: fields[0][0]})
	}
	return all, nil
}
