package lab

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fiftyhosts/fifty/faults/hosts"
)

// eventsMax bounds a timeline.
const eventsMax = 20_000

// A Stage is what a run is conducted on: hosts, their database, a timeline and a seed. Its methods are safe
// for concurrent use, except for Rand and what uses it.
type Stage struct {
	// Hosts are numbered from 1. They are processes, fresh for this run.
	Hosts []*Host
	// Rand is the only source of chance: the same seed makes the same choices.
	Rand *rand.Rand
	// DB is the conductor's own look at the tables.
	DB *Database

	lab     *session
	script  *Scenario
	world   world
	began   time.Time
	giveUp  context.CancelCauseFunc
	watcher Watcher

	mu     sync.Mutex
	events []Event
	ticks  []Tick
	over   bool    // the timeline is closed
	extra  []*Host // clients
}

// record puts a step into the timeline.
func (s *Stage) record(host string, step Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || len(s.events) > eventsMax {
		return
	}
	if len(s.events) == eventsMax {
		host, step = "", Step{Did: fmt.Sprintf("that were %d steps; the rest is not shown", eventsMax)}
	}
	if len(s.events) == 0 {
		s.began = time.Now() // what came before is not the story
	}
	e := Event{AtMS: millis(time.Since(s.began)), Host: host, Step: step}
	s.events = append(s.events, e)
	s.watcher.Event(e)
}

func millis(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
}

// Tell puts a sentence of the narrator into the timeline.
func (s *Stage) Tell(format string, args ...any) {
	s.record("", Step{Did: fmt.Sprintf(format, args...)})
}

// Progress shows what is being waited for. It is not part of the timeline.
func (s *Stage) Progress(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watcher.Progress(fmt.Sprintf(format, args...))
}

// ticksMax bounds the numbers that are kept of a run.
const ticksMax = 2000

// tick puts the numbers of this moment into the report.
func (s *Stage) tick(t Tick) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.AtMS = millis(time.Since(s.began))
	if len(s.ticks) < ticksMax {
		s.ticks = append(s.ticks, t)
	}
	s.watcher.Tick(t)
}

// Shuffled returns the hosts in an order that the seed chooses.
func (s *Stage) Shuffled() []*Host {
	all := make([]*Host, len(s.Hosts))
	for i, j := range s.Rand.Perm(len(s.Hosts)) {
		all[i] = s.Hosts[j]
	}
	return all
}

// Client starts one more process, which is no host of the service but somebody who calls it.
func (s *Stage) Client(ctx context.Context, name string) (*Host, error) {
	h := s.newHost(name, 0)
	proc, err := hosts.Start(s.config(h))
	if err != nil {
		return nil, &HostError{Host: name, Why: err.Error()}
	}
	s.mu.Lock()
	s.extra = append(s.extra, h)
	s.mu.Unlock()
	return h, s.begin(ctx, []*Host{h}, []*hosts.Host{proc})
}

// start starts the hosts, all at once.
func (s *Stage) start(ctx context.Context, n int) error {
	s.Progress("starting %d hosts", n)
	for i := range n {
		s.Hosts = append(s.Hosts, s.newHost(fmt.Sprintf("host %d", i+1), i+1))
	}
	procs, err := hosts.StartAll(n, func(i int) hosts.Config { return s.config(s.Hosts[i]) })
	if err != nil {
		s.Hosts = nil
		return fmt.Errorf("the hosts can't be started: %w", err)
	}
	err = s.begin(ctx, s.Hosts, procs)
	if err == nil && s.lab.cfg.staged != nil {
		s.lab.cfg.staged(s)
	}
	return err
}

func (s *Stage) newHost(name string, number int) *Host {
	return &Host{
		Name: name, Number: number, stage: s, calls: make(map[int]*Call),
		ready: make(chan struct{}), gone: make(chan struct{}),
	}
}

func (s *Stage) config(h *Host) hosts.Config {
	command := s.lab.cfg.HostCommand
	return hosts.Config{Path: command[0], Args: command[1:], Name: h.Name, Output: h}
}

// begin tells the processes who they are, and waits until all have their database.
func (s *Stage) begin(ctx context.Context, all []*Host, procs []*hosts.Host) error {
	for i, h := range all {
		h.proc = procs[i]
		h.input = procs[i].Stdin()
		go h.watch()
	}
	for _, h := range all {
		if err := h.tell(order{Setup: &setup{Scenario: s.script.Name, Name: h.Name, Number: h.Number, World: s.world}}); err != nil {
			return err
		}
	}
	for _, h := range all {
		select {
		case <-h.ready:
		case <-h.gone:
			return h.death()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// end kills all processes and returns when they are gone.
func (s *Stage) end() error {
	s.mu.Lock()
	all := append(append([]*Host{}, s.Hosts...), s.extra...)
	s.mu.Unlock()
	var procs []*hosts.Host
	for _, h := range all {
		h.mu.Lock()
		h.spared = true
		h.mu.Unlock()
		if h.proc != nil {
			procs = append(procs, h.proc)
		}
	}
	err := hosts.KillAll(procs)
	for _, h := range all {
		if h.proc != nil && err == nil {
			<-h.gone
		}
	}
	return err
}

// fail ends the run. The first one counts.
func (s *Stage) fail(err error) { s.giveUp(err) }

// Now is the time by the database's clock.
func (s *Stage) Now(ctx context.Context) (time.Time, error) {
	var ms int64
	err := s.DB.QueryRow(ctx, `select now_ms()`).Scan(&ms)
	return time.UnixMilli(ms), err
}

// WaitUntil returns when the database's clock has reached t.
func (s *Stage) WaitUntil(ctx context.Context, t time.Time, what string) error {
	s.Progress("waiting until %s", what)
	for {
		now, err := s.Now(ctx)
		if err != nil {
			return err
		}
		if now.After(t) {
			return nil
		}
		timer := time.NewTimer(t.Sub(now) + time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

// Count runs a query that counts rows.
func (s *Stage) Count(ctx context.Context, query string, args ...any) (n int, err error) {
	return n, s.DB.QueryRow(ctx, query, args...).Scan(&n)
}
