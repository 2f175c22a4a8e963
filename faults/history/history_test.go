package history_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/fiftyhosts/fifty/faults/history"
)

type (
	recorder = history.Recorder[string, int]
	hist     = history.History[string, int]
)

func historyOf(t testing.TB, rec *recorder) hist {
	t.Helper()
	h, err := rec.History()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestARecorderKeepsWhatItsCallersSaw(t *testing.T) {
	rec := history.NewRecorder[string, int](nil)
	before := history.Now()
	rec.Begin(1, "a", "told").End(5)
	between := history.Now()
	rec.Begin(2, "b", "unknown").Unknown()
	rec.Begin(2, "b", "dropped").Drop()
	rec.Begin(3, "b", "never ended")
	ops := historyOf(t, rec).Operations
	if len(ops) != 3 {
		t.Fatalf("%d operations, want 3: %+v", len(ops), ops)
	}
	told := ops[0]
	if told.Client != 1 || told.Key != "a" || told.Input != "told" || told.Output != 5 || told.Unknown() {
		t.Errorf("%+v", told)
	}
	if told.Call < before || told.Return < told.Call || between < told.Return {
		t.Errorf("the stamps %d and %d are not between %d and %d", told.Call, told.Return, before, between)
	}
	for _, op := range ops[1:] {
		if !op.Unknown() || op.Return != history.Forever || op.Call < between {
			t.Errorf("%+v, want one that is unknown", op)
		}
	}
}

func TestManyCallersMayRecordAtOnce(t *testing.T) {
	rec := history.NewRecorder[string, int](io.Discard)
	const callers, each = 16, 50
	var all sync.WaitGroup
	for client := range callers {
		all.Go(func() {
			for i := range each {
				rec.Begin(client, "key", "in").End(i)
			}
		})
	}
	all.Wait()
	next := make([]int, callers)
	for _, op := range historyOf(t, rec).Operations {
		if op.Output != next[op.Client] {
			t.Fatalf("client %d: operation %d follows %d", op.Client, op.Output, next[op.Client]-1)
		}
		next[op.Client]++
	}
	for client, n := range next {
		if n != each {
			t.Errorf("client %d has %d operations", client, n)
		}
	}
}

func TestAHistoryWithAGapIsNoHistory(t *testing.T) {
	full := history.NewRecorder[string, int](nil)
	full.Limit(1)
	full.Begin(0, "a", "fits").End(0)
	full.Begin(0, "a", "does not").End(0)
	if _, err := full.History(); !errors.Is(err, history.ErrFull) {
		t.Errorf("a full recorder: %v", err)
	}

	twice := history.NewRecorder[string, int](nil)
	op := twice.Begin(0, "a", "x")
	op.End(1)
	op.Unknown()
	if h, err := twice.History(); err == nil || h.Operations[0].Output != 1 {
		t.Errorf("an operation that was ended twice: %+v, %v", h, err)
	}

	unwritable := history.NewRecorder[string, int](failing{})
	unwritable.Begin(0, "a", "x").End(1)
	if _, err := unwritable.History(); !errors.Is(err, errWrite) {
		t.Errorf("a log that can't be written: %v", err)
	}
}

type failing struct{}

var errWrite = errors.New("the disk is full")

func (failing) Write([]byte) (int, error) { return 0, errWrite }

func TestAHistoryIsReadAsItWasWritten(t *testing.T) {
	rec := history.NewRecorder[string, int](nil)
	rec.Begin(1, "", "empty key").End(0)
	rec.Begin(2, "a\nb", "line\nfeed").Unknown()
	rec.Begin(2, "c", "").End(3)
	h := historyOf(t, rec)
	var file bytes.Buffer
	if err := history.Write(&file, h); err != nil {
		t.Fatal(err)
	}
	got, err := history.Read[string, int](&file)
	if err != nil || !reflect.DeepEqual(got, h) {
		t.Errorf("%v: read\n%+v, wrote\n%+v", err, got, h)
	}
}

func TestTheLogOfAKilledProcessTellsWhatItWasAbout(t *testing.T) {
	var log bytes.Buffer
	rec := history.NewRecorder[string, int](&log)
	rec.Begin(1, "a", "told").End(5)
	rec.Begin(1, "a", "dropped").Drop()
	rec.Begin(1, "a", "killed")
	rec.Begin(1, "a", "killed while this was noted").End(6)
	whole := log.String()
	lines := strings.SplitAfter(strings.TrimSuffix(whole, "\n"), "\n")
	last := lines[len(lines)-1]
	for cut := range len(last) {
		h, err := history.Read[string, int](strings.NewReader(whole[:len(whole)-1-cut]))
		if err != nil {
			t.Fatalf("%d bytes less: %v", 1+cut, err)
		}
		var told []string
		for _, op := range h.Operations {
			told = append(told, fmt.Sprint(op.Input, " ", op.Unknown()))
		}
		if want := "told false, killed true, killed while this was noted true"; strings.Join(told, ", ") != want {
			t.Fatalf("%d bytes less: read %q", 1+cut, told)
		}
	}
}

func TestAFileThatIsNoHistoryIsRefused(t *testing.T) {
	const head = `{"history":1,"clock":"c"}` + "\n"
	for name, text := range map[string]string{
		"nothing":            "",
		"no line feed":       `{"history":1,"clock":"c"}`,
		"another file":       "hello\n",
		"another version":    `{"history":2,"clock":"c"}` + "\n",
		"not JSON":           head + "hello\n",
		"begun twice":        head + `{"op":1,"key":"a","input":"x"}` + "\n" + `{"op":1,"key":"a","input":"x"}` + "\n",
		"ended only":         head + `{"op":1,"return":3,"output":4}` + "\n",
		"ended twice":        head + `{"op":1,"key":"a","input":"x"}` + "\n" + strings.Repeat(`{"op":1,"return":3,"output":4}`+"\n", 2),
		"ended after a drop": head + `{"op":1,"key":"a","input":"x"}` + "\n" + `{"op":1,"dropped":true}` + "\n" + `{"op":1,"return":3,"output":4}` + "\n",
		"neither":            head + `{"op":1,"key":"a","input":"x"}` + "\n" + `{"op":1}` + "\n",
	} {
		if h, err := history.Read[string, int](strings.NewReader(text)); err == nil {
			t.Errorf("%s: read as %+v", name, h)
		}
	}
	if _, err := history.Load[string, int]("testdata/missing.jsonl"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

func TestHistoriesOfTwoClocksAreNotMerged(t *testing.T) {
	one, other := hist{Clock: "boot 1"}, hist{Clock: "boot 2"}
	if _, err := history.Merge(one, other); !errors.Is(err, history.ErrClocks) {
		t.Errorf("got %v", err)
	}
}

// Two processes, one after the other: where they share a clock, the stamps say so.
func TestStampsOfTwoProcessesCanBeCompared(t *testing.T) {
	run := func(name string) hist {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), childClient+"="+name)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		h, err := history.Read[string, int](bytes.NewReader(out))
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	before := history.Now()
	first := run("first")
	between := history.Now()
	second := run("second")
	merged, err := history.Merge(second, first)
	if runtime.GOOS != "linux" {
		if !errors.Is(err, history.ErrClocks) {
			t.Errorf("two processes without a common clock: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	ops := merged.Operations
	if len(ops) != 4 || ops[0].Input != "by first" || ops[1].Input != "cut off by first" || ops[2].Input != "by second" {
		t.Fatalf("in the order of their calls: %+v", ops)
	}
	off := first.Spread + second.Spread + historyOf(t, history.NewRecorder[string, int](nil)).Spread
	if ops[0].Call+off < before || between+off < ops[0].Return || ops[2].Call+off < between || history.Now()+off < ops[2].Return {
		t.Errorf("stamps %+v with %d before and %d between", ops, before, between)
	}
	if ops[0].Client == ops[2].Client || ops[0].Client != ops[1].Client {
		t.Errorf("the clients are %d, %d and %d, want one for each process", ops[0].Client, ops[1].Client, ops[2].Client)
	}
}

func TestAMergedCallBeginsEarlierByTheSpread(t *testing.T) {
	op := history.Operation[string, int]{Key: "a", Call: 100, Return: 200}
	merged, err := history.Merge(hist{Spread: 30, Operations: []history.Operation[string, int]{op}})
	if err != nil || merged.Operations[0].Call != 70 || merged.Operations[0].Return != 200 {
		t.Errorf("%+v, %v", merged, err)
	}
}

func BenchmarkRecord(b *testing.B) {
	rec := history.NewRecorder[string, int](nil)
	rec.Limit(1 << 30)
	for b.Loop() {
		rec.Begin(0, "key", "in").End(1)
	}
}
