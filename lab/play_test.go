package lab

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the tests' own look at a schema

	"github.com/fiftyhosts/fifty/internal/testenv"
)

// place is a database for a test, and a way to see what is left in it.
type testPlace struct {
	url  string
	left func(t *testing.T) []string
}

func sqlitePlace(t *testing.T) testPlace {
	t.Helper()
	folder := t.TempDir()
	return testPlace{
		url: "sqlite://" + filepath.Join(folder, "shop.db"),
		left: func(t *testing.T) (names []string) {
			t.Helper()
			entries, err := os.ReadDir(folder)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				names = append(names, e.Name())
			}
			return names
		},
	}
}

func postgresPlace(t *testing.T) testPlace {
	t.Helper()
	url := testenv.Postgres(t).Database(t)
	return testPlace{
		url: url,
		left: func(t *testing.T) (names []string) {
			t.Helper()
			db, err := sql.Open("pgx", url)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			rows, err := db.QueryContext(context.WithoutCancel(t.Context()),
				`select nspname from pg_namespace where nspname not like 'pg\_%' and nspname not in ('public', 'information_schema')`)
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			for rows.Next() {
				var name string
				if err := rows.Scan(&name); err != nil {
					t.Fatal(err)
				}
				names = append(names, name)
			}
			if err := rows.Err(); err != nil {
				t.Fatal(err)
			}
			return names
		},
	}
}

// play plays scenarios and fails the test unless all is as it must be, and nothing is left.
func play(t *testing.T, where testPlace, cfg Config) Report {
	t.Helper()
	cfg.DB = where.url
	report, err := Play(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range report.Scenarios {
		for _, r := range p.Runs {
			if !r.OK || r.Fault != (r.Kind == Naive) {
				t.Errorf("%s, %s (%s): %s\n%s", p.Name, r.Kind, r.Title, r.Verdict, linesOf(r.Events))
			}
		}
	}
	if !report.OK {
		t.Error("the report is not OK")
	}
	if left := where.left(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	return report
}

func linesOf(events []Event) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "%8.1f %-9s %s | %s\n", e.AtMS, e.Host, e.Did, e.Said)
	}
	return b.String()
}

// figure is what a run of the report counted.
func figure(t *testing.T, r Report, scenario string, run int, name string) int {
	t.Helper()
	for _, p := range r.Scenarios {
		if p.Name == scenario {
			n, ok := p.Runs[run].Figures[name]
			if !ok {
				t.Errorf("%s has no figure %q: %v", scenario, name, p.Runs[run].Figures)
			}
			return n
		}
	}
	t.Fatalf("%s was not played", scenario)
	return 0
}

// naiveFigures are what the naive run of each scenario must count with 3 hosts.
var naiveFigures = map[string]struct {
	name string
	want int
}{
	"check-then-act":      {"charges", 3},
	"oversell":            {"sold", 3},
	"long-lock":           {"turned_away", 2},
	"window-too-small":    {"charges", 3},
	"key-per-attempt":     {"charges", 3},
	"keys-across-tenants": {"charges_ben", 0},
}

func testEachScenario(t *testing.T, where func(*testing.T) testPlace) {
	for _, s := range scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			report := play(t, where(t), testConfig(s.Name))
			if n := figure(t, report, s.Name, 0, naiveFigures[s.Name].name); n != naiveFigures[s.Name].want {
				t.Errorf("the naive run counted %d %s, want %d", n, naiveFigures[s.Name].name, naiveFigures[s.Name].want)
			}
		})
	}
}

func TestEachNaiveRunShowsItsFaultAndNoFiftyRunDoes(t *testing.T) {
	t.Parallel()
	testEachScenario(t, sqlitePlace)
}

func TestEachNaiveRunShowsItsFaultAndNoFiftyRunDoesOnPostgres(t *testing.T) {
	t.Parallel()
	testEachScenario(t, postgresPlace)
}

func TestFiftyHostsChargeOneOrderOnce(t *testing.T) {
	t.Parallel()
	testFiftyHosts(t, sqlitePlace(t))
}

func TestFiftyHostsChargeOneOrderOnceOnPostgres(t *testing.T) {
	t.Parallel()
	testFiftyHosts(t, postgresPlace(t))
}

func testFiftyHosts(t *testing.T, where testPlace) {
	cfg := testConfig("1")
	cfg.Hosts = 50
	report := play(t, where, cfg)
	if n := figure(t, report, "check-then-act", 0, "charges"); n != 50 {
		t.Errorf("the naive run has %d charges, want 50: every host looked before any acted", n)
	}
	if n := figure(t, report, "check-then-act", 1, "charges"); n != 1 {
		t.Errorf("the run of Fifty has %d charges", n)
	}
	if n := figure(t, report, "check-then-act", 1, "same_answer"); n != 50 {
		t.Errorf("%d callers got the same answer, want 50", n)
	}
}

