//go:build linux || darwin

package keeper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"
	"time"
)

const (
	// variable in the environment makes a test binary the keeper of a server of that kind.
	variable = "FIFTY_KEEPER"

	runMax       = 2 * time.Minute        // a helper program such as initdb
	stopMax      = 30 * time.Second       // an orderly shutdown
	signalMax    = 10 * time.Second       // until all processes are killed, paused or resumed
	lookInterval = 2 * time.Millisecond   // between two looks at the processes
	removeTries  = 50                     // at the folder, in which a dying process may still write
	removeEvery  = 100 * time.Millisecond // between two such tries
)

// A Command is a program that the keeper runs below its folder.
type Command struct {
	Path  string
	Args  []string
	Env   []string // beside the usual
	Owner Owner
}

// A Request is one line from the test process, a reply one line to it.
type (
	Request struct {
		Do      string // run, start, stop, kill, pause, resume, state
		Command Command
	}
	reply struct {
		Folder string // in the greeting
		PID    int    // the server's process, 0 when there is none
		Error  string
	}
)

// A keeper runs one server and ends it. It is used by one goroutine.
type keeper struct {
	cleanUp func(folder string)
	folder  string
	log     *os.File
	server  *exec.Cmd
	exited  chan struct{} // closed once server was waited for
}

// Main turns this process into a keeper, and does not return, when its parent asked for one of this kind. It is
// called by the init of a package that starts servers, so before any test starts. cleanUp may be nil; it removes
// what a server that was killed leaves outside of its folder.
func Main(kind string, cleanUp func(folder string)) {
	if os.Getenv(variable) != kind {
		return
	}
	if cleanUp == nil {
		cleanUp = func(string) {}
	}
	os.Exit(keep(kind, cleanUp, os.Stdin, os.Stdout))
}

// keep serves requests until the test process is gone, then ends everything.
// It returns the exit code.
func keep(kind string, cleanUp func(folder string), in io.Reader, out io.Writer) int {
	// A write to a test process that is gone must not end the keeper.
	signal.Ignore(syscall.SIGPIPE, syscall.SIGHUP, syscall.SIGINT)
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)

	answers := json.NewEncoder(out)
	k, err := newKeeper(kind, cleanUp)
	if err != nil {
		_ = answers.Encode(reply{Error: err.Error()})
		return 1
	}
	defer k.end()
	_ = answers.Encode(reply{Folder: k.folder})

	requests := make(chan Request)
	go func() {
		defer close(requests)
		lines := json.NewDecoder(in)
		for {
			var r Request
			if lines.Decode(&r) != nil { // end of file: the test process is gone
				return
			}
			requests <- r
		}
	}()
	for {
		select {
		case <-asked:
			return 1
		case r, ok := <-requests:
			if !ok {
				return 0
			}
			answer := reply{}
			if err := k.do(r); err != nil {
				answer.Error = err.Error()
			}
			answer.PID = k.pid()
			_ = answers.Encode(answer)
		}
	}
}

func newKeeper(kind string, cleanUp func(folder string)) (*keeper, error) {
	who, err := ServerOwner()
	if err != nil {
		return nil, err
	}
	parent, err := tempFolder(who)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp(parent, "fifty-"+kind+"-")
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(folder+"/log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		err = errors.Join(who.Give(folder), who.Give(log.Name()), adoptOrphans(),
			debug.SetCrashOutput(log, debug.CrashOptions{}))
	}
	if err != nil {
		_ = os.RemoveAll(folder)
		return nil, err
	}
	return &keeper{cleanUp: cleanUp, folder: folder, log: log}, nil
}

func (k *keeper) do(r Request) error {
	switch r.Do {
	case "run":
		return k.run(r.Command)
	case "start":
		return k.start(r.Command)
	case "stop":
		return k.stop()
	case "kill":
		return k.kill()
	case "pause":
		return k.signalAll(syscall.SIGSTOP, func(p Process) bool { return !p.Runs() })
	case "resume":
		return k.signalAll(syscall.SIGCONT, func(p Process) bool { return !p.Stopped() })
	case "state":
		return nil
	}
	return fmt.Errorf("the keeper can't %q", r.Do)
}

