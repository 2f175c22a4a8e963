package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/fiftyhosts/fifty"
)

// Bounds and defaults of Config.
const (
	HostsMin     = 2   // one host alone has none of these faults
	HostsMax     = 100 // each is a process with connections of its own
	HostsDefault = 8
)

// runMax bounds one run. It takes some seconds; a run that gets here hangs. A show takes as long as its crowd is
// large, and is bounded by showMax.
const (
	runMax  = 3 * time.Minute
	showMax = 30 * time.Minute
)

// Config is that of Play.
type Config struct {
	// Scenarios are numbers of the catalogue or names. Defaults to all that are there, but for shows.
	Scenarios []string
	// DB is the URL of a database: sqlite:// or postgres://. The lab works in a file or schema of its own and
	// takes it away at the end. Defaults to a temporary SQLite file.
	DB string
	// Hosts is how many processes there are, HostsMin to HostsMax. Defaults to HostsDefault.
	Hosts int
	// Buyers is how many buyers come to the flash sale, BuyersMin to BuyersMax. Defaults to BuyersDefault.
	Buyers int
	// Tickets is how many tickets there are for them: fewer than buyers, and at most TicketsMax. Defaults to
	// TicketsDefault, or to half of the buyers if these are fewer.
	Tickets int
	// Seed decides which host is when at which point. Zero is a seed as well.
	Seed int64
	// HostCommand runs ServeHost on its standard input and output: a program and its arguments. Required.
	HostCommand []string
	// Watcher sees it all as it goes. Defaults to Silent.
	Watcher Watcher

	staged func(*Stage) // a test's hand on the hosts of each run
}

func (c Config) withDefaults() Config {
	if c.Hosts == 0 {
		c.Hosts = HostsDefault
	}
	if c.Watcher == nil {
		c.Watcher = Silent{}
	}
	return c
}

// Validate returns a *fifty.InvalidError or an *UnknownError for what can't be run.
func (c Config) Validate() error {
	if _, err := Find(c.Scenarios); err != nil {
		return err
	}
	switch {
	case c.Hosts != 0 && c.Hosts < HostsMin:
		return &fifty.InvalidError{Field: "Config.Hosts", Problem: fmt.Sprintf("is %d; it can be %d to %d: what goes wrong here goes wrong between hosts", c.Hosts, HostsMin, HostsMax)}
	case c.Hosts > HostsMax:
		return &fifty.InvalidError{Field: "Config.Hosts", Problem: fmt.Sprintf("is %d; it can be %d to %d: each is a process with database connections of its own", c.Hosts, HostsMin, HostsMax)}
	case c.Buyers != 0 && (c.Buyers < BuyersMin || c.Buyers > BuyersMax):
		return &fifty.InvalidError{Field: "Config.Buyers", Problem: fmt.Sprintf("is %d; it can be %d to %d", c.Buyers, BuyersMin, BuyersMax)}
	case c.Tickets < 0 || c.Tickets > TicketsMax:
		return &fifty.InvalidError{Field: "Config.Tickets", Problem: fmt.Sprintf("is %d; it can be 1 to %d", c.Tickets, TicketsMax)}
	case c.tooManyTickets():
		return &fifty.InvalidError{Field: "Config.Tickets", Problem: fmt.Sprintf("is %d; there must be fewer than buyers, so that somebody is refused", c.Tickets)}
	case len(c.HostCommand) == 0:
		return &fifty.InvalidError{Field: "Config.HostCommand", Problem: "is empty; name the program that runs ServeHost"}
	}
	return nil
}

// session is one call of Play.
type session struct {
	cfg   Config
	place place
}

