package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// report prints what is compared, the table, what went wrong, and a line for each case.
func report(w io.Writer, server string, outcomes []outcome) {
	_, _ = fmt.Fprintln(w, machine())
	if server != "" {
		_, _ = fmt.Fprintln(w, server)
	}
	explain(w, outcomes)
	_, _ = fmt.Fprintln(w)
	table(w, outcomes)
	_, _ = fmt.Fprintln(w)
	for _, o := range outcomes {
		if o.err != nil {
			_, _ = fmt.Fprintf(w, "%s/%s failed: %v\n", o.group, o.name, o.err)
		}
	}
	for _, o := range outcomes {
		_, _ = fmt.Fprintln(w, o.line())
	}
}

// explain prints what each side does. A text that several cases share is printed once.
func explain(w io.Writer, outcomes []outcome) {
	shown := map[string]string{}
	for _, o := range outcomes {
		_, _ = fmt.Fprintf(w, "\n%s/%s: %s\n", o.group, o.name, o.what)
		for _, text := range o.explains {
			if where, ok := shown[text]; ok {
				first, _, _ := strings.Cut(text, "\n")
				_, _ = fmt.Fprintf(w, "    %s (as for %s)\n", strings.TrimSuffix(first, ":"), where)
				continue
			}
			shown[text] = o.name
			_, _ = fmt.Fprintf(w, "    %s\n", strings.ReplaceAll(text, "\n", "\n    "))
		}
	}
}

func table(w io.Writer, outcomes []outcome) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "case\tvalue\tgoal\t\tmin–max\tours\ttheirs\tcalls\ttook\t")
	for _, o := range outcomes {
		value := "none"
		if o.err == nil {
			value = o.goal.text(o.value)
		}
		head := strings.Join([]string{o.name, value, o.goal.String(), o.verdict()}, "\t")
		tail := o.took.Round(time.Second).String() + "\t" + strings.Join(o.notes, "; ")
		if len(o.ratios) == 0 {
			_, _ = fmt.Fprintf(t, "%s\t\t\t\t\t%s\n", head, tail)
		}
		for _, r := range o.ratios {
			_, _ = fmt.Fprintf(t, "%s\t%.2f–%.2f\t%s\t%s\t%s + %s\t%s\n", head, slices.Min(r.Rounds), slices.Max(r.Rounds),
				absolute(r, r.Ours), absolute(r, r.Theirs), count(float64(r.Ours.Ops)), count(float64(r.Theirs.Ops)), tail)
			for _, other := range r.Others {
				_, _ = fmt.Fprintf(t, "\t\t\t\t\t\t%s\t%s\t\tslower, so not the baseline\n", absolute(r, other), count(float64(other.Ops)))
			}
			head, tail = "\t\t\t", "\t" // a second measurement of the case
		}
	}
	_ = t.Flush()
}

// absolute is what a side came to on this machine.
func absolute(r Ratio, f Figures) string {
	latencies := fmt.Sprintf("p50 %v p99 %v", round(f.P50), round(f.P99))
	if r.Kind == "throughput" {
		latencies = count(median(f.PerSecond)) + "/s, " + latencies
	}
	if f.Name == "ours" || f.Name == "theirs" {
		return latencies
	}
	return f.Name + ": " + latencies
}

// round leaves three digits.
func round(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}

// count is a number with three digits and, where it is large, a unit.
func count(n float64) string {
	switch {
	case n >= 1e6:
		return fmt.Sprintf("%.3gM", n/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.3gk", n/1e3)
	default:
		return fmt.Sprintf("%.0f", n)
	}
}
