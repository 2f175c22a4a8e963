package e2e

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/fiftyhosts/fifty/faults/history"
	"github.com/fiftyhosts/fifty/faults/hosts"
	"github.com/fiftyhosts/fifty/idempotency/idempotencytest"
	"github.com/fiftyhosts/fifty/internal/testenv"
)

const (
	linearHosts  = 3 // processes that work on one database at once
	linearAtOnce = 3 // rounds that are under way at once: most of one is waiting for the leases of the dead
)

func TestEachKeyOnSQLiteIsLinearizableOverProcessesThatAreKilled(t *testing.T) {
	t.Parallel()
	testLinearizable(t, func() string { return sqliteURL(t) })
}

func TestEachKeyOnPostgresIsLinearizableOverProcessesThatAreKilled(t *testing.T) {
	t.Parallel()
	testLinearizable(t, func() string { return testenv.Postgres(t).Database(t) })
}

// testLinearizable lets hosts, each a process, call one store about the same keys, kills one of them with kill -9
// in the middle and starts it again. Then one order for each key must explain what all callers were told, with
// what the killed one was about as unknown. Each round has a seed of its own, behind the first.
func testLinearizable(t *testing.T, database func() string) {
	t.Helper()
	first, began := seedOf(t), time.Now()
	var keys, dos history.Report
	rounds := soakRounds(t)
	var begun []*linear
	for n := range rounds {
		l := &linear{t: t, seed: first + uint64(n), database: database(), folder: t.TempDir(), program: linearHost, logs: make([][]string, 2)}
		l.begin()
		if begun = append(begun, l); len(begun) < linearAtOnce && n < rounds-1 {
			continue
		}
		for _, l := range begun {
			l.end()
			keys = sum(keys, checkCalls(l, merged[idempotencytest.KeyCall, idempotencytest.KeyAnswer](l, l.logs[0])))
			dos = sum(dos, check(l, merged[idempotencytest.DoCall, idempotencytest.DoAnswer](l, l.logs[1]), idempotencytest.DoModel(linearSlack)))
			if t.Failed() {
				t.Fatalf("the round with seed %d went wrong", l.seed)
			}
		}
		begun = nil
	}
	t.Logf("soak: %s: seed %d, rounds %d, processes %d, killed %d: calls of the store: %v; of Do and DoSteps: %v, in %v",
		t.Name(), first, rounds, linearHosts, rounds, keys, dos, time.Since(began).Round(time.Second))
	if keys.Unknown == 0 || dos.Unknown == 0 {
		t.Errorf("a kill left no outcome unknown, so nothing was proved about it: %v; %v", keys, dos)
	}
}

// linear is one round.
type linear struct {
	t                *testing.T
	seed             uint64
	database, folder string
	program          string     // what a host is
	logs             [][]string // of all processes that there were, of each kind of history
	working          []*process
}

// host starts a process, which is ready and waits for go.
func (l *linear) host(name, until string) *process {
	l.t.Helper()
	binary, err := os.Executable()
	if err != nil {
		l.t.Fatal(err)
	}
	args := []string{l.program, l.database}
	for kind := range l.logs {
		path := filepath.Join(l.folder, fmt.Sprint(name, ".", kind))
		l.logs[kind] = append(l.logs[kind], path)
		args = append(args, path)
	}
	seed := strconv.FormatUint(l.seed+uint64(len(l.logs[0]))<<32, 10)
	p := launch(l.t, hosts.Config{Path: binary, Args: append(args, name, seed, until)})
	p.foul = true // it ends when its work is done, and not before
	return p
}

func (l *linear) letGo(p *process) {
	l.t.Helper()
	p.find(`ready\n`)
	if _, err := io.WriteString(p.host.Stdin(), "go\n"); err != nil {
		l.t.Fatal(err)
	}
}

// begin starts the processes, and kills and starts the victim.
func (l *linear) begin() {
	t := l.t
	t.Helper()
	rnd := rand.New(rand.NewPCG(l.seed, 0)) //nolint:gosec // a test that can be repeated
	victim := l.host("victim", "endless")
	for n := range linearHosts - 1 {
		l.working = append(l.working, l.host(fmt.Sprint("host", n), "done"))
	}
	all := append([]*process{victim}, l.working...)
	for _, p := range all {
		p.find(`ready\n`)
	}
	for _, p := range all {
		l.letGo(p)
	}
	// Of its first log, of the store's calls, of which each has some hundred bytes.
	const leastBytes, moreBytes = 4 << 10, 12 << 10
	killAt := leastBytes + rnd.Int64N(moreBytes)
	eventually(t, "the victim is at work", func() bool { return sizeOf(l.logs[0][0]) >= killAt })
	victim.kill()
	again := l.host("victim-again", "done")
	l.letGo(again)
	l.working = append(l.working, again)
}

// end waits until all have done their work.
func (l *linear) end() {
	l.t.Helper()
	for _, p := range l.working {
		p.find(`done\n`)
		if code := p.exitCode(); code != 0 {
			l.t.Errorf("a host ended with %d", code)
		}
	}
}

func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// merged puts the histories of all processes together.
func merged[In, Out any](l *linear, logs []string) history.History[In, Out] {
	l.t.Helper()
	var all []history.History[In, Out]
	for _, path := range logs {
		h, err := history.Load[In, Out](path)
		if err != nil {
			l.t.Fatal(err)
		}
		all = append(all, h)
	}
	h, err := history.Merge(all...)
	if err != nil {
		l.t.Fatal(err)
	}
	return h
}

// checkCalls checks the store's calls. Only a key that fails is looked at again withOutlasted, which is right too
// and takes the checker far longer.
func checkCalls(l *linear, h idempotencytest.KeyHistory) history.Report {
	l.t.Helper()
	model := idempotencytest.KeyModel(linearSlack)
	again := map[string]bool{}
	for range linearKeys {
		_, err := history.Check(withOutlasted(h, again), history.Config{Model: model, TimeMax: waitMax, Dir: l.folder})
		failed, ok := errors.AsType[*history.CheckError](err)
		if !ok || again[failed.Key] {
			break
		}
		again[failed.Key] = true
	}
	if len(again) > 0 {
		l.t.Logf("seed %d: claims that outlasted their lease are needed to explain %d keys", l.seed, len(again))
	}
	return check(l, withOutlasted(h, again), model) // keeps what fails
}

// withOutlasted adds, for some keys, what a claim may have been besides its answer when the call took longer than
// its own lease, as on a busy machine: it may have been won, and have expired and gone to another before its
// caller was told who has the key now. The model knows one moment for each call, so the other is a call that
// nobody was told of.
func withOutlasted(h idempotencytest.KeyHistory, keys map[string]bool) idempotencytest.KeyHistory {
	for _, op := range h.Operations {
		took := time.Duration(op.Return - op.Call)
		if !keys[op.Key] || op.Input.Do != "claim" || op.Unknown() || took < op.Input.Lease-linearSlack {
			continue
		}
		op.Return, op.Output = history.Forever, idempotencytest.KeyAnswer{}
		h.Operations = append(h.Operations, op)
	}
	return h
}

// check checks a history, key by key.
func check[In, Out any](l *linear, h history.History[In, Out], model porcupine.Model) history.Report {
	l.t.Helper()
	report, err := history.Check(h, history.Config{Model: model, Name: l.t.Name(), TimeMax: waitMax})
	if err != nil {
		l.t.Error(err)
	}
	return report
}

func sum(a, b history.Report) history.Report {
	a.Keys += b.Keys
	a.Operations += b.Operations
	a.Unknown += b.Unknown
	a.Took += b.Took
	return a
}
