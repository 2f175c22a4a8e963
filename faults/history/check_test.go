package history_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/fiftyhosts/fifty/faults/history"
)

// ticket is the model of a counter that hands out each number once: "next" is told the next number.
var ticket = porcupine.Model{
	Init: func() any { return 0 },
	Step: func(state, _, output any) (bool, any) {
		next := state.(int) + 1
		told, known := output.(int)
		return !known || told == next, next
	},
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestARightHistoryPassesAndLeavesNothing(t *testing.T) {
	rec := history.NewRecorder[string, int](nil)
	var mu sync.Mutex
	next := map[string]int{}
	var all sync.WaitGroup
	for client := range 4 {
		all.Go(func() {
			for i := range 20 {
				key := fmt.Sprint("key ", i%5)
				op := rec.Begin(client, key, "next")
				mu.Lock()
				next[key]++
				n := next[key]
				mu.Unlock()
				op.End(n)
			}
		})
	}
	all.Wait()
	dir := filepath.Join(t.TempDir(), "testdata")
	report, err := history.Check(historyOf(t, rec), history.Config{Model: ticket, Dir: dir, Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	if report.Keys != 5 || report.Operations != 80 || report.Unknown != 0 {
		t.Errorf("%v", report)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is left, with %q", files(t, dir))
	}
}

func TestAnIllegalHistoryIsKeptWithItsPicture(t *testing.T) {
	rec := history.NewRecorder[string, int](nil)
	rec.Begin(1, "right", "next").End(1)
	rec.Begin(1, "wrong", "next").End(1)
	rec.Begin(2, "wrong", "next").End(1)
	h := historyOf(t, rec)
	dir := t.TempDir()
	_, err := history.Check(h, history.Config{Model: ticket, Dir: dir, Name: "Test/one (of two)"})
	failure, ok := errors.AsType[*history.CheckError](err)
	if !ok || !errors.Is(err, history.ErrIllegal) || errors.Is(err, history.ErrUndecided) {
		t.Fatalf("one number was handed out twice: %v", err)
	}
	if failure.Key != "wrong" || failure.Operations != 2 || !strings.Contains(err.Error(), failure.Path) || !strings.Contains(err.Error(), failure.Picture) {
		t.Errorf("%v", err)
	}
	if filepath.Dir(failure.Path) != dir || !strings.HasPrefix(filepath.Base(failure.Path), "Test-one--of-two--") {
		t.Errorf("kept as %s", failure.Path)
	}
	kept, err := history.Load[string, int](failure.Path)
	if err != nil || len(kept.Operations) != 3 {
		t.Errorf("the kept history: %+v, %v", kept, err)
	}
	if page, err := os.ReadFile(failure.Picture); err != nil || !strings.Contains(string(page), "<html") {
		t.Errorf("the picture: %v", err)
	}
	// What was kept fails again, and so can be looked into.
	if _, err := history.Check(kept, history.Config{Model: ticket, Dir: t.TempDir()}); !errors.Is(err, history.ErrIllegal) {
		t.Errorf("the kept history: %v", err)
	}
}

func TestAHistoryIsSavedBeforeItIsChecked(t *testing.T) {
	rec := history.NewRecorder[string, int](nil)
	rec.Begin(1, "a", "next").End(1)
	dir := t.TempDir()
	seen := -1
	model := ticket
	model.Step = func(state, input, output any) (bool, any) {
		for _, name := range files(t, dir) {
			h, err := history.Load[string, int](filepath.Join(dir, name))
			if err != nil {
				t.Error(err)
			}
			seen = len(h.Operations)
		}
		return ticket.Step(state, input, output)
	}
	if _, err := history.Check(historyOf(t, rec), history.Config{Model: model, Dir: dir}); err != nil {
		t.Fatal(err)
	}
	if seen != 1 {
		t.Errorf("while it was checked the file had %d operations", seen)
	}
}

func TestAHistoryThatIsNotDecidedInTimeFails(t *testing.T) {
	rec := history.NewRecorder[string, int](nil)
	rec.Begin(1, "a", "next").End(1)
	rec.Begin(1, "b", "next").End(1)
	endless := ticket
	endless.StepContext = func(ctx context.Context, _, _, _ any) (bool, any) {
		<-ctx.Done()
		return false, nil
	}
	dir := t.TempDir()
	report, err := history.Check(historyOf(t, rec), history.Config{Model: endless, Dir: dir, TimeMax: time.Millisecond})
	if !errors.Is(err, history.ErrUndecided) || errors.Is(err, history.ErrIllegal) {
		t.Fatalf("got %v", err)
	}
	if report.Keys != 2 {
		t.Errorf("%v: the other key was not looked at", report)
	}
	if len(files(t, dir)) < 2 {
		t.Errorf("kept: %q", files(t, dir))
	}
}

func TestAnUnknownOutcomeMayHaveHappenedOrNot(t *testing.T) {
	for _, tc := range []struct {
		then  int
		legal bool
	}{{1, true}, {2, true}, {3, false}} {
		rec := history.NewRecorder[string, int](nil)
		rec.Begin(1, "a", "next").Unknown()
		rec.Begin(2, "a", "next").End(tc.then)
		_, err := history.Check(historyOf(t, rec), history.Config{Model: ticket, Dir: t.TempDir()})
		if (err == nil) != tc.legal {
			t.Errorf("told %d after one unknown: %v", tc.then, err)
		}
	}
}

func TestWhatCantBeCheckedIsAnError(t *testing.T) {
	rec := history.NewRecorder[string, int](nil)
	empty := historyOf(t, rec)
	rec.Begin(1, "a", "next").End(1)
	one := historyOf(t, rec)
	parted := ticket
	parted.Partition = func(h []porcupine.Operation) [][]porcupine.Operation { return nil }
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, check := range map[string]func() error{
		"nothing recorded":    func() error { _, err := history.Check(empty, history.Config{Model: ticket}); return err },
		"no model":            func() error { _, err := history.Check(one, history.Config{}); return err },
		"a model with parts":  func() error { _, err := history.Check(one, history.Config{Model: parted}); return err },
		"no folder can be":    func() error { _, err := history.Check(one, history.Config{Model: ticket, Dir: file}); return err },
		"a folder not to own": func() error { _, err := history.Check(one, history.Config{Model: ticket, Dir: "/proc"}); return err },
	} {
		if check() == nil {
			t.Errorf("%s: passed", name)
		}
	}
}
