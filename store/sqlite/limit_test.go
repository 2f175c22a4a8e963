//go:build unix

package sqlite_test

import (
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

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/sqlite"
	"github.com/fiftyhosts/fifty/txn"
)

// hostLimited claims a key while the system lets no file grow, so that COMMIT can't write its pages, and
// asks again once it does.
func hostLimited(ctx context.Context, s *sqlite.Store, path string) error {
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
	_, err = s.Keys().Claim(ctx, []idempotency.Attempt{attempt("a1", "k")})
	fmt.Println(s.Keys().Classify(err), errors.Is(err, fifty.ErrUnknownOutcome), strings.Contains(fmt.Sprint(err), "commit"))

	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		return err
	}
	got, err := s.Keys().Claim(ctx, []idempotency.Attempt{attempt("a1", "k")})
	if err != nil {
		return err
	}
	fmt.Println("won", got[0].Won)
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
