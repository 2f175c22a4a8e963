package interleave

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// state is where a caller is.
type state int

const (
	running  state = iota
	waiting        // at a point, for its turn
	blocked        // silent: something outside holds it
	finished       // it returned
)

// schedule is one run of a case.
type schedule struct {
	opts   Options
	cs     Case
	path   []*node // the decisions; those that are there at the start are followed
	events chan event
	over   chan struct{}

	callers []state
	pending [][]event // where a waiting caller is; several, when it has goroutines of its own
	all     sync.WaitGroup

	steps    []string // what was done, for the trace
	letters  strings.Builder
	pick     func(n int) int // chooses one of n callers; nil takes the first
	last     int             // who went last
	blocked  int             // how often a caller was found blocked
	diverged bool
	err      error // of a caller
}

func newSchedule(opts Options, cs Case) *schedule {
	n := len(cs.Callers)
	if n == 0 || n > callersMax {
		panic(fmt.Sprintf("interleave: a case has 1 to %d callers, not %d", callersMax, n))
	}
	return &schedule{
		opts: opts, cs: cs, events: make(chan event), over: make(chan struct{}),
		callers: make([]state, n), pending: make([][]event, n), last: -1,
	}
}

// run runs the callers to their end and checks the case. An error is a *Failure.
func (s *schedule) run(parent context.Context) error {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	err := s.drive(ctx)
	if err != nil {
		cancel()
	}
	close(s.over)
	s.leave()
	if err == nil {
		err = s.err
	}
	if err == nil && s.cs.Check != nil {
		err = s.cs.Check()
	}
	if err != nil {
		return &Failure{Schedule: s.letters.String(), Trace: s.steps, Err: err}
	}
	return nil
}

// drive starts the callers one after the other, each to its first point, and then gives turns.
func (s *schedule) drive(ctx context.Context) error {
	for id, fn := range s.cs.Callers {
		c := &caller{id: id, events: s.events, over: s.over}
		s.all.Go(func() { c.run(ctx, fn) })
		s.await(ctx, id)
	}
	for depth := 0; ; depth++ {
		ready, err := s.ready(ctx)
		if err != nil || len(ready) == 0 {
			return err
		}
		if depth == stepsMax {
			return fmt.Errorf("the callers are not done after %d steps", stepsMax)
		}
		id := s.choose(ctx, depth, ready)
		s.turn(id)
		s.await(ctx, id)
	}
}

// turn lets a waiting caller go on.
func (s *schedule) turn(id int) {
	e := s.pending[id][0]
	s.pending[id] = s.pending[id][1:]
	s.steps = append(s.steps, letter(id)+" "+e.point)
	s.letters.WriteString(letter(id))
	s.last = id
	if len(s.pending[id]) == 0 {
		s.callers[id] = running
	}
	close(e.release)
}

// leave waits for callers that were cut off, so that they don't disturb what comes next.
func (s *schedule) leave() {
	left := make(chan struct{})
	go func() {
		defer close(left)
		s.all.Wait()
	}()
	limit := time.NewTimer(s.opts.Stuck)
	defer limit.Stop()
	select {
	case <-left:
	case <-limit.C:
	}
}

