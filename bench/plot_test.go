package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// drawn are outcomes of a sale that grows.
func drawn(curve string, at ...int) (all []outcome) {
	for _, n := range at {
		r := Ratio{Ours: Figures{PerSecond: []float64{100 * float64(n)}}, Theirs: Figures{PerSecond: []float64{200}}}
		all = append(all, outcome{name: curve, curve: curve, at: n, ratios: []Ratio{r}})
	}
	return all
}

func TestAPlotHasAPanelForEachCurveWithATickForEachCase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "growth.svg")
	broken := outcome{curve: "callers", at: 7, err: errors.New("no disk")}
	if err := writePlot(path, append(append(drawn("processes", 16, 4), drawn("callers", 1, 1000)...), broken)); err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"<svg", "processes", "callers", ">16<", ">4<", ">1<", ">1000<", "by hand"} {
		if !strings.Contains(string(svg), text) {
			t.Errorf("there is no %q in it", text)
		}
	}
	if strings.Contains(string(svg), ">7<") {
		t.Error("a case that failed is drawn")
	}
}

func TestAPlotOfNothingIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "growth.svg")
	if err := writePlot(path, []outcome{{name: "fast"}}); err == nil {
		t.Error("nothing was drawn")
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file was left: %v", err)
	}
	code, _, stderr := runCommand(t, "good", "--plot", path)
	if code != exitUsage || !strings.Contains(stderr, "--plot") {
		t.Errorf("exit code %d and %q", code, stderr)
	}
}
