package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// options is what the arguments say.
type options struct {
	groups []group // with the cases that were asked for
	list   bool
	rough  bool
	db     string
	raw    string
	plot   string // a file, or empty

	profiles string // a folder, or empty
}

var errHelp = errors.New("help was asked for")

// parse reads the arguments. Flags may stand before and after groups.
func parse(args []string, all []group) (options, error) {
	var (
		o    options
		only string
	)
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // command prints what is wrong
	flags.BoolVar(&o.list, "list", false, "")
	flags.BoolVar(&o.rough, "quick", false, "")
	flags.StringVar(&only, "only", "", "")
	flags.StringVar(&o.db, "db", "", "")
	flags.StringVar(&o.raw, "json", "", "")
	flags.StringVar(&o.plot, "plot", "", "")
	flags.StringVar(&o.profiles, "profile", "", "")
	var names []string
	for rest := args; ; {
		if err := flags.Parse(rest); errors.Is(err, flag.ErrHelp) {
			return options{}, errHelp
		} else if err != nil {
			return options{}, err
		}
		if flags.NArg() == 0 {
			break
		}
		names = append(names, flags.Arg(0))
		rest = flags.Args()[1:]
	}
	if len(names) == 0 && !o.list {
		return options{}, errors.New("name a group to measure")
	}
	var err error
	if o.groups, err = choose(all, names, only); err != nil {
		return o, err
	}
	if o.plot != "" && !slices.ContainsFunc(o.groups, group.grows) {
		return o, errors.New("--plot: none of these cases can be drawn; the group growth can")
	}
	return o, nil
}

// choose returns the named groups, or all, with the cases that the pattern matches.
func choose(all []group, names []string, only string) ([]group, error) {
	var chosen []group
	for _, name := range names {
		at := slices.IndexFunc(all, func(g group) bool { return g.Name == name })
		if at < 0 {
			return nil, fmt.Errorf("there is no group %q", name)
		}
		if !slices.ContainsFunc(chosen, func(g group) bool { return g.Name == name }) {
			chosen = append(chosen, all[at])
		}
	}
	if len(names) == 0 {
		chosen = slices.Clone(all)
	}
	if only == "" {
		return chosen, nil
	}
	found := 0
	for i := range chosen {
		var kept []Case
		for _, c := range chosen[i].Cases {
			matches, err := path.Match(only, c.Name)
			if err != nil {
				return nil, fmt.Errorf("--only %q: %w", only, err)
			}
			if matches {
				kept = append(kept, c)
			}
		}
		chosen[i].Cases = kept
		found += len(kept)
	}
	if found == 0 {
		return nil, fmt.Errorf("no case matches --only %q; --list shows them", only)
	}
	return chosen, nil
}

func usage(w io.Writer, all []group) {
	_, _ = fmt.Fprint(w, `Usage: go run . GROUP... [flags]

  --list       the groups and cases, with their goals and what they measure
  --only NAME  only the cases of that name; * stands for any letters ("gateway-*")
  --quick      a rough look, in a tenth of the time: nothing is ok or short
  --db URL     a Postgres server to use (postgres://...), on which databases may be made;
               without it, a private one is started and ended
  --json FILE  write the raw figures of each round there
  --plot FILE  draw the cases that grow (group growth) into an SVG file
  --profile FOLDER
               leave a CPU profile of each slice of ours there, for go tool pprof

Exit codes: 0 every goal is met, 1 one is short, 2 usage, 130 interrupted.

Groups:
`)
	for _, g := range all {
		_, _ = fmt.Fprintf(w, "  %-12s %s\n", g.Name, g.What)
	}
}

func list(w io.Writer, chosen []group) {
	for i, g := range chosen {
		if i > 0 {
			_, _ = fmt.Fprintln(w)
		}
		_, _ = fmt.Fprintf(w, "%s: %s\n", g.Name, g.What)
		for _, c := range g.Cases {
			_, _ = fmt.Fprintf(w, "\n  %s/%s  goal %s\n    %s\n", g.Name, c.Name, c.Goal, strings.ReplaceAll(c.What, "\n", "\n    "))
		}
	}
}
