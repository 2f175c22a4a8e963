package lab

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
)

//go:embed page.tmpl
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// Widths of a lane, in pixels: as wide as they can be for so many of them to fit a screen.
const (
	lanesWidth   = 460
	laneWidthMax = 30
	laneWidthMin = 8
)

// narrowLane is the width below which not every lane has room for its number.
const narrowLane = 18

// headEvery is how many lanes have a number where they are narrow.
const headEvery = 5

type pageView struct {
	Report
	LaneWidth int
	DotSize   int
	Narrow    bool // there are many lanes, and little room for words
	Scenarios []scenarioView
}

type scenarioView struct {
	Performance
	Rungs []rungView // of a show
	Runs  []runView
}

type runView struct {
	Played
	Sale  *saleView // of a run that has numbers instead of a story
	Heads []headView
	Tall  bool // some head is a word
	Rows  []rowView
}

// headView is the name of a lane.
type headView struct {
	Short, Full string
	Name        bool // it is a word, not a number
}

// rowView is a line: a step, a sentence of the narrator ("told"), or those who did the same ("again").
type rowView struct {
	Class, At, Who, Did, Said, Text string
	Tone                            Tone
	Lanes                           []dotView
}

// dotView is one place of a lane.
type dotView struct {
	There bool
	Tone  Tone
	Title string
}

// WriteHTML writes a report as one page that needs nothing else: no script, no font, no picture. The error is
// w's.
func WriteHTML(w io.Writer, r Report) error {
	v := pageView{Report: r, LaneWidth: laneWidthMax}
	for _, p := range r.Scenarios {
		s := scenarioView{Performance: p, Rungs: viewRungs(p)}
		for _, run := range p.Runs {
			v.LaneWidth = max(laneWidthMin, min(v.LaneWidth, lanesWidth/max(1, len(run.Lanes))))
		}
		for _, run := range p.Runs {
			s.Runs = append(s.Runs, viewRun(run))
		}
		v.Scenarios = append(v.Scenarios, s)
	}
	v.DotSize, v.Narrow = min(12, v.LaneWidth-2), v.LaneWidth < narrowLane
	return pageTemplate.Execute(w, v)
}

func viewRun(p Played) runView {
	v := runView{Played: p, Sale: viewSale(p)}
	for i, lane := range p.Lanes {
		n, isHost := numberOf(lane)
		head := headView{Full: lane, Short: lane, Name: true}
		if isHost {
			head.Name, head.Short = false, strconv.Itoa(n)
		}
		if isHost && lanesWidth/len(p.Lanes) < narrowLane && n != 1 && (n%headEvery != 0 || besideWord(p.Lanes, i)) {
			head.Short = ""
		}
		v.Heads = append(v.Heads, head)
		v.Tall = v.Tall || head.Name
	}
	for _, m := range fold(p.Events) {
		for _, e := range m.first {
			v.Rows = append(v.Rows, viewStep(p.Lanes, e))
		}
		if len(m.more) > 0 {
			v.Rows = append(v.Rows, viewMore(p.Lanes, m))
		}
	}
	return v
}

// besideWord says whether the next lane is a client's, whose name needs the room.
func besideWord(lanes []string, i int) bool {
	if i+1 == len(lanes) {
		return false
	}
	_, isHost := numberOf(lanes[i+1])
	return !isHost
}

func atText(ms float64) string { return strconv.FormatFloat(ms, 'f', 1, 64) }

func viewStep(lanes []string, e Event) rowView {
	row := rowView{At: atText(e.AtMS), Who: e.Host, Did: e.Did, Said: e.Said, Tone: e.Tone, Lanes: make([]dotView, len(lanes))}
	if e.Host == "" {
		row.Class, row.Text = "told", e.Did
		return row
	}
	if i := slices.Index(lanes, e.Host); i >= 0 {
		row.Lanes[i] = dot(e)
	}
	return row
}

func dot(e Event) dotView {
	return dotView{There: true, Tone: e.Tone, Title: fmt.Sprintf("%s, %s ms: %s: %s", e.Host, atText(e.AtMS), e.Did, e.Said)}
}

// viewMore shows when each of those who did the same did it: the last of its steps, where there are several.
func viewMore(lanes []string, m moment) rowView {
	last := m.more[len(m.more)-1]
	row := rowView{Class: "again", At: "– " + atText(last.AtMS), Text: m.others() + ": " + m.again(), Lanes: make([]dotView, len(lanes))}
	for _, e := range m.more {
		if i := slices.Index(lanes, e.Host); i >= 0 {
			row.Lanes[i] = dot(e)
		}
	}
	return row
}
