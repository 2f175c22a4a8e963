package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/fiftyhosts/fifty/lab"
)

// labFolder makes a folder that holds all that the lab may leave, and a database URL in it.
func labFolder(t *testing.T) (folder, db string) {
	t.Helper()
	folder = t.TempDir()
	return folder, "sqlite://" + filepath.Join(folder, "shop.db")
}

func nothingLeft(t *testing.T, folder string, but ...string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains(but, e.Name()) {
			t.Errorf("left behind: %s", e.Name())
		}
	}
}

func TestLabShowsAFaultAndItsPrevention(t *testing.T) {
	t.Parallel()
	folder, db := labFolder(t)
	page := filepath.Join(folder, "lab.html")
	code, out, errOut := try(t, "lab", "1", "--hosts", "3", "--seed", "5", "--db", db, "--html", page)
	if code != exitFine || errOut != "" {
		t.Fatalf("exit code %d\n%s%s", code, out, errOut)
	}
	for _, want := range []string{
		"3 hosts, seed 5, a SQLite file of its own beside ", "hosts ", ": the same\n",
		"✓ naive: 3 charges for one order: the fault shows, as it should\n",
		"✓ fifty: 1 charge, 3 callers got the same answer\n", "--seed 5\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil || !bytes.Contains(text, []byte("1 charge, 3 callers got the same answer")) {
		t.Errorf("the page: %v, %d bytes", err, len(text))
	}
	if info, err := os.Stat(page); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("the page's mode: %v, %v", info.Mode(), err)
	}
	nothingLeft(t, folder, "lab.html")
}

func TestLabPrintsOneJSONDocument(t *testing.T) {
	t.Parallel()
	folder, db := labFolder(t)
	code, out, errOut := try(t, "lab", "keys-across-tenants", "--hosts", "2", "--json", "--db", db)
	if code != exitFine || errOut != "" {
		t.Fatalf("exit code %d\n%s%s", code, out, errOut)
	}
	var r struct {
		Seed      *int64 `json:"seed"`
		Hosts     int    `json:"hosts"`
		Database  string `json:"database"`
		OK        bool   `json:"ok"`
		Scenarios []struct {
			Number int    `json:"number"`
			Name   string `json:"name"`
			Title  string `json:"title"`
			Wrong  string `json:"wrong"`
			Fix    string `json:"fix"`
			OK     bool   `json:"ok"`
			Runs   []struct {
				Kind    string         `json:"kind"`
				Title   string         `json:"title"`
				Lanes   []string       `json:"lanes"`
				Fault   bool           `json:"fault"`
				OK      bool           `json:"ok"`
				Verdict string         `json:"verdict"`
				Figures map[string]int `json:"figures"`
				TookMS  float64        `json:"took_ms"`
				Events  []struct {
					AtMS float64 `json:"at_ms"`
					Host string  `json:"host"`
					Did  string  `json:"did"`
					Said string  `json:"said"`
					Tone string  `json:"tone"`
				} `json:"events"`
			} `json:"runs"`
		} `json:"scenarios"`
	}
	decoder := json.NewDecoder(strings.NewReader(out))
	decoder.DisallowUnknownFields() // a new field belongs into this test, which holds the names
	if err := decoder.Decode(&r); err != nil || decoder.More() {
		t.Fatalf("%v\n%s", err, out)
	}
	if r.Seed == nil || r.Hosts != 2 || !r.OK || len(r.Scenarios) != 1 || len(r.Scenarios[0].Runs) != 2 {
		t.Fatalf("%+v", r)
	}
	naive := r.Scenarios[0].Runs[0]
	if r.Scenarios[0].Number != 13 || naive.Kind != "naive" || !naive.Fault || !naive.OK || naive.Figures["charges_ben"] != 0 || naive.Figures["charges_anna"] != 1 {
		t.Errorf("%+v", naive)
	}
	if !slices.Equal(naive.Lanes, []string{"host 1", "host 2", "anna", "ben"}) || len(naive.Events) == 0 || naive.TookMS == 0 {
		t.Errorf("%+v", naive)
	}
	nothingLeft(t, folder)
}

