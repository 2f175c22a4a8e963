//go:build linux || darwin

package redisserver

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fiftyhosts/fifty/faults/internal/keeper"
)

// waitMax bounds each wait in these tests; a wait that gets there has failed.
const waitMax = 30 * time.Second

// childVariable makes this test binary a child that starts a server, says where, and waits to be killed.
const childVariable = "FIFTY_REDISSERVER_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		s, err := launch(nil, nil)
		if err != nil {
			fmt.Println("error", err)
			os.Exit(2)
		}
		fmt.Println(s.kept.Folder, s.Addr(), s.pid)
		select {}
	}
	goleak.VerifyTestMain(m)
}

// say sends a command and returns the first line of its answer.
func say(t *testing.T, s *Server, command string) string {
	t.Helper()
	answer, err := s.ask(command, 1)
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return answer[0]
}

func TestRedisServerEndsWithTheTestProcessThoughItIsKilled(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var folder, addr, pid string
	_, err = fmt.Fscanln(out, &folder, &addr, &pid)
	if killed := cmd.Process.Kill(); killed != nil || err != nil {
		t.Fatal(killed, err)
	}
	_ = cmd.Wait()
	ticker := time.NewTicker(readyInterval)
	defer ticker.Stop()
	for deadline := time.Now().Add(waitMax); time.Now().Before(deadline); <-ticker.C {
		_, statErr := os.Stat(folder)
		conn, dialErr := net.Dial("tcp", addr)
		if dialErr == nil {
			_ = conn.Close()
		}
		if errors.Is(statErr, fs.ErrNotExist) && dialErr != nil {
			return
		}
	}
	t.Errorf("process %s, %s or %s is still there after %v", pid, folder, addr, waitMax)
}

func TestRedisServerKeepsWhatItAcknowledgedWhenItIsKilled(t *testing.T) {
	t.Parallel()
	s := New(t)
	addr := s.Addr()
	for i := range 3 {
		if got := say(t, s, "INCR n"); got != ":"+strconv.Itoa(i+1) {
			t.Fatalf("INCR answered %s in round %d", got, i)
		}
		s.Kill()
		s.Kill() // a dead one stays dead
		s.Start()
	}
	s.Restart()
	if got := say(t, s, "INCR n"); got != ":4" || s.Addr() != addr {
		t.Errorf("after an orderly restart: %s at %s", got, s.Addr())
	}
}

func TestRedisServerThatIsPausedAnswersLater(t *testing.T) {
	t.Parallel()
	s := New(t)
	s.Pause()
	all, err := keeper.Processes()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if p.PID == s.PID() && p.Runs() {
			t.Errorf("the server runs on (%c)", p.State)
		}
	}
	answer := make(chan error, 1)
	go func() {
		_, err := s.ask("PING", 1)
		answer <- err
	}()
	s.Resume()
	if err := <-answer; err != nil {
		t.Errorf("the question asked during the pause was lost: %v", err)
	}
	s.Pause()
	s.Kill()
	s.Start()
}

func TestRedisServerHasTheSettingsAndTheClockOfItsTest(t *testing.T) {
	t.Parallel()
	s := NewSkewed(t, time.Hour, "appendfsync everysec")
	if got, err := s.ask("CONFIG GET appendfsync", 5); err != nil || got[4] != "everysec" {
		t.Errorf("appendfsync is %v, %v", got, err)
	}
	for _, skew := range []time.Duration{time.Hour, -time.Hour, 0} {
		s.SetClock(skew)
		if off := s.Ahead(t) - skew; off.Abs() > clockSlack {
			t.Errorf("the clock is off by %v", off)
		}
	}
}

func TestRedisServerAsksForItsPassword(t *testing.T) {
	t.Parallel()
	s := *Shared(t)
	s.password = "a guess"
	if _, err := s.ask("PING", 1); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("a stranger on this machine was told %v", err)
	}
	if first, second := Shared(t), Shared(t); first != second {
		t.Error("two calls gave two shared servers")
	}
	defer func() {
		if recover() == nil {
			t.Error("the shared server let itself be killed")
		}
	}()
	Shared(t).Kill()
}

func TestMissingRedisFailsTheTestAndSaysWhatToInstall(t *testing.T) {
	t.Setenv(ProgramVariable, t.TempDir()+"/absent")
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		New(r)
	}()
	<-done
	if !strings.Contains(r.failure, "apt-get install redis-server") {
		t.Errorf("the failure was %q", r.failure)
	}
}

// recorder is a test that writes down how it failed.
type recorder struct {
	testing.TB
	failure string
}

func (r *recorder) Helper() {}
func (r *recorder) Fatalf(format string, args ...any) {
	r.failure = fmt.Sprintf(format, args...)
	runtime.Goexit()
}
