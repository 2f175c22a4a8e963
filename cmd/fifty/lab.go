package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/fiftyhosts/fifty/lab"
)

// labHostName is the hidden command that a host of the lab runs.
const labHostName = "lab-host"

// labFlags are those of lab.
type labFlags struct {
	cfg        lab.Config
	list, json bool
	html       string
}

func (a *app) lab() *cobra.Command {
	var f labFlags
	cmd := &cobra.Command{
		Use:   "lab [SCENARIO...]",
		Short: "Watch the failures of many hosts happen, and Fifty prevent them",
		Long: "lab plays failures of the catalogue (docs/failures.md), each first with the code that a decent engineer writes,\n" +
			"which must show the fault, and then with Fifty, which must not. The hosts are processes, the interleaving is\n" +
			"made and not hoped for, and the database counts the effects. Without SCENARIO, which is a number or a name,\n" +
			"it plays all that are there.\n\n" +
			"flash-sale is a show, and is played by its name alone: more buyers than tickets, all at once, on each rung of the\n" +
			"ladder from the textbook's conditional decrement to a SKU in buckets. The numbers are shown as they go, and the\n" +
			"books must add up at the end.\n\n" +
			"The lab works in a place of its own and takes it away at the end: a temporary SQLite file, for sqlite://PATH\n" +
			"a file beside PATH, for postgres:// a schema fifty_lab_... of that database. What a lab that was killed left\n" +
			"there, the next one takes away.\n\n" +
			"The exit code is 0 when each run came to what it must; 1 when one did not, or on SIGINT or SIGTERM; 2 when there\n" +
			"is no result, since the database failed, a host died or the command line is wrong.",
		Example: "  fifty lab --list\n" +
			"  fifty lab 1 --hosts 50\n" +
			"  fifty lab check-then-act --db postgres://me@localhost/shop --seed 7\n" +
			"  fifty lab flash-sale --hosts 8 --buyers 20000\n" +
			"  fifty lab --html lab.html",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, e := range lab.Catalogue() {
				if !e.ToCome {
					names = append(names, e.Name+"\t"+e.Title)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.list {
				return a.printCatalogue(f.json)
			}
			f.cfg.Scenarios = args
			if err := f.checkSale(cmd.Flags().Changed); err != nil {
				return err
			}
			if !cmd.Flags().Changed("seed") {
				f.cfg.Seed = newSeed()
			}
			return a.runLab(cmd.Context(), f)
		},
	}
	flags := cmd.Flags()
	f.cfg.DB = os.Getenv("FIFTY_DB")
	flags.Var((*dbValue)(&f.cfg.DB), "db", "database: sqlite://PATH or postgres://USER@HOST/NAME (env FIFTY_DB; default a temporary SQLite file)")
	flags.IntVar(&f.cfg.Hosts, "hosts", lab.HostsDefault, fmt.Sprintf("how many hosts there are, %d to %d", lab.HostsMin, lab.HostsMax))
	flags.Int64Var(&f.cfg.Seed, "seed", 0, "which host is when at which point; the same seed gives the same order (default another each time)")
	flags.IntVar(&f.cfg.Buyers, "buyers", lab.BuyersDefault, fmt.Sprintf("flash-sale: how many buyers come, %d to %d", lab.BuyersMin, lab.BuyersMax))
	flags.IntVar(&f.cfg.Tickets, "tickets", 0, fmt.Sprintf("flash-sale: how many tickets there are, fewer than buyers, at most %d (default %d, or half as many as buyers)", lab.TicketsMax, lab.TicketsDefault))
	flags.StringVar(&f.html, "html", "", "write what happened into this file too, as one page that needs nothing else")
	flags.BoolVar(&f.list, "list", false, "list the catalogue, and what is to come")
	flags.BoolVar(&f.json, "json", false, "print JSON, when all is done")
	return cmd
}

// checkSale refuses what the library would take for a default, and what nobody would heed.
func (f labFlags) checkSale(given func(flag string) bool) error {
	for _, c := range []struct {
		flag        string
		n, min, max int
		why         string
	}{
		{"buyers", f.cfg.Buyers, lab.BuyersMin, lab.BuyersMax, ""},
		{"tickets", f.cfg.Tickets, 1, min(lab.TicketsMax, f.cfg.Buyers-1), ": there are fewer than buyers, so that somebody is refused"},
	} {
		switch {
		case !given(c.flag):
		case !slices.Contains(f.cfg.Scenarios, lab.FlashSale):
			return fmt.Errorf("--%s is for %s: fifty lab %s --%s %d", c.flag, lab.FlashSale, lab.FlashSale, c.flag, c.n)
		case c.n < c.min || c.n > c.max:
			return fmt.Errorf("--%s is %d; it can be %d to %d%s", c.flag, c.n, c.min, c.max, c.why)
		}
	}
	return nil
}

// newSeed is short enough to be copied by hand.
func newSeed() int64 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return int64(binary.BigEndian.Uint32(b[:]) % 1_000_000)
}