// ready returns the callers that could go now, whoever went last first; none when all are finished.
func (s *schedule) ready(ctx context.Context) ([]int, error) {
	deadline := time.NewTimer(s.opts.Stuck)
	defer deadline.Stop()
	for {
		var ids []int
		for id, st := range s.callers {
			if st == waiting {
				ids = append(ids, id)
			}
		}
		if len(ids) > 0 {
			if i := slices.Index(ids, s.last); i > 0 {
				ids = slices.Insert(slices.Delete(ids, i, i+1), 0, s.last)
			}
			return ids, nil
		}
		if !slices.ContainsFunc(s.callers, func(st state) bool { return st != finished }) {
			return nil, nil
		}
		select {
		case e := <-s.events:
			s.note(e)
		case <-deadline.C:
			return nil, s.stuck()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// choose says whose turn it is, and remembers who else could have had it.
func (s *schedule) choose(ctx context.Context, depth int, ready []int) int {
	if s.diverged {
		return ready[0]
	}
	if depth < len(s.path) {
		n := s.path[depth]
		for _, id := range ready { // one that was only slow when this decision was made first
			if !slices.Contains(n.choices, id) && s.opts.Schedule == "" {
				n.choices = append(n.choices, id)
			}
		}
		if id := n.choice(); s.callers[id] == waiting || s.comes(ctx, id) {
			return id
		}
		s.diverged = true
		return ready[0]
	}
	n := &node{choices: ready, last: s.last}
	if depth > 0 {
		before := s.path[depth-1]
		n.preemptions = before.cost(before.at)
	}
	if s.pick != nil && !s.tired(n) {
		n.at = s.pick(len(ready))
	}
	s.path = append(s.path, n)
	return n.choice()
}

// tired says that the caller that went last must go on: it was interrupted as often as allowed.
func (s *schedule) tired(n *node) bool {
	most := s.opts.PreemptionsMax
	return most > 0 && n.preemptions >= most && slices.Contains(n.choices, n.last)
}

// comes waits for a caller whose turn it must be by the schedule, and says whether it came to a point.
func (s *schedule) comes(ctx context.Context, id int) bool {
	limit := time.NewTimer(10 * s.opts.Grace)
	defer limit.Stop()
	for s.callers[id] != waiting && s.callers[id] != finished {
		select {
		case e := <-s.events:
			s.note(e)
		case <-limit.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return s.callers[id] == waiting
}

// await waits until the caller that has its turn is at its next point or has returned. When it is silent
// for the grace it counts as blocked. Callers that were blocked before get the chance to come back.
func (s *schedule) await(ctx context.Context, id int) {
	limit := time.NewTimer(s.grace())
	defer limit.Stop()
	var poll <-chan time.Time
	if s.opts.Blocked != nil {
		ticker := time.NewTicker(blockedPoll)
		defer ticker.Stop()
		poll = ticker.C
	}
	settling := false
	for s.callers[id] == running || s.count(blocked) > 0 {
		if s.callers[id] != running && !settling {
			settling = true
			limit.Reset(s.settle())
		}
		select {
		case e := <-s.events:
			s.note(e)
			continue
		case <-poll:
			if s.opts.Blocked(ctx) < s.count(blocked)+s.count(running) {
				continue
			}
		case <-limit.C:
		case <-ctx.Done():
		}
		if s.callers[id] == running {
			s.callers[id] = blocked
			s.blocked++
		}
		return
	}
}

// grace is how long a caller may be silent: with someone to ask whether it is blocked, until it is stuck.
func (s *schedule) grace() time.Duration {
	if s.opts.Blocked != nil {
		return s.opts.Stuck
	}
	return s.opts.Grace
}

// settle is how long one that was blocked may take to come back after another's turn.
func (s *schedule) settle() time.Duration {
	if s.opts.Blocked != nil {
		return s.opts.Grace
	}
	return s.opts.Grace / 4
}

func (s *schedule) note(e event) {
	id := e.caller
	switch {
	case e.finished:
		s.callers[id] = finished
		if s.err == nil {
			s.err = e.err
		}
		for _, left := range s.pending[id] { // goroutines that it left behind
			close(left.release)
		}
		s.pending[id] = nil
	case s.callers[id] == finished:
		close(e.release)
	default:
		s.callers[id] = waiting
		s.pending[id] = append(s.pending[id], e)
	}
}

func (s *schedule) count(want state) int {
	n := 0
	for _, st := range s.callers {
		if st == want {
			n++
		}
	}
	return n
}

func (s *schedule) stuck() error {
	var names []string
	for id, st := range s.callers {
		if st != finished {
			names = append(names, letter(id))
		}
	}
	if len(names) == 1 {
		return fmt.Errorf("caller %s is blocked, although all others have returned", names[0])
	}
	return errors.New("callers " + strings.Join(names, ", ") + " are blocked by one another")
}
