//go:build linux || darwin

package keeper

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// replyMax is longer than anything that a keeper does for one request.
	replyMax = runMax + stopMax
	// logTail is how much of a server's log is shown when something failed.
	logTail = 4 << 10
)

// Kept is the test process's side of a keeper. It has no goroutine of its own,
// so that a check for leaked goroutines sees none. It is safe for concurrent
// use.
type Kept struct {
	Folder string // the server's

	mu      sync.Mutex
	process *exec.Cmd
	in      *os.File // only we hold this end: closing it ends the keeper
	out     *os.File
	replies *json.Decoder
}

// Start starts a keeper of a kind that the calling program has a Main for.
func Start(kind string) (*Kept, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	childIn, in, err := os.Pipe() // all four ends close on exec
	if err != nil {
		return nil, err
	}
	defer childIn.Close()
	out, childOut, err := os.Pipe()
	if err != nil {
		_ = in.Close()
		return nil, err
	}
	defer childOut.Close()
	cmd := exec.Command(binary)
	cmd.Env = append(os.Environ(), variable+"="+kind)
	cmd.Stdin, cmd.Stdout = childIn, childOut
	// In a session of its own, it outlives a Ctrl-C and does its work then.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the keeper: %w", err), in.Close(), out.Close())
	}
	k := &Kept{process: cmd, in: in, out: out, replies: json.NewDecoder(out)}
	greeting, err := k.receive()
	if err != nil {
		return nil, errors.Join(err, k.Close())
	}
	k.Folder = greeting.Folder
	return k, nil
}

// Ask sends one request and waits for its reply, which has the server's pid.
func (k *Kept) Ask(r Request) (pid int, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	line, err := json.Marshal(r)
	if err != nil {
		return 0, err
	}
	if _, err := k.in.Write(append(line, '\n')); err != nil {
		return 0, fmt.Errorf("the keeper is gone: %w", err)
	}
	answer, err := k.receive()
	return answer.PID, err
}

func (k *Kept) receive() (reply, error) {
	if err := k.out.SetReadDeadline(time.Now().Add(replyMax)); err != nil {
		return reply{}, err
	}
	var answer reply
	if err := k.replies.Decode(&answer); err != nil {
		return reply{}, fmt.Errorf("no answer from the keeper: %w", err)
	}
	if answer.Error != "" {
		return answer, errors.New(answer.Error)
	}
	return answer, nil
}

// PID is the keeper's process.
func (k *Kept) PID() int { return k.process.Process.Pid }

// Close ends the keeper with all that it keeps, and returns once it is gone.
func (k *Kept) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.in.Close(); err != nil {
		return err
	}
	if err := k.out.SetReadDeadline(time.Now().Add(replyMax)); err != nil {
		return err
	}
	var rest reply
	for k.replies.Decode(&rest) == nil { // ends: no request is under way
	}
	if _, err := k.out.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("the keeper (process %d) did not end within %v", k.process.Process.Pid, replyMax)
	}
	_ = k.process.Wait()
	return k.out.Close()
}

// Tail is the end of what the server wrote.
func (k *Kept) Tail() string {
	log, err := os.ReadFile(k.Folder + "/log")
	if err != nil {
		return fmt.Sprintf("(its log can't be read: %v)", err)
	}
	if len(log) > logTail {
		log = log[len(log)-logTail:]
		_, after, _ := strings.Cut(string(log), "\n")
		return "…\n" + after
	}
	return string(log)
}
