package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/internal/testenv"
	"github.com/fiftyhosts/fifty/server"
)

// desk is a database with keys, and an operator before it.
type desk struct {
	t  *testing.T
	db string
}

const scope = `constant:"shop"`

func newDesk(t *testing.T) *desk {
	t.Helper()
	return prepare(t, "sqlite://"+filepath.Join(t.TempDir(), "fifty.db"))
}

// prepare makes a database with a key in each state: done, held, let go.
func prepare(t *testing.T, db string) *desk {
	t.Helper()
	d := &desk{t: t, db: db}
	if code, _, errOut := try(t, "migrate", "--db", d.db); code != exitFine {
		t.Fatal(errOut)
	}
	_, _ = d.do("done", func() (idempotency.Response, error) {
		return idempotency.Response{Status: 201, Header: map[string][]string{"Location": {"/charges/1"}}, Body: []byte("charged \x1b[2J")}, nil
	})
	_, _ = d.do("held", func() (idempotency.Response, error) { return idempotency.Response{}, errors.New("lost") })
	d.open(func(keys *idempotency.Keys) {
		_, _ = keys.DoSteps(t.Context(), request("let-go"), func(ctx context.Context, s *idempotency.Steps) (idempotency.Response, error) {
			_, err := idempotency.Step(ctx, s, "charge", func(context.Context, string) (string, error) { return "ch_1", nil })
			return idempotency.Response{}, errors.Join(errors.New("lost"), err)
		})
	})
	return d
}

func request(key string) idempotency.Request {
	return idempotency.Request{Scope: scope, Key: key, Fingerprint: idempotency.FingerprintOf(key)}
}

func (d *desk) open(use func(keys *idempotency.Keys)) {
	d.t.Helper()
	b, err := server.OpenBackend(d.t.Context(), d.db)
	if err != nil {
		d.t.Fatal(err)
	}
	use(idempotency.New(b.Keys, idempotency.Config{Owner: "host-a/1"}))
	if err := b.Close(); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) do(key string, fn func() (idempotency.Response, error)) (res idempotency.Result, err error) {
	d.t.Helper()
	d.open(func(keys *idempotency.Keys) {
		res, err = keys.Do(d.t.Context(), request(key), func(context.Context) (idempotency.Response, error) { return fn() })
	})
	return res, err
}

// keys runs a command of the operator, whose standard input is in.
func (d *desk) keys(in string, args ...string) (code int, out, errOut string) {
	d.t.Helper()
	var o, e bytes.Buffer
	a := &app{in: strings.NewReader(in), out: &o, err: &e, signals: make(chan os.Signal, 2)}
	code = a.run(append(append([]string{"keys"}, args...), "--db", d.db))
	return code, o.String(), e.String()
}

func (d *desk) want(wantCode int, wantOut, in string, args ...string) {
	d.t.Helper()
	code, out, errOut := d.keys(in, args...)
	if code != wantCode || !strings.Contains(out+errOut, wantOut) {
		d.t.Errorf("%q: exit code %d, want %d with %q\n%s%s", args, code, wantCode, wantOut, out, errOut)
	}
}

func TestListShowsWhatWaitsForADecision(t *testing.T) {
	d := newDesk(t)
	code, out, _ := d.keys("", "list")
	if code != exitFine || strings.Count(out, "\n") != 4 || !strings.Contains(out, "host-a/1") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	code, out, _ = d.keys("", "list", "--unresolved")
	if code != exitFine || strings.Contains(out, "done") || !strings.Contains(out, "held") || !strings.Contains(out, "let-go  let go") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	for _, args := range [][]string{{"--scope", "other"}, {"--older-than", "1h"}, {"--unresolved", "--scope", "other"}} {
		d.want(exitFine, "no such keys", "", append([]string{"list"}, args...)...)
	}
}

func TestListPagesThroughAllKeysInJSON(t *testing.T) {
	d := newDesk(t)
	var got []string
	after := ""
	for range 5 {
		args := []string{"list", "--json", "--limit", "2"}
		if after != "" {
			args = append(args, "--after", after)
		}
		code, out, errOut := d.keys("", args...)
		var page listing
		if err := json.Unmarshal([]byte(out), &page); code != exitFine || err != nil {
			t.Fatalf("exit code %d, %v\n%s%s", code, err, out, errOut)
		}
		for _, r := range page.Records {
			got = append(got, r.Key+" "+r.State)
		}
		if after = page.After; after == "" {
			break
		}
	}
	if text := strings.Join(got, ", "); text != "done done, held unknown, let-go let go" {
		t.Errorf("got %s", text)
	}
	d.want(exitFine, "more: --after ", "", "list", "--limit", "1")
	d.want(exitFine, `"records": []`, "", "list", "--json", "--scope", "other")
}

