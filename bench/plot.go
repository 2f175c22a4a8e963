package main

import (
	"cmp"
	"errors"
	"fmt"
	"image/color"
	"os"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Sizes of the plot: a panel for each curve, side by side.
const (
	panelWidth  = 4.5 * vg.Inch
	panelHeight = 3.6 * vg.Inch
	panelSpace  = 0.25 * vg.Inch
	textSize    = 11
)

// The colours of the two sides can be told apart by everybody, and in grey.
var (
	oursColor   = color.RGBA{R: 0x00, G: 0x5f, B: 0xb8, A: 0xff}
	theirsColor = color.RGBA{R: 0xd5, G: 0x7a, B: 0x00, A: 0xff}
	gridColor   = color.RGBA{R: 0xdd, G: 0xdd, B: 0xdd, A: 0xff}
)

// curves are the measured cases by what grows in them, in the order of their first.
func curves(outcomes []outcome) (names []string, of map[string][]outcome) {
	of = map[string][]outcome{}
	for _, o := range outcomes {
		if o.curve == "" || o.err != nil || len(o.ratios) == 0 {
			continue
		}
		if of[o.curve] == nil {
			names = append(names, o.curve)
		}
		of[o.curve] = append(of[o.curve], o)
	}
	return names, of
}

// writePlot draws what was measured into an SVG file: both sides' operations per second as something grows.
func writePlot(path string, outcomes []outcome) (err error) {
	names, of := curves(outcomes)
	if len(names) == 0 {
		return errors.New("--plot: nothing was measured that can be drawn")
	}
	var panels []*plot.Plot
	for _, name := range names {
		p, err := panel(name, of[name])
		if err != nil {
			return fmt.Errorf("--plot: %s: %w", name, err)
		}
		panels = append(panels, p)
	}
	width := panelWidth*vg.Length(len(panels)) + panelSpace*vg.Length(len(panels)-1)
	svg := vgsvg.NewWith(vgsvg.UseWH(width, panelHeight))
	tiles := draw.Tiles{Rows: 1, Cols: len(panels), PadX: panelSpace}
	for i, canvas := range plot.Align([][]*plot.Plot{panels}, tiles, draw.New(svg))[0] {
		panels[i].Draw(canvas)
	}
	f, err := os.Create(path) //nolint:gosec // a file that the user named
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = svg.WriteTo(f)
	return err
}

func panel(name string, outcomes []outcome) (*plot.Plot, error) {
	outcomes = slices.SortedFunc(slices.Values(outcomes), func(a, b outcome) int { return cmp.Compare(a.at, b.at) })
	var ours, theirs plotter.XYs
	var at []plot.Tick
	for _, o := range outcomes {
		r := o.ratios[0]
		ours = append(ours, plotter.XY{X: float64(o.at), Y: median(r.Ours.PerSecond)})
		theirs = append(theirs, plotter.XY{X: float64(o.at), Y: median(r.Theirs.PerSecond)})
		at = append(at, plot.Tick{Value: float64(o.at), Label: fmt.Sprint(o.at)})
	}
	p := plot.New()
	p.Title.Text = name
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.ConstantTicks(at)
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, decades{}
	p.Y.Label.Text = "orders per second"
	p.Legend.Top, p.Legend.Left = true, true
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = gridColor, gridColor
	p.Add(grid)
	for _, side := range []struct {
		name  string
		color color.Color
		shape draw.GlyphDrawer
		at    plotter.XYs
	}{{"Fifty", oursColor, draw.CircleGlyph{}, ours}, {"by hand, its best pool", theirsColor, draw.BoxGlyph{}, theirs}} {
		line, points, err := plotter.NewLinePoints(side.at)
		if err != nil {
			return nil, err
		}
		line.Color, line.Width = side.color, vg.Points(2)
		points.Color, points.Shape = side.color, side.shape
		p.Add(line, points)
		p.Legend.Add(side.name, line, points)
	}
	for _, f := range []*font.Font{
		&p.Title.TextStyle.Font, &p.X.Tick.Label.Font, &p.Y.Tick.Label.Font, &p.Y.Label.TextStyle.Font, &p.Legend.TextStyle.Font,
	} {
		f.Size, f.Variant = textSize, "Sans"
	}
	top, bottom := slices.MaxFunc(ours, higher).Y, slices.MinFunc(theirs, higher).Y
	p.Y.Max, p.Y.Min = roundUp(top*4), roundUp(bottom/10) // room for the legend
	return p, nil
}

func higher(a, b plotter.XY) int { return cmp.Compare(a.Y, b.Y) }

// roundUp is the next 1, 2 or 5 times a power of ten.
func roundUp(v float64) float64 {
	for unit := 1.0; ; unit *= 10 {
		for _, step := range []float64{1, 2, 5} {
			if step*unit >= v {
				return step * unit
			}
		}
	}
}

// decades marks 1, 2 and 5 times each power of ten.
type decades struct{}

func (decades) Ticks(low, high float64) (ticks []plot.Tick) {
	for v := roundUp(low); v <= high; v = roundUp(v * 1.01) {
		ticks = append(ticks, plot.Tick{Value: v, Label: count(v)})
	}
	return ticks
}
