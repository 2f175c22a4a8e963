package lab

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// aRun has n hosts that do alike, one after the other, and a client.
func aRun(n int) Played {
	p := Played{Kind: Naive, Title: "<b>of a test</b>", OK: true, Fault: true, Verdict: "2 charges: the fault shows, as it should"}
	p.Events = append(p.Events, Event{Step: Step{Did: "it begins"}})
	for i := 1; i <= n; i++ {
		lane := fmt.Sprintf("host %d", i)
		p.Lanes = append(p.Lanes, lane)
		p.Events = append(p.Events, Event{AtMS: float64(i), Host: lane, Step: Step{"insert", "1 row & more", Bad}})
	}
	p.Lanes = append(p.Lanes, "client")
	p.Events = append(p.Events, Event{AtMS: 99.5, Host: "client", Step: Step{"POST", "<script>alert(1)</script>", Good}})
	return p
}

func aReport(n int) Report {
	return Report{
		Seed: 7, Hosts: n, Database: "a temporary SQLite file", OK: true,
		Scenarios: []Performance{{Number: 1, Name: "check-then-act", Title: "A title", Wrong: "wrong", Fix: "fix", OK: true, Runs: []Played{aRun(n)}}},
	}
}

// show runs a report through a Text.
func show(t *Text, r Report) {
	t.Session(r)
	for _, s := range r.Scenarios {
		t.Scenario(s)
		for _, p := range s.Runs {
			t.Run(p)
			for _, e := range p.Events {
				t.Event(e)
			}
			for _, k := range p.Ticks {
				t.Tick(k)
			}
			t.Verdict(p)
		}
	}
	t.End(r)
}

func TestFiftyHostsThatDoAlikeAreToldInTwoLines(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	show(&Text{Out: &out}, aReport(50))
	for _, want := range []string{
		"50 hosts, seed 7, a temporary SQLite file\n",
		"\n     0.0 ms  · it begins\n     1.0 ms  host 1        insert" + strings.Repeat(" ", 42) + "1 row & more\n             hosts 2–50: the same\n    99.5 ms  client        POST",
		"   ✓ naive: 2 charges: the fault shows, as it should\n",
		"The same order again: --seed 7\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Error("there are escape sequences in what no terminal shows")
	}
}

func TestColoursAndTheLiveLineAreForATerminal(t *testing.T) {
	t.Parallel()
	var out, live bytes.Buffer
	text := &Text{Out: &out, Live: &live, Color: true}
	show(text, aReport(3))
	if !strings.Contains(out.String(), red+"1 row & more"+reset) {
		t.Errorf("the fault is not red:\n%q", out.String())
	}
	if !strings.Contains(live.String(), "host 3: insert") || !strings.HasSuffix(live.String(), "\r\x1b[K") {
		t.Errorf("the live line is %q, want it to be cleared at the end", live.String())
	}
	text.Progress(strings.Repeat("ü", 500))
	if last := live.String()[strings.LastIndex(live.String(), "ü"):]; !strings.HasSuffix(last, "…") {
		t.Errorf("a long live line ends in %q", last)
	}
}

func TestARunThatBrokeOffShowsHowFarItCame(t *testing.T) {
	t.Parallel()
	var out, live bytes.Buffer
	text := &Text{Out: &out}
	text.Event(Event{Host: "host 1", Step: Step{Did: "looks"}})
	text.Live = &live
	text.Progress("waiting")
	text.Broken()
	if !strings.Contains(out.String(), "host 1        looks") || !strings.HasSuffix(live.String(), "\r\x1b[K") {
		t.Errorf("it shows %q and %q", out.String(), live.String())
	}
}

func TestWhatDidNotComeToWhatItMustIsCountedAtTheEnd(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	r := aReport(2)
	r.OK, r.Scenarios[0].Runs[0].OK = false, false
	show(&Text{Out: &out}, r)
	if !strings.Contains(out.String(), "   ✗ naive: ") || !strings.Contains(out.String(), "\n1 of 1 run did not come to what they must.") {
		t.Errorf("it shows\n%s", out.String())
	}
}

func TestRepeatsAreFolded(t *testing.T) {
	t.Parallel()
	ev := func(host, did string) Event { return Event{Host: host, Step: Step{Did: did}} }
	for name, c := range map[string]struct {
		events []Event
		want   string
	}{
		"nothing":           {nil, ""},
		"one":               {[]Event{ev("host 1", "a")}, "1"},
		"all alike":         {[]Event{ev("host 3", "a"), ev("host 1", "a"), ev("host 2", "a")}, "1 hosts 1–2: the same"},
		"another step":      {[]Event{ev("host 1", "a"), ev("host 1", "b")}, "1, 1"},
		"the narrator":      {[]Event{ev("", "a"), ev("", "a")}, "1, 1"},
		"a client, twice":   {[]Event{ev("client", "a"), ev("client", "a")}, "1 client, 1 time more: the same"},
		"two clients":       {[]Event{ev("anna", "a"), ev("ben", "a")}, "1, 1"},
		"pairs":             {[]Event{ev("host 1", "a"), ev("client", "b"), ev("host 5", "a"), ev("client", "b"), ev("host 3", "a")}, "2 host 5: the same 2 lines, 1"},
		"not a host's name": {[]Event{ev("host one", "a"), ev("host 2", "a")}, "1, 1"},
	} {
		var got []string
		for _, m := range fold(c.events) {
			text := fmt.Sprint(len(m.first))
			if len(m.more) > 0 {
				text += " " + m.others() + ": " + m.again()
			}
			got = append(got, text)
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
	}
}

func TestThePageNeedsNothingElseAndEscapesWhatItShows(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 50, 100} {
		var out bytes.Buffer
		if err := WriteHTML(&out, aReport(n)); err != nil {
			t.Fatal(err)
		}
		page := out.String()
		if found := regexp.MustCompile(`(?i)https?://|\bsrc=|<link|<script|@import|url\(`).FindString(page); found != "" {
			t.Errorf("%d hosts: the page has %q in it", n, found)
		}
		if strings.Contains(page, "<b>of a test") || !strings.Contains(page, "&lt;b&gt;of a test") {
			t.Errorf("%d hosts: a title is not escaped", n)
		}
		// Each host has a dot, and so has the client.
		if dots := strings.Count(page, `<i class="bad" title="host `) + strings.Count(page, `<i class="good" title="client`); dots != n+1 {
			t.Errorf("%d hosts: %d dots", n, dots)
		}
		for _, want := range []string{"prefers-color-scheme: dark", fmt.Sprintf(`title="host %d"`, n), fmt.Sprintf("host %d, %d.0 ms: insert: 1 row &amp; more", n, n)} {
			if !strings.Contains(page, want) {
				t.Errorf("%d hosts: %q is not in the page", n, want)
			}
		}
	}
}

func TestATimelineHasABound(t *testing.T) {
	t.Parallel()
	s := &Stage{watcher: Silent{}}
	for range eventsMax + 10 {
		s.Tell("again")
	}
	if n := len(s.events); n != eventsMax+1 || !strings.Contains(s.events[n-1].Did, "the rest is not shown") {
		t.Errorf("%d events, the last is %+v", n, s.events[n-1])
	}
}