func TestLabListsTheCatalogue(t *testing.T) {
	t.Parallel()
	code, out, _ := try(t, "lab", "--list")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != exitFine || len(lines) < lab.CatalogueMax || !strings.HasPrefix(lines[0], "1   check-then-act ") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	for _, e := range lab.Catalogue() {
		i := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, " "+e.Name+" ") })
		if i < 0 || strings.Contains(lines[i], " to come ") != e.ToCome {
			t.Errorf("%s is not listed as it is", e.Name)
		}
	}
	code, out, _ = try(t, "lab", "--list", "--json")
	var list struct{ Scenarios []lab.Entry }
	if err := json.Unmarshal([]byte(out), &list); code != exitFine || err != nil || !slices.Equal(list.Scenarios, lab.Catalogue()) {
		t.Errorf("exit code %d, %v\n%s", code, err, out)
	}
}

func TestLabCompletesScenarios(t *testing.T) {
	t.Parallel()
	code, out, _ := try(t, "__complete", "lab", "")
	if code != exitFine || !strings.HasPrefix(out, "check-then-act\tCheck-then-act across the network\n") || !strings.Contains(out, "\n:4\n") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	for _, e := range lab.Catalogue() {
		if strings.Contains(out, e.Name) == e.ToCome {
			t.Errorf("%s is completed: %v; to come: %v", e.Name, !e.ToCome, e.ToCome)
		}
	}
}

func TestLabSaysWhatIsWrongAndLeavesNothing(t *testing.T) {
	folder := t.TempDir()
	t.Chdir(folder)
	t.Setenv("TMPDIR", folder)
	for _, c := range []struct{ args, want string }{
		{"lab nothing", `there is no scenario "nothing"; these are there: check-then-act, `},
		{"lab ky-per-attempt", "did you mean key-per-attempt?"},
		{"lab 3", "scenario 3 (lost-update) is to come"},
		{"lab flash-sales", "did you mean flash-sale?"},
		{"lab flash-sale --buyers 0", "--buyers is 0; it can be 2 to 100000"},
		{"lab flash-sale --buyers -3", "--buyers is -3; it can be 2 to 100000"},
		{"lab flash-sale --buyers 100001", "--buyers is 100001; it can be 2 to 100000"},
		{"lab flash-sale --buyers many", "see fifty lab --help"},
		{"lab flash-sale --tickets 0", "--tickets is 0; it can be 1 to 1999: there are fewer than buyers"},
		{"lab flash-sale --buyers 10 --tickets 10", "--tickets is 10; it can be 1 to 9: "},
		{"lab flash-sale --hosts 10000", "--hosts is 10000; it can be 2 to 100: "},
		{"lab 8 --buyers 50", "--buyers is for flash-sale: fifty lab flash-sale --buyers 50"},
		{"lab --hosts 0", "--hosts is 0; it can be 2 to 100: "},
		{"lab --hosts 1", "--hosts is 1; it can be 2 to 100: "},
		{"lab --hosts 10000", "--hosts is 10000; it can be 2 to 100: "},
		{"lab --hosts many", "see fifty lab --help"},
		{"lab --seed x", "see fifty lab --help"},
		{"lab --db memory:", "leave --db away for a temporary file"},
		{"lab --db oracle://x", "is not a kind of database that is known"},
		{"lab --db postgres://u:secret@127.0.0.1:1/x", "start it, or name another one in --db or FIFTY_DB"},
		{"lab --db sqlite://absent/x.db", "name a folder that this user can write"},
		{"lab --html absent/lab.html", "--html absent/lab.html: no such file or directory; name a file in a folder that is there"},
		{"lab --html .", "--html . is there and is no file"},
		{"lab-host extra", `unknown command "extra"`},
	} {
		code, out, errOut := try(t, strings.Fields(c.args)...)
		if code != exitUsage || out != "" || !strings.HasPrefix(errOut, "fifty: ") || !strings.Contains(errOut, c.want) || strings.Contains(errOut, "secret") {
			t.Errorf("%s: exit code %d, %q, %q; want %q", c.args, code, out, errOut, c.want)
		}
	}
	nothingLeft(t, folder)
}

