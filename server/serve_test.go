package server

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestTheTwoCurlLinesMakeOneCharge sends what the printed lines would, against each kind of database that
// needs no server.
func TestTheTwoCurlLinesMakeOneCharge(t *testing.T) {
	for _, db := range []string{"memory:", "sqlite://" + filepath.Join(t.TempDir(), "fifty.db")} {
		t.Run(strings.SplitN(db, ":", 2)[0], func(t *testing.T) {
			s := serve(t, ServeConfig{DB: db})
			lines := regexp.MustCompile(`(?m)^curl .*$`).FindAllString(s.out, -1)
			if len(lines) != 2 {
				t.Fatalf("%d curl lines in:\n%s", len(lines), s.out)
			}
			first, second := s.curl(t, lines[0]), s.curl(t, lines[1])
			if first.status != http.StatusCreated || first.replayed() {
				t.Errorf("the first line gave %+v", first)
			}
			if second.status != http.StatusCreated || !second.replayed() || second.body != first.body {
				t.Errorf("the second line gave %+v after %+v", second, first)
			}
			if _, list := s.get(t, s.base+"/charges"); strings.Count(list, `"id"`) != 1 {
				t.Errorf("the ledger: %s", list)
			}
		})
	}
}

func TestARestartRemembersWhatWasAnswered(t *testing.T) {
	db := "sqlite://" + filepath.Join(t.TempDir(), "fifty.db")
	one := serve(t, ServeConfig{DB: db})
	line := find(t, one.out, `(?m)^(curl .*)$`)
	first := one.curl(t, line)
	one.stop()
	if err := <-one.result; err != nil {
		t.Fatalf("it did not end well: %v", err)
	}
	two := serve(t, ServeConfig{DB: db})
	again := two.curl(t, strings.Replace(line, one.base, two.base, 1))
	if !again.replayed() || again.body != first.body {
		t.Errorf("after the restart: %+v, before it: %+v", again, first)
	}
	if key := find(t, two.out, `Idempotency-Key: (\S+)'`); strings.Contains(line, key) {
		t.Error("a new start prints a key that the database knows already")
	}
}

func TestTheAdminListenerTellsHowItIs(t *testing.T) {
	s := serve(t, ServeConfig{DB: "memory:"})
	for path, want := range map[string]struct {
		status int
		text   string
	}{
		"/healthz": {200, "ok\n"},
		"/readyz":  {200, "ready\n"},
		"/metrics": {200, `fifty_unprotected_total{reason="no_key",route="/"} 0`},
		"/":        {404, "this is the admin listener: /healthz, /readyz, /metrics\n"},
	} {
		if status, text := s.get(t, s.admin+path); status != want.status || !strings.Contains(text, want.text) {
			t.Errorf("%s got %d %s", path, status, text)
		}
	}
	// What an operator sees must not be open to clients.
	if status, text := s.get(t, s.base+"/metrics"); status == http.StatusOK {
		t.Errorf("clients see the metrics: %s", text)
	}
}

func TestClientsAreServedOverTLS(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	dir := t.TempDir()
	s := serve(t, ServeConfig{
		DB: "memory:", TLSCert: write(t, dir, "cert.pem", string(cert)),
		TLSKey: write(t, dir, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))),
	})
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	s.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
	line := find(t, s.out, `(?m)^(curl -i https://.*)$`)
	first, second := s.curl(t, line), s.curl(t, line)
	if first.status != http.StatusCreated || !second.replayed() || second.body != first.body {
		t.Errorf("got %+v, then %+v", first, second)
	}
}

func TestReadinessFollowsTheStore(t *testing.T) {
	var down error
	r := &readiness{log: slog.New(slog.DiscardHandler), store: func(context.Context) error { return down }}
	h := admin(r, NewMetrics())
	for _, c := range []struct {
		why    string
		down   error
		status int
		text   string
	}{
		{"starting", nil, 503, "starting\n"},
		{"", nil, 200, "ready\n"},
		{"", errors.New("secret address"), 503, "the database can't be reached\n"},
		{"draining", nil, 503, "draining\n"},
	} {
		r.set(c.why)
		down = c.down
		if status, text := record(h, "/readyz"); status != c.status || text != c.text {
			t.Errorf("%+v: got %d %q", c, status, text)
		}
	}
}

func TestADrainFinishesWhatIsAtWork(t *testing.T) {
	up := startWorking(t)
	cfg, err := ProxyConfig(up.URL, ScopeRule{Kind: ScopeConstant, Constant: "all"})
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, ServeConfig{Config: cfg, DB: "memory:"})
	got := s.post(t)
	<-up.arrived
	s.stop()
	eventually(t, "the public listener closes", func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.base, "http://"))
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	if status, text := s.get(t, s.admin+"/readyz"); status != http.StatusServiceUnavailable || text != "draining\n" {
		t.Errorf("/readyz got %d %q", status, text)
	}
	if status, _ := s.get(t, s.admin+"/healthz"); status != http.StatusOK {
		t.Errorf("/healthz got %d: an orchestrator would end the process amid its work", status)
	}
	select {
	case err := <-s.result:
		t.Fatalf("it ended (%v) while a request was at work", err)
	default:
	}
	close(up.finish)
	if a := <-got; a.status != http.StatusCreated || a.body != "charged" {
		t.Errorf("the request at work got %+v", a)
	}
	if err := <-s.result; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// TestADrainThatIsOverSaysWhatIsUnknown: at the end of the time, and at the second signal.
