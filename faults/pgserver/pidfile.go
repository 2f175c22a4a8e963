//go:build linux || darwin

package pgserver

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// removeSharedMemory removes the few bytes of System V shared memory that a
// killed Postgres leaves in the kernel. Their id is in its postmaster.pid, which
// an orderly shutdown removes together with the memory.
func removeSharedMemory(folder string) {
	pid, err := readPostmasterPID(dataFolder(folder))
	if err != nil || pid.sharedMemory < 0 {
		return
	}
	_, _ = unix.SysvShmCtl(pid.sharedMemory, unix.IPC_RMID, nil)
}

// postmasterPID is what a running Postgres says about itself.
type postmasterPID struct {
	pid          int
	sharedMemory int // -1 when there is none
	ready        bool
}

// readPostmasterPID reads the lines of postmaster.pid: pid, data folder, start
// time, port, socket folder, address, shared memory (key and id), status.
func readPostmasterPID(data string) (postmasterPID, error) {
	text, err := os.ReadFile(data + "/postmaster.pid")
	if err != nil {
		return postmasterPID{}, err
	}
	found := postmasterPID{sharedMemory: -1}
	lines := strings.Split(string(text), "\n")
	found.pid, err = strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil {
		return postmasterPID{}, err
	}
	if len(lines) > 6 {
		if fields := strings.Fields(lines[6]); len(fields) == 2 {
			if id, err := strconv.Atoi(fields[1]); err == nil {
				found.sharedMemory = id
			}
		}
	}
	if len(lines) > 7 {
		found.ready = strings.TrimSpace(lines[7]) == "ready"
	}
	return found, nil
}