// story is what a report says that happened, without the times.
func story(r Report) (all []string) {
	for _, p := range r.Scenarios {
		for _, run := range p.Runs {
			for _, e := range run.Events {
				all = append(all, fmt.Sprint(e.Host, e.Step))
			}
		}
	}
	return all
}

func TestASeedReplaysTheSameOrder(t *testing.T) {
	t.Parallel()
	cfg := testConfig("check-then-act", "key-per-attempt")
	cfg.Hosts = 4
	first := story(play(t, sqlitePlace(t), cfg))
	if again := story(play(t, sqlitePlace(t), cfg)); !reflect.DeepEqual(first, again) {
		t.Errorf("seed %d told two stories:\n%s\nand\n%s", cfg.Seed, strings.Join(first, "\n"), strings.Join(again, "\n"))
	}
	cfg.Seed++ // two seeds could agree by chance; these two don't, and never will
	if other := story(play(t, sqlitePlace(t), cfg)); reflect.DeepEqual(first, other) {
		t.Errorf("seeds %d and %d told the same story", cfg.Seed-1, cfg.Seed)
	}
}

// custom plays a run of its own with the hosts of check-then-act.
func custom(t *testing.T, kind Kind, conduct func(ctx context.Context, s *Stage) (Verdict, error)) (Performance, error) {
	t.Helper()
	where, err := openPlace(t.Context(), sqlitePlace(t).url, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := where.close(); err != nil {
			t.Error(err)
		}
	}()
	s := checkThenAct()
	s.Runs = []Run{{Kind: kind, Title: "of a test", Play: conduct}}
	l := &session{cfg: testConfig().withDefaults(), place: where}
	return l.perform(t.Context(), s)
}

func TestAPlayThatDoesNotComeToWhatItMustIsNotOK(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind  Kind
		fault bool
		ok    bool
		want  string
	}{
		{Naive, true, true, "2 charges: the fault shows, as it should"},
		{Naive, false, false, "2 charges: the fault did not show, and it should have"},
		{Fifty, false, true, "2 charges"},
		{Fifty, true, false, "2 charges: the fault shows, and must not"},
	} {
		p, err := custom(t, c.kind, func(context.Context, *Stage) (Verdict, error) {
			return Verdict{Fault: c.fault, Text: "2 charges"}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if p.OK != c.ok || p.Runs[0].OK != c.ok || p.Runs[0].Verdict != c.want {
			t.Errorf("%s, fault %v: ok %v, %q; want %v, %q", c.kind, c.fault, p.OK, p.Runs[0].Verdict, c.ok, c.want)
		}
	}
}

func TestAHostThatIsKilledOrFrozenByThePlayIsNoFailure(t *testing.T) {
	t.Parallel()
	p, err := custom(t, Fifty, func(ctx context.Context, s *Stage) (Verdict, error) {
		if err := s.Hosts[0].Kill(); err != nil {
			return Verdict{}, err
		}
		if err := s.Hosts[1].Pause(); err != nil {
			return Verdict{}, err
		}
		call, err := s.Hosts[1].Begin("claim", anOrder)
		if err != nil {
			return Verdict{}, err
		}
		if err := s.Hosts[1].Resume(); err != nil {
			return Verdict{}, err
		}
		if err := call.Result(ctx, nil); err == nil || !strings.Contains(err.Error(), `host 2 is held at "at work"`) {
			return Verdict{}, fmt.Errorf("the result of an action that is not over: %w", err)
		}
		var dead *HostError
		if _, err := Ask[reply](ctx, s.Hosts[0], "claim", anOrder); !errors.As(err, &dead) || dead.Host != "host 1" {
			return Verdict{}, fmt.Errorf("asking a dead host: %w", err)
		}
		return Verdict{Text: "as it must be"}, nil
	})
	if err != nil || !p.OK {
		t.Errorf("%v, %+v", err, p)
	}
}

func TestAHostSaysWhatWentWrongInAnAction(t *testing.T) {
	t.Parallel()
	_, err := custom(t, Fifty, func(ctx context.Context, s *Stage) (Verdict, error) {
		if _, err := Ask[reply](ctx, s.Hosts[0], "dance", anOrder); err == nil || !strings.Contains(err.Error(), `no action "dance"`) {
			t.Errorf("an unknown action: %v", err)
		}
		_, err := Ask[reply](ctx, s.Hosts[1], "claim", purchase{})
		return Verdict{}, err
	})
	if err == nil || !strings.Contains(err.Error(), "host 2: claim: Request.Scope is empty") {
		t.Errorf("an action that failed: %v", err)
	}
}