// Play plays scenarios, one after the other, and reports how each went. That a run did not come to what it must
// is no error: see Report.OK. An error means that there is no result: what was asked for can't be run, the
// database failed, a host died (*HostError), or ctx ended (its cause). In any case no process, file or schema is
// left; if one had to be, the error names it.
func Play(ctx context.Context, cfg Config) (report Report, err error) {
	if err := cfg.Validate(); err != nil {
		return Report{}, err
	}
	cfg = cfg.withDefaults()
	scenarios, err := Find(cfg.Scenarios)
	if err != nil {
		return Report{}, err
	}
	where, err := openPlace(ctx, cfg.DB, cfg.Hosts)
	if err != nil {
		return Report{}, because(ctx, err)
	}
	defer func() { err = also(err, where.close()) }()
	l := &session{cfg: cfg, place: where}
	report = Report{Seed: cfg.Seed, Hosts: cfg.Hosts, Database: where.name(), OK: true}
	cfg.Watcher.Session(report)
	for _, s := range scenarios {
		p, err := l.perform(ctx, s)
		if err != nil {
			cfg.Watcher.Broken()
			return Report{}, err
		}
		report.Scenarios = append(report.Scenarios, p)
		report.OK = report.OK && p.OK
	}
	cfg.Watcher.End(report)
	return report, nil
}

// also adds an error of the clean-up to another one, which stays as it is when there is nothing to add.
func also(err, more error) error {
	if more == nil {
		return err
	}
	return errors.Join(err, more)
}

// because is the cause of a context's end, if it has ended, for then err is only what that led to.
func because(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (l *session) perform(ctx context.Context, s *Scenario) (Performance, error) {
	p := Performance{Number: s.Number, Name: s.Name, Title: s.Title, Show: s.Show, Wrong: s.Wrong, Fix: s.Fix, OK: true}
	l.cfg.Watcher.Scenario(p)
	for i := range s.Runs {
		played, err := l.play(ctx, s, i)
		if err != nil {
			return p, err
		}
		p.Runs = append(p.Runs, played)
		p.OK = p.OK && played.OK
	}
	return p, nil
}

// play plays one run in a world of its own, which is gone when it returns.
func (l *session) play(ctx context.Context, s *Scenario, i int) (played Played, err error) {
	run := s.Runs[i]
	played = Played{Kind: run.Kind, Title: run.Title}
	l.cfg.Watcher.Run(played)
	limit := runMax
	if s.Show {
		limit = showMax
	}
	limited, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s, %q, did not end within %v; is the machine or the database very slow?", s.Name, run.Title, limit))
	defer cancel()
	limited, giveUp := context.WithCancelCause(limited)
	defer giveUp(nil)

	w, err := l.place.fresh(limited)
	if err != nil {
		return played, because(limited, l.place.explain(err))
	}
	defer func() { err = also(err, l.place.drop(context.WithoutCancel(ctx), w)) }()
	db, err := makeWorld(limited, w, s.Tables)
	if err != nil {
		return played, because(limited, l.place.explain(err))
	}
	stage := &Stage{
		DB: db, lab: l, script: s, world: w, began: time.Now(), giveUp: giveUp, watcher: l.cfg.Watcher,
		Rand: rand.New(rand.NewPCG(uint64(l.cfg.Seed), uint64(s.Number)<<32|uint64(i))), //nolint:gosec // a seed, no secret
	}
	defer func() { err = also(err, errors.Join(stage.end(), db.Close())) }()
	n := l.cfg.Hosts
	if s.HostsMax != 0 {
		n = min(n, s.HostsMax)
	}
	if err := stage.start(limited, n); err != nil {
		return played, because(limited, err)
	}
	verdict, err := run.Play(limited, stage)
	if err != nil {
		return played, because(limited, err)
	}
	return stage.close(played, verdict), nil
}

// close is the run's entry in the report.
func (s *Stage) close(p Played, v Verdict) Played {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for _, h := range append(append([]*Host{}, s.Hosts...), s.extra...) {
		p.Lanes = append(p.Lanes, h.Name)
	}
	p.Events, p.Ticks, p.Fault, p.Figures = s.events, s.ticks, v.Fault, v.Figures
	p.TookMS = millis(time.Since(s.began))
	p.OK, p.Verdict = v.as(p.Kind)
	s.watcher.Verdict(p)
	return p
}

// SelfCommand is the HostCommand of a program that runs ServeHost when it is called with args.
func SelfCommand(args ...string) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("the hosts are processes of this same program, and its file can't be found: %w", err)
	}
	return append([]string{self}, args...), nil
}
