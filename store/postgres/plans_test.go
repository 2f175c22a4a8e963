package postgres_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fiftyhosts/fifty/internal/testenv"
	"github.com/fiftyhosts/fifty/store/postgres"
)

// byKey are the statements that find one key, or its steps.
var byKey = []string{
	"claim.look", "claim.take", "claimtx.look", "claimtx.take", "renew", "complete", "find", "find.answer",
	"intx.look", "intx.answer_over", "resolve.lock", "resolve",
	"claim.look_many", "renew_many", "complete_many", "find_many",
}

// generic is the plan of a statement that a session keeps for all arguments.
func (b bundle) generic(tb testing.TB, name string) string {
	tb.Helper()
	return b.genericOf(tb, b.Text(name))
}

// genericOf is that of a statement's text, after some settings.
func (b bundle) genericOf(tb testing.TB, text string, settings ...string) string {
	tb.Helper()
	args := 0
	for _, number := range regexp.MustCompile(`\$(\d+)`).FindAllStringSubmatch(text, -1) {
		n, err := strconv.Atoi(number[1])
		if err != nil {
			tb.Fatal(err)
		}
		args = max(args, n)
	}
	conn, err := pgx.Connect(tb.Context(), b.url)
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close(tb.Context())
	for _, sql := range append(settings, "set plan_cache_mode = force_generic_plan", "prepare kept as "+text) {
		if _, err := conn.Exec(tb.Context(), sql); err != nil {
			tb.Fatalf("%s: %v", sql, err)
		}
	}
	nulls := strings.TrimSuffix(strings.Repeat("null, ", args), ", ")
	rows, err := conn.Query(tb.Context(), fmt.Sprintf("explain execute kept(%s)", nulls), pgx.QueryExecModeExec)
	if err != nil {
		tb.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		tb.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// seqScans are the statements that would read a whole table.
func (b bundle) seqScans(tb testing.TB, when string) (all []string) {
	tb.Helper()
	for _, name := range byKey {
		if plan := b.generic(tb, name); strings.Contains(plan, "Seq Scan on keys") || strings.Contains(plan, "Seq Scan on steps") {
			tb.Logf("%s, %s:\n%s", when, name, plan)
			all = append(all, name)
		}
	}
	return all
}

func TestPostgresPlansMadeWhileTheTablesAreSmallFitWhenTheyGrow(t *testing.T) {
	t.Parallel()
	grow := func(b bundle) (scans []string) {
		for _, step := range []struct{ when, sql string }{
			{"as they were made", "select 1"},
			{"empty, with statistics", "vacuum analyze fifty.keys, fifty.steps"},
			{"one key", "insert into fifty.keys (scope, key, fingerprint, state, token, attempt, owner) values ('acme', '0', '', 2, 1, '', '')"},
			{"one key, with statistics", "vacuum analyze fifty.keys, fifty.steps"},
			{"some keys", "insert into fifty.keys (scope, key, fingerprint, state, token, attempt, owner) select 'acme', i::text, '', 2, 1, '', '' from generate_series(1, 60) i"},
			{"some keys, with statistics", "vacuum analyze fifty.keys, fifty.steps"},
			{"some steps", "insert into fifty.steps (scope, key, name, sent) select 'acme', i::text, 'charge', true from generate_series(1, 60) i"},
			{"some steps, with statistics", "vacuum analyze fifty.keys, fifty.steps"},
			{"nothing again", "delete from fifty.keys"},
			{"nothing again, with statistics", "vacuum analyze fifty.keys, fifty.steps"},
		} {
			b.exec(t, step.sql)
			scans = append(scans, b.seqScans(t, step.when)...)
		}
		return scans
	}
	if scans := grow(setup(t)); len(scans) > 0 {
		t.Errorf("whole tables are read by %q", scans)
	}
	url := testenv.Postgres(t).Database(t)
	before := bundle{postgres.New(newPool(t, url), postgres.Config{}), url, newPool(t, url)}
	for _, statement := range postgres.MigrationsUpTo(4) {
		before.exec(t, statement)
	}
	if scans := grow(before); len(scans) == 0 {
		t.Error("tables that look small go unnoticed")
	}
}