func TestADrainThatIsOverSaysWhatIsUnknown(t *testing.T) {
	for _, how := range []string{"time", "hurry"} {
		t.Run(how, func(t *testing.T) {
			up := startWorking(t)
			cfg, err := ProxyConfig(up.URL, ScopeRule{Kind: ScopeConstant, Constant: "all"})
			if err != nil {
				t.Fatal(err)
			}
			hurry := make(chan struct{})
			with := ServeConfig{Config: cfg, DB: "memory:", Hurry: hurry}
			if how == "time" {
				with.Drain = time.Millisecond
			}
			s := serve(t, with)
			got := s.post(t)
			<-up.arrived
			s.stop()
			if how == "hurry" {
				close(hurry)
			}
			unfinished, ok := errors.AsType[*UnfinishedError](<-s.result)
			if !ok || unfinished.Requests != 1 {
				t.Errorf("it ended with %v", unfinished)
			}
			if a := <-got; a.status != 0 {
				t.Errorf("the client got %+v, though nothing is known", a)
			}
			close(up.finish)
		})
	}
}

func TestAServeThatCanNotStartSaysWhatToDo(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	dir := t.TempDir()
	write(t, dir, "file", "")
	garbage := write(t, dir, "garbage.pem", "no PEM")
	folder := filepath.Join(dir, "folder.db")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	const password = "hunter2"
	for _, c := range []struct {
		name string
		cfg  ServeConfig
		want string
	}{
		{"an address that is taken", ServeConfig{Listen: taken.Addr().String()}, taken.Addr().String() + " is in use; end the program that has it"},
		{"an admin address that is taken", ServeConfig{Listen: "127.0.0.1:0", Admin: taken.Addr().String()}, "--admin " + taken.Addr().String() + " is in use"},
		{"no address", ServeConfig{Listen: "here"}, "write HOST:PORT, such as 127.0.0.1:8080"},
		{"a certificate without its key", ServeConfig{TLSCert: "a"}, "--tls-cert and --tls-key belong together"},
		{"no certificate", ServeConfig{TLSCert: garbage, TLSKey: garbage}, "can't be used"},
		{"no kind of database", ServeConfig{DB: "oracle://x"}, `"oracle" is not a kind of database that is known; write sqlite://PATH, postgres://USER@HOST/NAME or memory:`},
		{"a database without a scheme", ServeConfig{DB: password}, "the URL has no scheme; write"},
		{"a memory with a name", ServeConfig{DB: "memory:x"}, "takes nothing after the colon"},
		{"a file without its name", ServeConfig{DB: "sqlite://"}, "is sqlite:// and the path of a file"},
		{"a file with options", ServeConfig{DB: "sqlite://a?b"}, "without options"},
		{"a folder as a file", ServeConfig{DB: "sqlite://" + folder}, "folder"},
		{"a file in no folder", ServeConfig{DB: "sqlite://" + filepath.Join(dir, "absent", "x.db")}, "make the folder"},
		{"a file in a file", ServeConfig{DB: "sqlite://" + filepath.Join(dir, "file", "x.db")}, filepath.Join(dir, "file")},
		{"a broken URL", ServeConfig{DB: "postgres://u:" + password + "#x@h:port/db"}, "are written as %2F"},
		{"a broken option", ServeConfig{DB: "postgres://u:" + password + "@h/db?sslmode=what"}, "the options of postgres://u@h/db can't be used"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.cfg.Listen == "" {
				c.cfg.Listen = "127.0.0.1:0"
			}
			if c.cfg.Admin == "" {
				c.cfg.Admin = "127.0.0.1:0"
			}
			c.cfg.Log = slog.New(slog.DiscardHandler)
			err := Serve(t.Context(), c.cfg)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), password) {
				t.Errorf("the password is told: %v", err)
			}
		})
	}
}

func TestASandboxAloneServesAndEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, result := make(printed, 1), make(chan error, 1)
	go func() {
		result <- ServeSandbox(ctx, SandboxConfig{Listen: "127.0.0.1:0", DB: "memory:", Out: out, Log: slog.New(slog.DiscardHandler)})
	}()
	var text string
	select {
	case text = <-out:
	case err := <-result:
		t.Fatal(err)
	}
	s := &served{client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	if status, list := s.get(t, find(t, text, `listening on (\S+)`)+"/charges"); status != http.StatusOK || !strings.Contains(list, "charges") {
		t.Errorf("got %d %s", status, list)
	}
	cancel()
	if err := <-result; err != nil {
		t.Error(err)
	}
}

func TestMigrationsArePrintedForEachDatabase(t *testing.T) {
	for db, want := range map[string]string{"sqlite://x": "fifty_keys", "postgres:": "keys"} {
		var b bytes.Buffer
		if err := WriteMigrations(&b, db); err != nil || !strings.Contains(strings.ToLower(b.String()), "create table") || !strings.Contains(b.String(), want) {
			t.Errorf("%s: %v\n%s", db, err, &b)
		}
	}
	for db, want := range map[string]string{"memory:": "has no tables", "x": "names no kind"} {
		if err := WriteMigrations(io.Discard, db); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", db, err)
		}
	}
}
