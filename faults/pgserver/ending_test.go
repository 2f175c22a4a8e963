//go:build linux || darwin

package pgserver

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/faults/internal/keeper"
)

// childVariable makes this test binary a child that uses servers and then ends
// in the way that the variable says.
const childVariable = "FIFTY_PGSERVER_TEST_CHILD"

// started is what the child tells before it ends.
type started struct {
	Folders []string
	Addrs   []string
	PIDs    []int // the servers' and the keepers'
}

// childTB is all of a test that a child needs.
type childTB struct {
	testing.TB
	cleanups []func()
}

func (*childTB) Helper()                  {}
func (*childTB) Name() string             { return "child" }
func (c *childTB) Cleanup(cleanup func()) { c.cleanups = append(c.cleanups, cleanup) }
func (*childTB) Fatalf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(2)
}

// child starts a shared and a paused private server, says so, and ends.
func child(how string) {
	tb := &childTB{}
	servers := []*Server{Shared(tb), New(tb)}
	servers[0].Database(tb)
	servers[1].Pause()
	var told started
	for _, s := range servers {
		told.Folders = append(told.Folders, s.kept.Folder)
		told.Addrs = append(told.Addrs, s.Addr())
		told.PIDs = append(told.PIDs, s.pid, s.kept.PID())
	}
	if err := json.NewEncoder(os.Stdout).Encode(told); err != nil {
		os.Exit(2)
	}
	switch how {
	case "os.Exit":
		os.Exit(0)
	case "panic":
		panic("as a test does that goes wrong")
	case "keeper terminated":
		for _, s := range servers {
			_ = syscall.Kill(s.kept.PID(), syscall.SIGTERM)
		}
	}
	select {} // until a signal comes
}

func TestServersEndWithTheTestProcessHoweverItEnds(t *testing.T) {
	t.Parallel()
	kill := func(sig syscall.Signal) func(*testing.T, *os.Process) {
		return func(t *testing.T, p *os.Process) {
			if err := p.Signal(sig); err != nil {
				t.Fatal(err)
			}
		}
	}
	for how, end := range map[string]func(*testing.T, *os.Process){
		"os.Exit":           nil,
		"panic":             nil,
		"kill -9":           kill(syscall.SIGKILL),
		"Ctrl-C":            kill(syscall.SIGINT),
		"keeper terminated": nil,
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), childVariable+"="+how)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			})
			var told started
			if err := json.NewDecoder(bufio.NewReader(out)).Decode(&told); err != nil {
				t.Fatal(err)
			}
			if end != nil {
				end(t, cmd.Process)
			}
			waitUntilNothingIsLeft(t, told)
		})
	}
}

func waitUntilNothingIsLeft(t *testing.T, told started) {
	t.Helper()
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	var left []string
	for deadline := time.Now().Add(waitMax); time.Now().Before(deadline); <-ticker.C {
		if left = whatIsLeft(t, told); len(left) == 0 {
			return
		}
	}
	t.Errorf("left after %v: %v", waitMax, left)
}

func whatIsLeft(t *testing.T, told started) (left []string) {
	t.Helper()
	all, err := keeper.Processes()
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range told.Folders {
		if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
			left = append(left, "folder "+folder)
		}
	}
	for _, addr := range told.Addrs {
		if conn, err := net.Dial("tcp", addr); err == nil {
			_ = conn.Close()
			left = append(left, "listener on "+addr)
		}
	}
	for _, pid := range told.PIDs {
		for _, p := range all {
			if (p.PID == pid || p.Parent == pid) && !p.Ended() {
				left = append(left, fmt.Sprintf("process %d", p.PID))
			}
		}
	}
	return left
}

func TestPrivateServerEndsWithItsTest(t *testing.T) {
	t.Parallel()
	var told started
	t.Run("user", func(t *testing.T) {
		server := New(t)
		told = started{
			Folders: []string{server.kept.Folder}, Addrs: []string{server.Addr()},
			PIDs: []int{server.pid, server.kept.PID()},
		}
	})
	// At once: the cleanup returns when all is over.
	if left := whatIsLeft(t, told); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestKeeperNeverAnswersAnUnknownRequestWithYes(t *testing.T) {
	t.Parallel()
	k, err := keeper.Start(kind)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Ask(keeper.Request{Do: "nonsense"}); err == nil {
		t.Error("the keeper agreed to nonsense")
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
	if _, err := k.Ask(keeper.Request{Do: "state"}); err == nil {
		t.Error("a closed keeper answered")
	}
}
