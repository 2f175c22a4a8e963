package lab

import (
	"fmt"
	"strings"
)

// Size of the picture of a sale, in its own units.
const (
	chartWidth  = 1000
	chartHeight = 160
)

// saleView is the numbers of a sale: a table, once in a second, and a picture of all of them.
type saleView struct {
	Told                []string // by the narrator
	Rows                []saleRow
	Sold, Refused, Left string // points of a line each
	Width, Height       int
	Seconds             string // how long it is
}

type saleRow struct{ At, Tried, Sold, Refused, Left, Rate string }

// rungView is a rung in the comparison of all.
type rungView struct {
	Kind    Kind
	Name    string
	Rate    string // tickets in a second
	Percent int    // of the best
}

func viewSale(p Played) *saleView {
	if len(p.Ticks) == 0 {
		return nil
	}
	v := &saleView{Width: chartWidth, Height: chartHeight}
	for _, e := range p.Events {
		if e.Host == "" {
			v.Told = append(v.Told, e.Did)
		}
	}
	last := p.Ticks[len(p.Ticks)-1]
	v.Seconds = fmt.Sprintf("%.1f s", last.AtMS/secondMS)
	top := float64(max(last.Sold, last.Refused, p.Ticks[0].Left, 1))
	var sold, refused, left []string
	var shown Tick
	for i, k := range p.Ticks {
		point := func(n int) string {
			return fmt.Sprintf("%.1f,%.1f", k.AtMS/max(last.AtMS, 1)*chartWidth, chartHeight*(1-float64(n)/top))
		}
		sold, refused, left = append(sold, point(k.Sold)), append(refused, point(k.Refused)), append(left, point(k.Left))
		if newSecond(k, shown) || i == len(p.Ticks)-1 {
			v.Rows = append(v.Rows, saleRow{
				atText(k.AtMS), grouped(k.Tried), grouped(k.Sold), grouped(k.Refused), grouped(k.Left), grouped(int(k.rate(shown))),
			})
			shown = k
		}
	}
	begin := fmt.Sprintf("0,%d ", chartHeight)
	v.Sold, v.Refused, v.Left = begin+strings.Join(sold, " "), begin+strings.Join(refused, " "), strings.Join(left, " ")
	return v
}

func viewRungs(p Performance) (all []rungView) {
	best := 0
	for _, run := range p.Runs {
		best = max(best, run.Figures["tickets_per_second"])
	}
	if !p.Show || best == 0 {
		return nil
	}
	for _, run := range p.Runs {
		name, _, _ := strings.Cut(run.Title, ":")
		n := run.Figures["tickets_per_second"]
		all = append(all, rungView{run.Kind, name, grouped(n), n * 100 / best})
	}
	return all
}
