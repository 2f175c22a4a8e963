package server

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fiftyhosts/fifty/internal/testenv"
)

func TestTheTwoCurlLinesMakeOneChargeOnPostgres(t *testing.T) {
	db := testenv.Postgres(t).Database(t)
	s := serve(t, ServeConfig{DB: db})
	line := find(t, s.out, `(?m)^(curl .*)$`)
	first, second := s.curl(t, line), s.curl(t, line)
	if first.status != http.StatusCreated || first.replayed() || !second.replayed() || second.body != first.body {
		t.Errorf("the lines gave %+v and %+v", first, second)
	}
	// Another host on the same database gives the same answer.
	other := serve(t, ServeConfig{DB: db})
	if third := other.curl(t, strings.Replace(line, s.base, other.base, 1)); !third.replayed() || third.body != first.body {
		t.Errorf("the other host gave %+v", third)
	}
	if _, list := other.get(t, other.base+"/charges"); strings.Count(list, `"id"`) != 1 {
		t.Errorf("the ledger: %s", list)
	}
	u, err := url.Parse(db)
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	if password == "" || strings.Contains(s.out+s.log.all.String(), password) {
		t.Errorf("the password is told, or there is none: %s", s.out)
	}
}

func TestAServeWaitsForAPostgresThatStartsLater(t *testing.T) {
	postgres := testenv.NewPostgres(t)
	postgres.Stop()
	s, out := begin(t, ServeConfig{DB: postgres.URL()})
	eventually(t, "it says that it waits", func() bool { return len(s.log.with("can't be reached yet")) == 1 })
	postgres.Start()
	select {
	case text := <-out:
		if status, _ := s.get(t, find(t, text, `admin on +(\S+)`)+"/readyz"); status != http.StatusOK {
			t.Errorf("/readyz got %d", status)
		}
	case err := <-s.result:
		t.Fatalf("it gave up: %v", err)
	}
}

func TestReadinessFollowsPostgres(t *testing.T) {
	postgres := testenv.NewPostgres(t)
	s := serve(t, ServeConfig{DB: postgres.URL()})
	ready := func() bool {
		status, _ := s.get(t, s.admin+"/readyz")
		return status == http.StatusOK
	}
	if !ready() {
		t.Fatal("not ready at first")
	}
	postgres.Kill()
	if ready() {
		t.Error("ready without its database")
	}
	postgres.Start()
	eventually(t, "it is ready again", ready)
}

func TestAPostgresThatCanNotBeUsedIsExplained(t *testing.T) {
	server := testenv.Postgres(t)
	db := server.Database(t)
	change := func(edit func(*url.URL)) string {
		u, err := url.Parse(db)
		if err != nil {
			t.Fatal(err)
		}
		edit(u)
		return u.String()
	}
	conn, err := pgx.Connect(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(t.Context(), `create role poor login password 'hunter2'; revoke all on schema public from public`); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), server.URL())
		if err == nil {
			_, err = conn.Exec(context.Background(), `drop role poor`)
			_ = conn.Close(context.Background())
		}
		if err != nil {
			t.Error(err)
		}
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	_ = l.Close()

	for _, c := range []struct{ name, url, want string }{
		{"a wrong password", change(func(u *url.URL) { u.User = url.UserPassword("poor", "hunter3") }), "check user and password in --db or FIFTY_DB"},
		{"no such database", change(func(u *url.URL) { u.Path = "/absent" }), "create the database, or name another one"},
		{"a role that may not", change(func(u *url.URL) { u.User = url.UserPassword("poor", "hunter2") }), "let this role create schema fifty and its tables"},
		{"nobody there", "postgres://poor:hunter2@" + closed + "/x", "start it, or name another one in --db or FIFTY_DB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := OpenBackend(t.Context(), c.url)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = b.Close() }()
			b.wait = 200 * time.Millisecond
			log := &lines{}
			err = b.Prepare(t.Context(), slog.New(slog.NewJSONHandler(log, nil)))
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), b.Name) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
			if err != nil && (strings.Contains(err.Error(), "hunter") || strings.Contains(log.all.String(), "hunter") || strings.Contains(err.Error(), "\n")) {
				t.Errorf("the password is told, or more than a line: %v", err)
			}
			waited := len(log.with("can't be reached yet"))
			if want := strings.HasPrefix(c.want, "start it"); (waited == 1) != want {
				t.Errorf("it waited %d times for the database; want it only where nobody answers", waited)
			}
		})
	}
}
