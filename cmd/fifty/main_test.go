package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spf13/cobra"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == labHostName {
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) // a host of the lab, which a test has started
	}
	goleak.VerifyTestMain(m)
}

// try runs a command line that ends by itself.
func try(t testing.TB, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(args, &o, &e)
	return code, o.String(), e.String()
}

func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const goodConfig = "routes:\n- path: /charges\n  upstream: http://127.0.0.1:9000\n  scope: {constant: all}\n"

func TestWrongCommandLinesExitWith2AndSayWhatIsRight(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		args string
		want string
	}{
		{"server", "serve"},
		{"serve --port 80", "unknown flag: --port; see fifty serve --help"},
		{"serve extra", `unknown command "extra"`},
		{"serve --log xml", `--log is "xml"; it can be text or json`},
		{"serve --log-level loud", `--log-level is "loud"; it can be debug, info, warn or error`},
		{"serve --drain 0s", "--drain is 0s; it must be above zero"},
		{"serve --check-config", "--check-config needs --config FILE"},
		{"serve --config absent.yaml", "absent.yaml"},
		{"serve --tls-cert a", "--tls-cert and --tls-key belong together"},
		{"proxy", "--upstream is missing; write --upstream http://HOST:PORT"},
		{"proxy --upstream localhost", `--upstream "localhost" has no scheme that is known; write http://HOST:PORT`},
		{"proxy --upstream http://a --scope jwt", `--scope is "jwt"; it can be credential or constant`},
		{"proxy --upstream http://a --key no", `--key is "no"; it can be required or optional`},
		{"proxy --upstream http://a --forward-key no", `--forward-key is "no"; it can be raw or derived`},
		{"proxy --upstream http://a --timeout 0s", "--timeout is 0s; it must be above zero"},
		{"sandbox --db oracle://x", `"oracle" is not a kind of database that is known`},
		{"migrate --db oracle://x", `"oracle" is not a kind of database that is known`},
		{"migrate --print --db memory:", "memory: has no tables"},
	} {
		t.Run(c.args, func(t *testing.T) {
			code, out, errOut := try(t, strings.Fields(c.args)...)
			if code != exitUsage || out != "" {
				t.Errorf("exit code %d, want 2; it printed %q", code, out)
			}
			if !strings.HasPrefix(errOut, "fifty: ") || !strings.Contains(errOut, c.want) {
				t.Errorf("it says %q, want %q", errOut, c.want)
			}
		})
	}
	if files, err := filepath.Glob("*"); err != nil || len(files) > 0 {
		t.Errorf("left behind: %v, %v", files, err)
	}
}

func TestEveryCommandHasHelpWithAnExample(t *testing.T) {
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Short == "" || c.Example == "" {
			t.Errorf("%s has no short text or no example", c.CommandPath())
		}
		code, out, _ := try(t, append(strings.Fields(c.CommandPath())[1:], "--help")...)
		if code != exitFine || !strings.Contains(out, "Examples:\n"+c.Example) {
			t.Errorf("%s --help exits with %d and prints\n%s", c.CommandPath(), code, out)
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit((&app{}).root())
}

func TestTheConfigurationInTheHelpIsRight(t *testing.T) {
	code, out, errOut := try(t, "serve", "--check-config", "--config", write(t, "fifty.yaml", exampleConfig))
	if code != exitFine || !strings.Contains(out, "It has 1 route(s):") {
		t.Errorf("exit code %d\n%s%s", code, out, errOut)
	}
}

// TestTheConfigurationToDeployIsRight: as it is, and with what is commented out.
func TestTheConfigurationToDeployIsRight(t *testing.T) {
	text, err := os.ReadFile("../../deploy/fifty.yaml")
	if err != nil {
		t.Fatal(err)
	}
	code, out, errOut := try(t, "serve", "--check-config", "--config", "../../deploy/fifty.yaml")
	if code != exitFine || !strings.Contains(out, "It has 3 route(s):") {
		t.Errorf("exit code %d\n%s%s", code, out, errOut)
	}
	sealed := regexp.MustCompile(`(?m)^# (seal:|  keys:|    - \{)`).ReplaceAllString(string(text), "$1")
	name := write(t, "fifty.yaml", sealed)
	for _, key := range []string{"2025.key", "2026.key"} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(name), key), bytes.Repeat([]byte(key[:1]), 32), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if code, _, errOut := try(t, "serve", "--check-config", "--config", name); sealed == string(text) || code != exitFine {
		t.Errorf("exit code %d\n%s", code, errOut)
	}
	for _, field := range []string{"path", "methods", "upstream", "key", "scope", "unknown", "upstream_window", "duplicate", "retention", "tombstone", "headers", "forward_key", "body_max", "response_max", "timeout", "lease", "seal", "jwt", "credential", "header", "constant", "with_endpoint", "claim", "issuer", "audience", "algorithms"} {
		if !regexp.MustCompile(`(?m)^[# -]*` + field + `:`).Match(text) {
			t.Errorf("it does not show %s", field)
		}
	}
}

