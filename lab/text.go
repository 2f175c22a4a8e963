package lab

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Text is a Watcher that prints a session for people. The zero value needs Out.
type Text struct {
	Out io.Writer
	// Live gets a line that is written over again and again while something is waited for. Defaults to none.
	Live io.Writer
	// Color allows escape sequences for colours in Out.
	Color bool

	pending []Event // of this run
	shown   bool    // a live line is there
	numbers numbers // of a sale
}

// Widths of the columns of a timeline, in characters.
const (
	timeWidth  = 11
	laneWidth  = 12
	didWidth   = 46
	proseWidth = 100
	saidWidth  = 48
)

// The colours, by meaning.
const (
	reset  = "\x1b[0m"
	bold   = "\x1b[1m"
	faint  = "\x1b[2m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
)

func (t *Text) paint(code, text string) string {
	if !t.Color || code == "" || text == "" {
		return text
	}
	return code + text + reset
}

func colorOf(tone Tone) string {
	switch tone {
	case Good:
		return green
	case Bad:
		return red
	case Wait:
		return yellow
	default:
		return ""
	}
}

func (t *Text) printf(format string, args ...any) {
	t.clear()
	fmt.Fprintf(t.Out, format, args...)
}

// clear takes the live line away.
func (t *Text) clear() {
	if t.shown {
		fmt.Fprint(t.Live, "\r\x1b[K")
		t.shown = false
	}
}

// Session prints what is the same for all scenarios.
func (t *Text) Session(r Report) {
	t.printf("%d hosts, seed %d, %s\n", r.Hosts, r.Seed, r.Database)
}

// Scenario prints what it is about.
func (t *Text) Scenario(p Performance) {
	number := fmt.Sprintf("%d  ", p.Number)
	if p.Show {
		number = ""
	}
	t.printf("\n%s\n", t.paint(bold, fmt.Sprintf("%s%s: %s", number, p.Name, p.Title)))
	for _, line := range wrap(p.Wrong, proseWidth) {
		t.printf("   %s\n", line)
	}
	for i, line := range wrap(p.Fix, proseWidth) {
		t.printf("   %s%s\n", [2]string{"Fix: ", "     "}[min(i, 1)], line)
	}
}

// Run prints how it is done.
func (t *Text) Run(p Played) {
	t.pending, t.numbers = nil, numbers{}
	t.printf("\n   %s  %s\n", t.paint(bold, string(p.Kind)), p.Title)
}

// Event keeps it until it is known what is the same by other hosts.
func (t *Text) Event(e Event) {
	t.pending = append(t.pending, e)
	if e.Host == "" {
		t.live(e.Did)
	} else {
		t.live(e.Host + ": " + e.Did)
	}
}

// flush prints the timeline.
func (t *Text) flush() {
	blank := strings.Repeat(" ", timeWidth)
	for _, m := range fold(t.pending) {
		for _, e := range m.first {
			at := t.paint(faint, fmt.Sprintf("%*.1f ms", timeWidth-3, e.AtMS))
			if e.Host != "" {
				t.line(at, e.Host, e.Step)
				continue
			}
			for i, line := range wrap(e.Did, laneWidth+didWidth+saidWidth/2) {
				if i > 0 {
					at = blank
				}
				t.printf("%s  %s\n", at, t.paint(faint, [2]string{"· ", "  "}[min(i, 1)]+line))
			}
		}
		if len(m.more) > 0 {
			t.printf("%s  %s\n", blank, t.paint(faint, m.others()+": "+m.again()))
		}
	}
	t.pending = nil
}

// line prints a step in columns; what doesn't fit goes on below.
func (t *Text) line(at, host string, step Step) {
	did, said := wrap(step.Did, didWidth), wrap(step.Said, saidWidth)
	for i := range max(len(did), len(said)) {
		var d, s string
		if i < len(did) {
			d = did[i]
		}
		if i < len(said) {
			s = said[i]
		}
		if i > 0 {
			at, host = strings.Repeat(" ", timeWidth), ""
		}
		text := fmt.Sprintf("%s  %s  %s  %s", at, pad(host, laneWidth), pad(d, didWidth), t.paint(colorOf(step.Tone), s))
		t.printf("%s\n", strings.TrimRight(text, " "))
	}
}

// Progress writes the live line.
func (t *Text) Progress(text string) { t.live(text) }

// liveMax is how much of a text the live line shows, so that it is one line.
const liveMax = 70

func (t *Text) live(text string) {
	if t.Live == nil {
		return
	}
	if short := []rune(text); len(short) > liveMax {
		text = string(short[:liveMax]) + "…"
	}
	fmt.Fprintf(t.Live, "\r\x1b[K   %s", text)
	t.shown = true
}

// Broken prints what there is of the timeline.
func (t *Text) Broken() {
	t.lastTick()
	t.flush()
	t.clear()
}

// Verdict prints what came of a run.
func (t *Text) Verdict(p Played) {
	t.lastTick()
	t.flush()
	mark, tone := "✓", Good
	if !p.OK {
		mark, tone = "✗", Bad
	}
	t.printf("   %s\n", t.paint(colorOf(tone)+bold, fmt.Sprintf("%s %s: %s", mark, p.Kind, p.Verdict)))
}

// End prints the sum.
func (t *Text) End(r Report) {
	runs, short, naive := 0, 0, 0
	for _, s := range r.Scenarios {
		for _, p := range s.Runs {
			runs++
			if p.Kind == Naive {
				naive++
			}
			if !p.OK {
				short++
			}
		}
	}
	switch {
	case short == 0 && naive == 0:
		t.printf("\nAll is as it must be (%s). The same again: --seed %d\n", counted(runs, "run"), r.Seed)
		return
	case short == 0:
		t.printf("\nEach naive run showed its fault, and no Fifty run did (%s). The same order again: --seed %d\n", counted(runs, "run"), r.Seed)
		return
	}
	t.printf("\n%d of %s did not come to what they must. The same order again: --seed %d\n", short, counted(runs, "run"), r.Seed)
}

// pad fills up with spaces to a number of characters.
func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
}

// wrap breaks a text into lines of at most width characters, at spaces. A longer word has a line of its own.
func wrap(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
