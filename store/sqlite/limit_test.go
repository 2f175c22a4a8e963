//go:build unix

package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/sqlite"
	"github.com/fiftyhosts/fifty/txn"
)

// limited runs fn while the system lets no file grow, so that COMMIT can't write its pages.
func limited(path string, fn func()) error {
	log, err := os.Stat(path + "-wal")
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGXFSZ)
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		return err
	}
	limit := was
	limit.Cur = uint64(log.Size())
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	fn()
	return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was)
}

// hostLimited claims a key within the limit, and asks again without it.
func hostLimited(ctx context.Context, s *sqlite.Store, path string) error {
	err := limited(path, func() {
		_, err := s.Keys().Claim(ctx, []idempotency.Attempt{attempt("a1", "k")})
		fmt.Println(s.Keys().Classify(err), errors.Is(err, fifty.ErrUnknownOutcome), strings.Contains(fmt.Sprint(err), "commit"))
	})
	if err != nil {
		return err
	}
	got, err := s.Keys().Claim(ctx, []idempotency.Attempt{attempt("a1", "k")})
	if err != nil {
		return err
	}
	fmt.Println("won", got[0].Won)
	return nil
}

// hostLimitedSweep sweeps within the limit, and again without it.
func hostLimitedSweep(ctx context.Context, s *sqlite.Store, path string) error {
	sweep := func() {
		n, err := s.Keys().Sweep(ctx, time.Minute, time.Hour, 10)
		fmt.Println("swept", n, err == nil)
	}
	if err := limited(path, sweep); err != nil {
		return err
	}
	fmt.Println("look")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	sweep()
	return nil
}

func TestSQLiteACommitThatFailsAtTheDiskIsUnknownAndAskingAgainSettlesIt(t *testing.T) {
	path := newFile(t)
	h := start(t, "limited", path)
	h.says(fmt.Sprint(txn.Unknown, true, true))
	h.says("won true")
	s := open(t, path, sqlite.Config{})
	if rec := find(t, s, "k"); rec.Attempt != "a1" || rec.State != idempotency.InFlight || rec.Token != 1 {
		t.Fatalf("the record is %+v", rec)
	}
}

func TestSQLiteASweepThatFailsAtTheDiskIsDoneWholeByTheNext(t *testing.T) {
	path, clock := newFile(t), &hostClock{at: time.Now().Add(-10 * time.Minute)}
	s := open(t, path, sqlite.Config{Now: clock.Now})
	for _, key := range []string{"d1", "d2"} {
		c := win(t, s, steps("a1", key))
		save(t, s, c, saved("charge", "1"))
		if err := complete(t, s, c, idempotency.Done, idempotency.Response{Status: 201}); err != nil {
			t.Fatal(err)
		}
	}
	h := start(t, "limited sweep", path)
	h.says("swept 0 false")
	h.says("look")
	for _, key := range []string{"d1", "d2"} {
		if rec := find(t, s, key); rec.State != idempotency.Done || rec.Response.Status != 201 || len(rec.Steps) != 1 {
			t.Errorf("%s is half swept: %+v", key, rec)
		}
	}
	h.goOn()
	h.says("swept 2 true")
	for _, key := range []string{"d1", "d2"} {
		if rec := find(t, s, key); rec.State != idempotency.Tombstone || len(rec.Steps) != 0 {
			t.Errorf("%s is half swept: %+v", key, rec)
		}
	}
}

// asNobody runs a process without the rights of root over files, which permissions don't bind.
func asNobody(t *testing.T, folder string) func(*exec.Cmd) {
	t.Helper()
	if os.Getuid() != 0 {
		return func(*exec.Cmd) {}
	}
	// It must be able to reach its program and the file.
	program := filepath.Join(folder, "program")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, text, 0o755); err != nil {
		t.Fatal(err)
	}
	for at := folder; at != filepath.Clean(os.TempDir()) && at != "/"; at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return func(cmd *exec.Cmd) {
		cmd.Path, cmd.Args = program, []string{program}
		cmd.Dir = folder
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
}

func TestSQLiteOpenSaysWhenTheFileIsNotItsToWrite(t *testing.T) {
	for name, c := range map[string]struct {
		file, folder os.FileMode
		says         string
	}{
		"a file to read":     {0o444, 0o777, "can't be written"},
		"a file to guess":    {0o000, 0o777, "can't be opened"},
		"a folder to read":   {0o666, 0o555, "its folder"},
		"a folder, no file":  {0, 0o555, "can't be opened"},
		"a folder not to be": {0o666, 0o000, "permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			folder := filepath.Join(top, "data")
			if err := os.Mkdir(folder, 0o755); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(folder, "fifty.db")
			if name != "a folder, no file" {
				s, err := sqlite.Open(t.Context(), path, sqlite.Config{})
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(path, c.file); err != nil {
					t.Fatal(err)
				}
			}
			nobody := asNobody(t, top)
			if err := os.Chmod(folder, c.folder); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.Chmod(folder, 0o755) })
			line := start(t, "claim", path, nobody).line()
			if !strings.HasPrefix(line, "error: ") || !strings.Contains(line, c.says) {
				t.Errorf("the process said %q", line)
			}
		})
	}
}
