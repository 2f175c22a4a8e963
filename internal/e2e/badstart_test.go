package e2e

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFiftyThatCanNotStartSaysWhyAndExitsWith2: a fault of the command line, the configuration or the
// database is told in words that name it, with exit code 2, and nothing is left behind.
func TestFiftyThatCanNotStartSaysWhyAndExitsWith2(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	nowhere := strings.TrimPrefix(newReservedPort(t).url, "http://")
	misspelt := writeConfig(t, "routes:\n- path: /charges\n  upstrem: http://127.0.0.1:9000\n  scope: {constant: all}\n")
	unverified := writeConfig(t, "routes:\n- path: /charges\n  upstream: http://127.0.0.1:9000\n  scope: {jwt: {claim: sub}}\n")
	free := []string{"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}
	for _, tt := range []struct {
		name string
		args []string
		want []string // in what it writes
	}{
		{"a field that is not known", append([]string{"serve", "--config", misspelt}, free...), []string{"upstrem", "upstream", misspelt}},
		{"an identity that is not verified", append([]string{"serve", "--config", unverified}, free...), []string{"keys"}},
		{"a configuration that is not there", append([]string{"serve", "--config", "none.yaml"}, free...), []string{"none.yaml"}},
		{"a database that can't be reached", append([]string{"serve", "--db", "postgres://fifty:hunter2@" + nowhere + "/fifty"}, free...), []string{nowhere}},
		{"a database of no kind", append([]string{"serve", "--db", "oracle://fifty"}, free...), []string{"oracle", "postgres://"}},
		{"a folder that is not there", append([]string{"serve", "--db", "sqlite://none/fifty.db"}, free...), []string{"none"}},
		{"an address that is taken", []string{"serve", "--listen", taken.Addr().String(), "--admin", "127.0.0.1:0"}, []string{taken.Addr().String()}},
		{"a proxy of nothing", append([]string{"proxy"}, free...), []string{"--upstream"}},
		{"an upstream that is no URL", append([]string{"proxy", "--upstream", "localhost"}, free...), []string{"--upstream", "http://"}},
		{"a flag that is not known", []string{"serve", "--port", "80"}, []string{"--port"}},
		{"a command that is not known", []string{"server"}, []string{"server", "serve"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := start(t, tt.args...)
			if code := p.exitCode(); code != 2 {
				t.Errorf("exit code %d, want 2", code)
			}
			for _, part := range tt.want {
				if !strings.Contains(p.log(), part) {
					t.Errorf("it does not say %q", part)
				}
			}
			if strings.Contains(p.log(), "goroutine ") || strings.Contains(p.log(), "hunter2") {
				t.Error("it shows a stack or a password")
			}
		})
	}
}

// TestFaultyConfigurationMakesNoDatabase: what is wrong is found before anything is made.
func TestFaultyConfigurationMakesNoDatabase(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fifty.db")
	config := writeConfig(t, "routes: []\n")
	p := start(t, "serve", "--config", config, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--db", "sqlite://"+path)
	if code := p.exitCode(); code != 2 {
		t.Errorf("exit code %d, want 2", code)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the database was made: %v", err)
	}
}