func TestShowTellsAllThatAnOperatorNeeds(t *testing.T) {
	d := newDesk(t)
	for key, wants := range map[string][]string{
		"held": {
			"unknown: its work may or may not have happened", server.DerivedKey(request("held")), "held (forward_key raw)",
			"fifty keys resolve held --scope '" + scope + "' --token 1 --status 201", "fifty keys release held",
		},
		"let-go": {"let go: nobody is at work", "charge: done, under key " + idempotency.StepKey(request("let-go"), "charge") + ` "ch_1"`, "ran out"},
		"done":   {"done: a duplicate gets the answer", "201", "Location: /charges/1", "charged \uFFFD[2J"},
	} {
		code, out, errOut := d.keys("", "show", key, "--scope", scope)
		for _, want := range wants {
			if code != exitFine || !strings.Contains(out, want) {
				t.Errorf("%s: exit code %d, want %q in\n%s%s", key, code, want, out, errOut)
			}
		}
	}
	_, out, _ := d.keys("", "show", "done", "--scope", scope, "--json")
	var view details
	if err := json.Unmarshal([]byte(out), &view); err != nil || view.Answer == nil || view.Answer.Body != "charged \x1b[2J" || view.Token != 1 {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestAResolvedKeyAnswersEveryRequestAndSaysWhoDecided(t *testing.T) {
	d := newDesk(t)
	body := write(t, "answer.json", `{"id":"ch_1"}`)
	d.want(exitFine, "key held is done: every request with it gets 201 from now on", "", "resolve", "held", "--scope", scope,
		"--status", "201", "--body", body, "--header", "Content-Type: application/json", "--header", "X-A: 1", "--header", "x-a: 2",
		"--note", "the provider has it", "--by", "ada")
	res, err := d.do("held", func() (idempotency.Response, error) { panic("it ran") })
	if err != nil || !res.Replayed || res.Status != 201 || string(res.Body) != `{"id":"ch_1"}` || len(res.Header["X-A"]) != 2 {
		t.Errorf("%+v, %v", res, err)
	}
	d.want(exitFine, "by ada: from unknown to done, token 2: the provider has it", "", "show", "held", "--scope", scope)
	d.want(exitNo, "is not unresolved, it is done, with token 2", "", "resolve", "held", "--scope", scope, "--status", "201", "--note", "again")

	d.want(exitFine, "gets 204 from now on", "", "resolve", "let-go", "--scope", scope, "--status", "204", "--note", "n")
	if _, out, _ := d.keys("", "show", "let-go", "--scope", scope, "--json"); !strings.Contains(out, `"by": "`) || strings.Contains(out, `"by": ""`) {
		t.Errorf("it does not say who decided:\n%s", out)
	}
}

func TestAnAnswerIsReadFromStandardInput(t *testing.T) {
	d := newDesk(t)
	d.want(exitFine, "gets 200", "from a pipe", "resolve", "held", "--scope", scope, "--status", "200", "--body", "-", "--note", "n")
	if res, err := d.do("held", nil); err != nil || string(res.Body) != "from a pipe" {
		t.Errorf("%+v, %v", res, err)
	}
}

// TestAReleaseWantsAYes: since an owner that is only paused may still act (H6).
func TestAReleaseWantsAYes(t *testing.T) {
	d := newDesk(t)
	release := []string{"release", "held", "--scope", scope, "--note", "never sent"}
	for _, in := range []string{"", "no\n", "y\n", "yes please\n"} {
		code, _, errOut := d.keys(in, release...)
		if code != exitNo || !strings.Contains(errOut, "only paused") || !strings.Contains(errOut, "host-a/1") || !strings.Contains(errOut, "nothing was changed") {
			t.Errorf("%q: exit code %d\n%s", in, code, errOut)
		}
	}
	if _, err := d.do("held", nil); !errors.Is(err, idempotency.ErrUnresolved) {
		t.Errorf("after all the refusals it is %v", err)
	}
	d.want(exitFine, "key held is free: the next request with it runs", "yes\n", release...)
	d.want(exitNo, "is not unresolved, it is free", "", append(release, "--yes")...)
	ran := false
	res, err := d.do("held", func() (idempotency.Response, error) { ran = true; return idempotency.Response{Status: 201}, nil })
	if err != nil || !ran || res.Replayed {
		t.Errorf("%+v, %v", res, err)
	}
	d.want(exitFine, "free", "", "release", "let-go", "--scope", scope, "--note", "n", "--yes")
}

func TestASignalEndsAQuestion(t *testing.T) {
	d := newDesk(t)
	in, terminal := io.Pipe()
	t.Cleanup(func() { _ = terminal.Close() })
	errOut := newWatched()
	a := &app{in: in, out: io.Discard, err: errOut, signals: make(chan os.Signal, 2)}
	code := make(chan int, 1)
	go func() {
		code <- a.run([]string{"keys", "release", "held", "--scope", scope, "--note", "n", "--db", d.db})
	}()
	errOut.find(t, "Type yes to release it")
	a.signals <- os.Interrupt
	if got := <-code; got != exitNo {
		t.Errorf("exit code %d", got)
	}
	errOut.find(t, "nothing was changed")
}

func TestTheOperatorsCommandsOnPostgres(t *testing.T) {
	d := prepare(t, testenv.Postgres(t).Database(t))
	code, out, errOut := d.keys("", "list", "--unresolved")
	if code != exitFine || !strings.Contains(out, "held") || !strings.Contains(out, "let-go  let go") || strings.Contains(out, "done") {
		t.Errorf("exit code %d\n%s%s", code, out, errOut)
	}
	d.want(exitFine, "charge: done", "", "show", "let-go", "--scope", scope)
	d.want(exitFine, "key let-go is free", "", "release", "let-go", "--scope", scope, "--note", "n", "--yes")
	d.want(exitFine, "key held is done", "", "resolve", "held", "--scope", scope, "--note", "found", "--by", "ada", "--status", "200")
	d.want(exitFine, "by ada: from unknown to done, token 2: found", "", "show", "held", "--scope", scope)
	d.want(exitNo, "is not unresolved, it is done", "", "release", "held", "--scope", scope, "--note", "n", "--yes")
	d.want(exitFine, "2 answers", "", "erase", "--scope", scope, "--yes")
}

func TestAPostgresDatabaseWithoutTablesIsNamed(t *testing.T) {
	code, _, errOut := try(t, "keys", "list", "--db", testenv.Postgres(t).Database(t))
	if code != exitUsage || !strings.Contains(errOut, `run "fifty migrate" on it`) {
		t.Errorf("exit code %d\n%s", code, errOut)
	}
}

// TestADecisionAboutWhatHasChangedSinceIsRefused: by the token that the operator saw, or the record itself.
func TestADecisionAboutWhatHasChangedSinceIsRefused(t *testing.T) {
	d := newDesk(t)
	d.want(exitNo, "has token 1 by now, so it is not what you looked at", "", "release", "held", "--scope", scope, "--note", "n", "--token", "7", "--yes")
	d.want(exitNo, "there is no key absent in scope", "", "release", "absent", "--scope", scope, "--note", "n", "--yes")
	d.want(exitNo, "there is no key absent in scope", "", "show", "absent", "--scope", scope)
	d.want(exitNo, "is not unresolved, it is done", "", "resolve", "done", "--scope", scope, "--note", "n", "--status", "200")

	at, finish, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	d.open(func(keys *idempotency.Keys) {
		go func() {
			defer close(ended)
			_, _ = keys.Do(d.t.Context(), request("busy"), func(context.Context) (idempotency.Response, error) {
				close(at)
				<-finish
				return idempotency.Response{Status: 200}, nil
			})
		}()
		<-at
		d.want(exitNo, "the owner of key busy, host-a/1, is at work; if it has died, the key is unresolved in ", "", "release", "busy", "--scope", scope, "--note", "n", "--yes")
		close(finish)
		<-ended
	})
	d.want(exitFine, "done: a duplicate gets the answer", "", "show", "busy", "--scope", scope)
}

func TestErasedAnswersAreGoneAndTheirKeysAreNot(t *testing.T) {
	d := newDesk(t)
	d.want(exitNo, "nothing was changed", "no\n", "erase", "--scope", scope)
	d.want(exitFine, "1 answers of scope '"+scope+"' are erased", "yes\n", "erase", "--scope", scope)
	d.want(exitFine, "0 answers", "", "erase", "--scope", scope, "--yes")
	if _, err := d.do("done", nil); !errors.Is(err, idempotency.ErrNotReplayable) {
		t.Errorf("got %v", err)
	}
	d.want(exitFine, "its body was not kept", "", "show", "done", "--scope", scope)
}

func TestWrongOperatorCommandsExitWith2AndSayWhatIsRight(t *testing.T) {
	d := newDesk(t)
	large := write(t, "large", strings.Repeat("x", resolveBodyMax+1))
	good := []string{"held", "--scope", scope, "--note", "n"}
	resolve := func(more ...string) []string { return append(append([]string{"resolve"}, good...), more...) }
	for _, c := range []struct {
		want string
		args []string
	}{
		{"write one KEY, and not 0", []string{"show"}},
		{"write one KEY, and not 2", []string{"show", "a", "b", "--scope", "s"}},
		{"--scope is missing", []string{"show", "k"}},
		{"KEY: ", []string{"show", "ä", "--scope", "s"}},
		{"--note is missing", []string{"release", "held", "--scope", scope, "--yes"}},
		{"--token is -1", append([]string{"release", "--token", "-1"}, good...)},
		{"--status is missing", resolve()},
		{"--status is 99; it can be 200 to 599", resolve("--status", "99")},
		{"--body does not go with --status 204", resolve("--status", "204", "--body", "-")},
		{"--body: open absent", resolve("--status", "200", "--body", "absent")},
		{"--body has more than 1048576 bytes", resolve("--status", "200", "--body", large)},
		{`--header is "X"; write 'Name: value'`, resolve("--status", "200", "--header", "X")},
		{"write 'Name: value'", resolve("--status", "200", "--header", "X Y: 1")},
		{"write 'Name: value'", resolve("--status", "200", "--header", "X: 1\r\nY: 2")},
		{"--header Content-Length is about one connection", resolve("--status", "200", "--header", "content-length: 3")},
		{"--limit is 0; it can be 1 to 1000", []string{"list", "--limit", "0"}},
		{"--limit is 1001", []string{"list", "--limit", "1001"}},
		{"--older-than is -1s", []string{"list", "--older-than", "-1s"}},
		{"--after is not what a page ended with", []string{"list", "--after", "k1"}},
		{"--scope is missing", []string{"erase", "--yes"}},
	} {
		t.Run(c.want, func(t *testing.T) {
			code, out, errOut := d.keys("", c.args...)
			if code != exitUsage || out != "" || !strings.Contains(errOut, c.want) {
				t.Errorf("exit code %d, want 2 with %q\n%s%s", code, c.want, out, errOut)
			}
		})
	}
	if _, err := d.do("held", nil); !errors.Is(err, idempotency.ErrUnresolved) {
		t.Errorf("one of them changed the key: %v", err)
	}
}

// TestALookMakesNoDatabase: where there is none, that is said.
func TestALookMakesNoDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifty.db")
	for _, c := range []struct{ db, want string }{
		{"sqlite://" + path, "name the file that the gateway uses in --db or FIFTY_DB"},
		{"memory:", "memory: is gone with the process that had it"},
		{"oracle://x", "is not a kind of database that is known"},
	} {
		code, _, errOut := try(t, "keys", "list", "--db", c.db)
		if code != exitUsage || !strings.Contains(errOut, c.want) {
			t.Errorf("%s: exit code %d\n%s", c.db, code, errOut)
		}
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the file was made: %v", err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errOut := try(t, "keys", "list", "--db", "sqlite://"+path)
	if code != exitUsage || !strings.Contains(errOut, `run "fifty migrate" on it`) {
		t.Errorf("without tables: exit code %d\n%s", code, errOut)
	}
}

func TestAnUnknownOutcomeOfADecisionExitsWith3(t *testing.T) {
	n := keyName{scope: scope, key: "k"}
	err := n.answered(&server.BackendError{Name: "db", Cause: errors.Join(errors.New("lost"), fifty.ErrUnknownOutcome)})
	if exitCode(err) != exitUnknown || !strings.Contains(err.Error(), "Look before you do it again: fifty keys show k --scope '"+scope+"'") {
		t.Errorf("exit code %d: %v", exitCode(err), err)
	}
}

func TestTextForAShellIsOneWord(t *testing.T) {
	for text, want := range map[string]string{"a-b_c.d:/=@1": "a-b_c.d:/=@1", "": "''", "-x": "'-x'", "a b": "'a b'", "it's": `'it'\''s'`, `"q"`: `'"q"'`, "$(x)": "'$(x)'"} {
		if got := quoted(text); got != want {
			t.Errorf("%q is written %s, want %s", text, got, want)
		}
	}
	if got := rounded(1234567 * time.Microsecond); got != time.Second {
		t.Errorf("rounded to %v", got)
	}
}