// prepare makes the process for c, with its output in the log.
func (k *keeper) prepare(c Command) *exec.Cmd {
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Dir = k.folder
	cmd.Env = append(cleanEnvironment(), c.Env...)
	cmd.Stdout, cmd.Stderr = k.log, k.log
	cmd.SysProcAttr = childAttributes()
	cmd.SysProcAttr.Credential = c.Owner.credential()
	return cmd
}

func (k *keeper) run(c Command) error {
	cmd := k.prepare(c)
	if err := cmd.Start(); err != nil {
		return err
	}
	timer := time.AfterFunc(runMax, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	return cmd.Wait()
}

func (k *keeper) start(c Command) error {
	if k.pid() != 0 {
		return errors.New("the server runs already")
	}
	cmd := k.prepare(c)
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	k.server, k.exited = cmd, exited
	return nil
}

// pid is the running server's, or 0.
func (k *keeper) pid() int {
	if k.server == nil {
		return 0
	}
	select {
	case <-k.exited:
		return 0
	default:
		return k.server.Process.Pid
	}
}

// stop asks for an orderly shutdown and waits for it. For Postgres, SIGINT is the fast one; for Redis, any is.
func (k *keeper) stop() error {
	if k.pid() == 0 {
		return nil
	}
	if err := k.server.Process.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-k.exited:
		return nil
	case <-time.After(stopMax):
		return fmt.Errorf("the server did not stop within %v", stopMax)
	}
}

// signalAll sends sig to the server and all processes below it until done holds
// for each. Parents come first: a server that is stopped or killed makes no new
// children, so the second look finds them all.
func (k *keeper) signalAll(sig syscall.Signal, done func(Process) bool) error {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for deadline := time.Now().Add(signalMax); time.Now().Before(deadline); <-ticker.C {
		below, err := Descendants(os.Getpid())
		if err != nil {
			return err
		}
		below = slices.DeleteFunc(below, done)
		if len(below) == 0 {
			if sig == syscall.SIGKILL && k.exited != nil {
				<-k.exited // it has ended, and is about to be waited for
			}
			return nil
		}
		for _, p := range below {
			if err := syscall.Kill(p.PID, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("send %v to process %d: %w", sig, p.PID, err)
			}
		}
	}
	return fmt.Errorf("processes did not obey %v within %v", sig, signalMax)
}

// kill ends the server with all its processes, as a crash does.
func (k *keeper) kill() error {
	err := k.signalAll(syscall.SIGKILL, func(p Process) bool { return p.Ended() })
	if k.server != nil {
		removeFaketimeMemory(k.server.Process.Pid)
	}
	return err
}

// end kills what runs and removes the folder. Both are bounded.
func (k *keeper) end() {
	_ = k.kill()
	k.cleanUp(k.folder)
	ticker := time.NewTicker(removeEvery)
	defer ticker.Stop()
	for range removeTries {
		if os.RemoveAll(k.folder) == nil {
			return
		}
		<-ticker.C
	}
}

// Runs says that the process may act. One that ended as its parent was frozen stays in
// the list until the parent goes on, and does nothing.
func (p Process) Runs() bool { return !p.Stopped() && !p.Ended() }

// Descendants lists the processes below pid, parents before their children.
func Descendants(pid int) ([]Process, error) {
	all, err := Processes()
	if err != nil {
		return nil, err
	}
	children := make(map[int][]Process, len(all))
	for _, p := range all {
		children[p.Parent] = append(children[p.Parent], p)
	}
	below := slices.Clone(children[pid])
	for i := 0; i < len(below); i++ { // ends: a process has one parent
		below = append(below, children[below[i].PID]...)
	}
	return below, nil
}