func TestACheckedConfigurationPrintsWhatWouldRun(t *testing.T) {
	good := write(t, "good.yaml", goodConfig)
	code, out, _ := try(t, "serve", "--check-config", "--config", good)
	if code != exitFine || !strings.Contains(out, "POST,PATCH /charges -> http://127.0.0.1:9000, key required, scope constant (all)") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	bad := write(t, "bad.yaml", strings.Replace(goodConfig, "path", "pth", 1)+"  wait: 3\n")
	code, _, errOut := try(t, "serve", "--check-config", "--config", bad)
	want := bad + " has 3 fault(s):\n" +
		bad + ":2:3: routes[0].pth: is not a known field; did you mean path?\n" +
		bad + ":2:3: routes[0]: has no path, such as /charges\n" +
		bad + ":5:3: routes[0].wait: is not a known field; known here: path, methods, upstream, key, scope, unknown, upstream_window, duplicate, retention, tombstone, headers, forward_key, body_max, response_max, timeout, lease\n"
	if code != exitUsage || errOut != "fifty: "+want {
		t.Errorf("exit code %d\n%s\nwant\n%s", code, errOut, want)
	}
}

func TestVersionAndCompletion(t *testing.T) {
	if code, out, _ := try(t, "version"); code != exitFine || !strings.HasPrefix(out, "fifty ") || strings.Count(out, "\n") != 1 {
		t.Errorf("exit code %d, %q", code, out)
	}
	if code, out, _ := try(t, "completion", "bash"); code != exitFine || !strings.Contains(out, "fifty") {
		t.Errorf("exit code %d, %q", code, out)
	}
	if code, out, _ := try(t); code != exitFine || !strings.Contains(out, "Available Commands:") {
		t.Errorf("without arguments: exit code %d, %q", code, out)
	}
}

func TestMigrateMakesTheTablesOfFIFTY_DB(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifty.db")
	t.Setenv("FIFTY_DB", "sqlite://"+path)
	for range 2 {
		if code, out, errOut := try(t, "migrate"); code != exitFine || !strings.Contains(out, path+" is up to date") {
			t.Errorf("exit code %d\n%s%s", code, out, errOut)
		}
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	code, out, _ := try(t, "migrate", "--print", "--db", "postgres:")
	if code != exitFine || !strings.Contains(out, "create table") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

func TestAPasswordInFIFTY_DBIsNotInTheHelp(t *testing.T) {
	t.Setenv("FIFTY_DB", "postgres://u:hunter2@h/db")
	if _, out, _ := try(t, "serve", "--help"); strings.Contains(out, "hunter2") {
		t.Error(out)
	}
}

// running is a command under test that runs until it gets a signal.
type running struct {
	app  *app
	out  *watched
	err  *watched
	code chan int
}

func start(t testing.TB, args ...string) *running {
	t.Helper()
	r := &running{out: newWatched(), err: newWatched(), code: make(chan int, 1)}
	r.app = &app{out: r.out, err: r.err, signals: make(chan os.Signal, 2)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.code <- r.app.run(args)
	}()
	t.Cleanup(func() {
		for range 2 {
			select {
			case r.app.signals <- syscall.SIGTERM:
			default:
			}
		}
		<-ended
	})
	return r
}

// watched is what a command writes.
type watched struct {
	mu    sync.Mutex
	text  strings.Builder
	grown chan struct{}
}

func newWatched() *watched { return &watched{grown: make(chan struct{})} }

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(p)
	close(w.grown)
	w.grown = make(chan struct{})
	return len(p), nil
}

func (w *watched) find(t testing.TB, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	limit := time.After(20 * time.Second)
	for {
		w.mu.Lock()
		found, grown := re.FindStringSubmatch(w.text.String()), w.grown
		w.mu.Unlock()
		if found != nil {
			return found[len(found)-1]
		}
		select {
		case <-grown:
		case <-limit:
			t.Fatalf("it did not print %s", pattern)
		}
	}
}

func TestAServeEndsWellAtTheFirstSignal(t *testing.T) {
	r := start(t, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--db", "memory:", "--log", "json")
	base := r.out.find(t, `listening on (\S+)`)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(base + "/charges")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("got %d", resp.StatusCode)
	}
	r.app.signals <- syscall.SIGTERM
	if code := <-r.code; code != exitFine {
		t.Errorf("exit code %d", code)
	}
	r.err.find(t, `"msg":"drained"`)
}

func TestASecondSignalEndsAtOnceAndSaysThatAnOutcomeIsUnknown(t *testing.T) {
	arrived, finish := make(chan struct{}), make(chan struct{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	upstream := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(arrived)
		<-finish
	})}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = upstream.Serve(l)
	}()
	defer func() {
		close(finish)
		_ = upstream.Shutdown(context.Background())
		<-served
	}()
	r := start(t, "proxy", "--upstream", "http://"+l.Addr().String(), "--scope", "constant", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--db", "memory:")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.out.find(t, `listening on (\S+)`), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Idempotency-Key", "k1")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	lost := make(chan error, 1)
	go func() {
		resp, err := client.Do(request)
		if err == nil {
			_ = resp.Body.Close()
		}
		lost <- err
	}()
	<-arrived
	r.app.signals <- syscall.SIGINT
	r.err.find(t, "draining")
	r.app.signals <- syscall.SIGINT
	if code := <-r.code; code != exitUnknown {
		t.Errorf("exit code %d, want 3", code)
	}
	r.err.find(t, "1 keyed requests were still at work")
	if err := <-lost; err == nil {
		t.Error("the client got an answer, though nothing is known")
	}
}

func TestASandboxRunsAlone(t *testing.T) {
	r := start(t, "sandbox", "--listen", "127.0.0.1:0", "--db", "memory:")
	r.out.find(t, `listening on (\S+)`)
	r.app.signals <- syscall.SIGTERM
	if code := <-r.code; code != exitFine {
		t.Errorf("exit code %d", code)
	}
}