// signalOn is a writer that sends a signal when something is written.
type signalOn struct {
	bytes.Buffer
	text string
	send func()
}

func (s *signalOn) Write(p []byte) (int, error) {
	if s.send != nil && bytes.Contains(p, []byte(s.text)) {
		s.send()
		s.send = nil
	}
	return s.Buffer.Write(p)
}

func TestLabEndsOnASignalAndLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		folder, db := labFolder(t)
		page := filepath.Join(folder, "lab.html")
		var errOut bytes.Buffer
		a := &app{in: os.Stdin, err: &errOut, signals: make(chan os.Signal, 2)}
		a.out = &signalOn{text: "✓ naive", send: func() { a.signals <- signal }}
		code := a.run([]string{"lab", "5", "--db", db, "--html", page})
		if code != exitNo || errOut.String() != "fifty: interrupted; the hosts are gone and nothing is left behind\n" {
			t.Errorf("%v: exit code %d, %q", signal, code, errOut.String())
		}
		nothingLeft(t, folder)
	}
}

func TestLabShowsAFlashSale(t *testing.T) {
	t.Parallel()
	folder, db := labFolder(t)
	code, out, errOut := try(t, "lab", "flash-sale", "--hosts", "2", "--buyers", "30", "--tickets", "10", "--json", "--db", db)
	if code != exitFine || errOut != "" {
		t.Fatalf("exit code %d\n%s%s", code, out, errOut)
	}
	var r lab.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || len(r.Scenarios) != 1 || !r.Scenarios[0].Show || len(r.Scenarios[0].Runs) != 4 {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, run := range r.Scenarios[0].Runs {
		if !run.OK || run.Figures["given"] != 10 || run.Figures["refused"] != 20 || len(run.Ticks) < 2 {
			t.Errorf("%s: %s, %v", run.Title, run.Verdict, run.Figures)
		}
	}
	for _, field := range []string{`"show":`, `"ticks":`, `"at_ms":`, `"tried":`, `"sold":`, `"refused":`, `"left":`, `"kind": "by hand"`} {
		if !strings.Contains(out, field) {
			t.Errorf("%s is not in the document", field)
		}
	}
	nothingLeft(t, folder)
}

func TestLabSaysHowAnInterruptedSaleStood(t *testing.T) {
	t.Parallel()
	folder, db := labFolder(t)
	var errOut bytes.Buffer
	a := &app{in: os.Stdin, err: &errOut, signals: make(chan os.Signal, 2)}
	out := &signalOn{text: "answers/s", send: func() { a.signals <- syscall.SIGINT }}
	a.out = out
	code := a.run([]string{"lab", "flash-sale", "--hosts", "2", "--buyers", "100000", "--tickets", "20000", "--db", db})
	if code != exitNo || errOut.String() != "fifty: interrupted; the hosts are gone and nothing is left behind\n" {
		t.Errorf("exit code %d, %q", code, errOut.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if last := strings.Fields(lines[len(lines)-1]); len(last) != 7 || last[1] != "ms" {
		t.Errorf("the numbers are not the last line:\n%s", out.String())
	}
	nothingLeft(t, folder)

	var sale lastTick // with --json there is nothing on the output
	sale.Run(lab.Played{})
	sale.Tick(lab.Tick{Tried: 9, Sold: 2, Refused: 1, Left: 3})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := interrupted(ctx, context.Canceled, &sale); !strings.HasSuffix(err.Error(), "left behind; the sale stood at 9 tried, 2 sold, 1 refused, 3 left") {
		t.Error(err)
	}
}
