package hosts

import (
	"io"
	"os/exec"
	"runtime"
	"time"
)

// drainMax bounds the wait for the rest of a host's output after its end: a process that it left behind
// may hold the pipe open.
const drainMax = 5 * time.Second

// A run is one process of a host.
type run struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *output
	exited chan struct{} // closed when it was waited for and all that it wrote is there
}

func startRun(c Config) (*run, error) {
	cmd, err := c.command()
	if err != nil {
		return nil, err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	r := &run{cmd: cmd, in: in, out: newOutput(c.Output), exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = r.out, r.out
	started := make(chan error)
	go r.live(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return r, nil
}

// live starts the process and stays until it is gone, on a thread of its own: a child that the kernel shall
// end with its parent ends with the thread that started it.
func (r *run) live(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := r.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	_ = r.cmd.Wait() // the state says how it ended
	close(r.exited)
}

func (r *run) pid() int { return r.cmd.Process.Pid }

// ended tells whether the process is gone.
func (r *run) ended() bool {
	select {
	case <-r.exited:
		return true
	default:
		return false
	}
}

// endsWithin waits for the end.
func (r *run) endsWithin(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-r.exited:
		return true
	case <-timer.C:
		return false
	}
}

// exitCode is -1 while it runs, and when a signal ended it.
func (r *run) exitCode() int {
	if !r.ended() {
		return -1
	}
	return r.cmd.ProcessState.ExitCode()
}
