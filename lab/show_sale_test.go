package lab

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// aShow is a sale of three seconds, looked at every 400 ms.
func aShow() Report {
	p := Played{Kind: Hand, Title: "the textbook: by hand", OK: true, Verdict: "all sold", Figures: map[string]int{"tickets_per_second": 100}}
	p.Lanes = []string{"host 1"}
	p.Events = []Event{{AtMS: 1, Step: Step{Did: "the sale <begins>"}}}
	for i := range 8 {
		n := 1000 * i
		p.Ticks = append(p.Ticks, Tick{AtMS: float64(400 * i), Tried: n + 500, Sold: n / 2, Refused: n / 2, Left: 3500 - n/2})
	}
	quick := p
	quick.Kind, quick.Title, quick.Ticks, quick.Figures = Fifty, "combined: a batch", p.Ticks[:2], map[string]int{"tickets_per_second": 400}
	return Report{Seed: 7, Hosts: 2, OK: true, Scenarios: []Performance{{
		Name: FlashSale, Title: "The ladder", Show: true, Wrong: "what there is to see", OK: true, Runs: []Played{p, quick},
	}}}
}

func TestTheNumbersOfASaleHaveALineASecond(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	show(&Text{Out: &out}, aShow())
	want := `
flash-sale: The ladder
   what there is to see

   by hand  the textbook: by hand
     1.0 ms  · the sale <begins>
                 tried       sold    refused       left    answers/s
  1200.0 ms      3,500      1,500      1,500      2,000        2,500
  2000.0 ms      5,500      2,500      2,500      1,000        2,500
  2800.0 ms      7,500      3,500      3,500          0        2,500
   ✓ by hand: all sold

   fifty  combined: a batch
     1.0 ms  · the sale <begins>
                 tried       sold    refused       left    answers/s
   400.0 ms      1,500        500        500      3,000        2,500
   ✓ fifty: all sold

All is as it must be (2 runs). The same again: --seed 7
`
	if _, got, _ := strings.Cut(out.String(), "\n"); got != want {
		t.Errorf("it shows\n%s\nwant\n%s", got, want)
	}
	if found := regexp.MustCompile(`[\x00-\x09\x0b-\x1f]`).FindString(out.String()); found != "" {
		t.Errorf("there is a control character %q in what no terminal shows", found)
	}
}

func TestATerminalShowsTheNumbersBetweenTheSeconds(t *testing.T) {
	t.Parallel()
	var out, live bytes.Buffer
	show(&Text{Out: &out, Live: &live, Color: true}, aShow())
	if !strings.Contains(live.String(), "   400.0 ms      1,500        500        500      3,000") || !strings.HasSuffix(live.String(), "\r\x1b[K") {
		t.Errorf("the live line is %q", live.String())
	}
}

func TestThePageOfASaleHasItsNumbersAndComparesTheRungs(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := WriteHTML(&out, aShow()); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	for _, want := range []string{
		`<p class="about">what there is to see</p>`, "the sale &lt;begins&gt;", `points="0,160 0.0,160.0 `, `1000.0,0.0"/>`,
		"<td>1200.0</td><td>3,500</td><td>1,500</td><td>1,500</td><td>2,000</td><td>2,500</td>",
		`<th>the textbook</th><td class="bar"><div class="" style="width: 25%"></div></td><td>100 tickets a second</td>`,
		`<th>combined</th><td class="bar"><div class="fifty" style="width: 100%"></div></td><td>400 tickets a second</td>`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in the page", want)
		}
	}
	if strings.Contains(page, `class="number"`) || strings.Contains(page, "What prevents it") || strings.Contains(page, `class="lane`) {
		t.Error("the page takes a show for a failure")
	}
}

func TestNumbersAreGroupedByThousands(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 7: "7", 999: "999", 1000: "1,000", 12500: "12,500", 1234567: "1,234,567", -999: "-999", -1000: "-1,000"} {
		if got := grouped(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}

func TestTheNumbersThatAreKeptHaveABound(t *testing.T) {
	t.Parallel()
	s := &Stage{watcher: Silent{}}
	for i := range ticksMax + 10 {
		s.tick(Tick{Tried: i})
	}
	if n := len(s.ticks); n != ticksMax {
		t.Error(fmt.Sprint(n, " are kept"))
	}
}