func (a *app) printCatalogue(asJSON bool) error {
	all := lab.Catalogue()
	if asJSON {
		return a.printJSON(struct {
			Scenarios []lab.Entry `json:"scenarios"`
		}{all})
	}
	table := tabwriter.NewWriter(a.out, 0, 8, 2, ' ', 0)
	for _, e := range all {
		number, state := strconv.Itoa(e.Number), ""
		switch {
		case e.Show:
			number, state = "–", "show"
		case e.ToCome:
			state = "to come"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", number, e.Name, state, e.Title)
	}
	if err := table.Flush(); err != nil {
		return &failure{err}
	}
	return nil
}

func (a *app) runLab(parent context.Context, f labFlags) (err error) {
	if f.cfg.HostCommand, err = lab.SelfCommand(labHostName); err != nil {
		return err
	}
	if f.cfg.Hosts < lab.HostsMin || f.cfg.Hosts > lab.HostsMax { // zero too, which the library takes for the default
		return fmt.Errorf("--hosts is %d; it can be %d to %d: what goes wrong here goes wrong between hosts, and each is a process with database connections of its own", f.cfg.Hosts, lab.HostsMin, lab.HostsMax)
	}
	if err := f.cfg.Validate(); err != nil {
		return err
	}
	page, err := newPage(f.html)
	if err != nil {
		return err
	}
	defer page.discard()
	ctx, _, stop := a.untilSignal(parent)
	defer stop()
	var sale lastTick
	f.cfg.Watcher = a.watcher(f.json, &sale)
	report, err := lab.Play(ctx, f.cfg)
	if err != nil {
		return interrupted(ctx, err, &sale)
	}
	if f.json {
		if err := a.printJSON(report); err != nil {
			return err
		}
	}
	if err := page.keep(report); err != nil {
		return err
	}
	if !report.OK {
		return &failure{fmt.Errorf("a run did not come to what it must; the same order again: --seed %d", report.Seed)}
	}
	return nil
}

// interrupted is the error of a run that a signal ended, whatever else that led to; any other comes back as it is.
func interrupted(ctx context.Context, err error, sale *lastTick) error {
	switch {
	case ctx.Err() == nil:
		return err
	case err == context.Canceled: //nolint:errorlint // this alone says that the end was clean
		return &failure{errors.New("interrupted; the hosts are gone and nothing is left behind" + sale.text())}
	default:
		return &failure{fmt.Errorf("interrupted: %w", err)}
	}
}

// lastTick shows nothing, and remembers how a sale stood, to be told if it is interrupted.
type lastTick struct {
	lab.Silent
	tick *lab.Tick
}

func (l *lastTick) Run(lab.Played)    { l.tick = nil }
func (l *lastTick) Tick(now lab.Tick) { l.tick = &now }

func (l *lastTick) text() string {
	if l.tick == nil {
		return ""
	}
	return fmt.Sprintf("; the sale stood at %d tried, %d sold, %d refused, %d left", l.tick.Tried, l.tick.Sold, l.tick.Refused, l.tick.Left)
}

// watcher shows the session as it goes. Nothing can be shown before the one document of JSON, so sale remembers.
func (a *app) watcher(asJSON bool, sale *lastTick) lab.Watcher {
	if asJSON {
		return sale
	}
	t := &lab.Text{Out: a.out, Color: isTerminal(a.out) && os.Getenv("NO_COLOR") == ""}
	if isTerminal(a.out) && isTerminal(a.err) {
		t.Live = a.err
	}
	return t
}

// isTerminal says whether somebody looks at what is written.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && f.Name() != os.DevNull
}

func (a *app) labHost() *cobra.Command {
	return &cobra.Command{
		Use:     labHostName,
		Short:   "Be a host of the lab (\"fifty lab\" starts it)",
		Long:    "lab-host does what \"fifty lab\" tells it on its standard input, and ends when that ends.",
		Example: "  fifty lab --hosts " + strconv.Itoa(lab.HostsDefault),
		Hidden:  true,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return lab.ServeHost(cmd.Context(), a.in, a.out)
		},
	}
}
