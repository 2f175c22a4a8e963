package lab

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/server"
)

func TestUnknownScenariosAreToldWithWhatIsThere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ asked, want string }{
		{"chek-then-act", `there is no scenario "chek-then-act"; did you mean check-then-act? Else these are there: check-then-act, `},
		{"flash", `there is no scenario "flash"; these are there: check-then-act, window-too-small, oversell, long-lock, key-per-attempt, keys-across-tenants, flash-sale`},
		{"0", `there is no scenario "0"`},
		{"14", "by number too: 1 to 13"},
		{"", `there is no scenario ""`},
		{"2", "scenario 2 (expired-lock) is to come; these are there: "},
		{"lost-update", "scenario 3 (lost-update) is to come"},
		{"oversel", "did you mean oversell?"},
		{"flashsale", "did you mean flash-sale?"},
	} {
		cfg := testConfig("check-then-act", c.asked)
		err := cfg.Validate()
		if _, ok := errors.AsType[*UnknownError](err); !ok || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.asked, err, c.want)
		}
	}
}

func TestANumberStandsForAllOfItsScenariosAndEachIsPlayedOnce(t *testing.T) {
	t.Parallel()
	found, err := Find([]string{"13", "1", "key-per-attempt", "1"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range found {
		names = append(names, s.Name)
	}
	if got := strings.Join(names, " "); got != "key-per-attempt keys-across-tenants check-then-act" {
		t.Errorf("found %s", got)
	}
}

func TestTheCatalogueHasAllThirteen(t *testing.T) {
	t.Parallel()
	played, coming := make(map[int]bool), make(map[int]bool)
	names := make(map[string]bool)
	for _, e := range Catalogue() {
		if e.Show {
			if e.Number != 0 || e.ToCome {
				t.Errorf("%+v is a show", e)
			}
			continue
		}
		if names[e.Name] || e.Name == "" || e.Title == "" {
			t.Errorf("%+v has no name of its own or no title", e)
		}
		names[e.Name] = true
		if e.ToCome {
			coming[e.Number] = true
		} else {
			played[e.Number] = true
		}
	}
	for n := 1; n <= CatalogueMax; n++ {
		if played[n] == coming[n] {
			t.Errorf("%d: can be played %v, to come %v", n, played[n], coming[n])
		}
	}
}

func TestScenariosAreWhole(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios() {
		kinds := make(map[Kind]int)
		for _, r := range s.Runs {
			kinds[r.Kind]++
			if r.Title == "" || r.Kind == Naive && kinds[Fifty] > 0 {
				t.Errorf("%s: run %q has no title, or is naive and comes behind one of Fifty", s.Name, r.Title)
			}
		}
		if kinds[Naive] == 0 || kinds[Fifty] == 0 || s.Wrong == "" || s.Fix == "" {
			t.Errorf("%s lacks a naive run, one of Fifty, or words", s.Name)
		}
	}
}

func TestHostsAreTwoToAHundred(t *testing.T) {
	t.Parallel()
	for _, n := range []int{-1, 1, 101, 10_000} {
		cfg := testConfig("1")
		cfg.Hosts = n
		err := cfg.Validate()
		if !errors.Is(err, fifty.ErrInvalid) || !strings.Contains(err.Error(), "it can be 2 to 100: ") {
			t.Errorf("%d hosts: %v", n, err)
		}
	}
	for _, n := range []int{0, 2, 100} {
		cfg := testConfig("1")
		cfg.Hosts = n
		if err := cfg.Validate(); err != nil {
			t.Errorf("%d hosts: %v", n, err)
		}
	}
}

func TestDatabasesThatCanNotBeUsed(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		url, want string
	}{
		{"memory:", "the lab's hosts are processes that must share one; leave --db away"},
		{"sqlite:x", "a sqlite URL is sqlite:// and the path of a file"},
		{"sqlite://", "a sqlite URL is sqlite:// and the path of a file"},
		{"oracle://x", `"oracle" is not a kind of database that is known`},
		{"nonsense", "the URL has no scheme"},
		{"postgres://u:secret@127.0.0.1:1/x", "postgres://u@127.0.0.1:1/x: "},
		{"postgres://u:secret@127.0.0.1:1/x?sslmode=odd", "can't be used"},
		{"postgres://u:sec%ret@127.0.0.1:1/x", "can't be read"},
		{"sqlite://" + filepath.Join(folder, "absent", "x.db"), "no such file or directory; name a folder"},
		{"sqlite://" + filepath.Join(folder, "file", "x.db"), "not a directory; name a folder"},
	} {
		cfg := testConfig("1")
		cfg.DB = c.url
		_, err := Play(t.Context(), cfg)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "sec") && !strings.Contains(c.want, "sec") {
			t.Errorf("%s: %v, want %q and no password", c.url, err, c.want)
		}
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestAServerThatCanNotBeReachedIsTold(t *testing.T) {
	t.Parallel()
	cfg := testConfig("1")
	cfg.DB = "postgres://nobody@127.0.0.1:1/shop"
	_, err := Play(t.Context(), cfg)
	if _, ok := errors.AsType[*server.BackendError](err); !ok || !strings.Contains(err.Error(), "start it, or name another one in --db") {
		t.Errorf("%v", err)
	}
}

func TestAHostThatPeopleStartIsToldWhatItIs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{"hello\n", `this command is for the hosts that "fifty lab" starts`},
		{"{}\n", `this command is for the hosts that "fifty lab" starts`},
		{`{"setup":{"scenario":"none"}}` + "\n", `no scenario "none"`},
		{strings.Repeat("x", lineMax+1), "too long"},
	} {
		var out bytes.Buffer
		err := ServeHost(t.Context(), strings.NewReader(c.in), &out)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.20q: %v, want %q", c.in, err, c.want)
		}
	}
	if err := ServeHost(t.Context(), strings.NewReader(""), &bytes.Buffer{}); err != nil {
		t.Errorf("the end of the input at once: %v", err)
	}
}
