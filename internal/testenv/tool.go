//go:build linux || darwin

package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Tool returns the path of a program from internal/tools, such as "stripe-mock".
// It is built once and kept in the tools folder; the build's progress goes to
// standard error. A test of stripe-mock has Stripe in its name (see [Variable]).
// The test fails when the program can't be built. Safe for concurrent use, also
// from several processes.
func Tool(tb testing.TB, name string) string {
	tb.Helper()
	mayUse(tb, "Stripe")
	root, err := moduleRoot()
	if err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	cmd := exec.Command(filepath.Join(root, "scripts", "tool.sh"), name)
	var progress strings.Builder
	cmd.Stderr = &teeToStderr{&progress}
	path, err := cmd.Output()
	if err != nil {
		tb.Fatalf("testenv: build %s: %v\n%s", name, err, progress.String())
	}
	return strings.TrimSpace(string(path))
}

// teeToStderr keeps what it shows.
type teeToStderr struct{ kept *strings.Builder }

func (t *teeToStderr) Write(p []byte) (int, error) {
	t.kept.Write(p)
	return os.Stderr.Write(p)
}

// moduleRoot is the folder of Fifty's own go.mod. Tests run in their package's
// folder, which is below it.
func moduleRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for folder := start; ; folder = filepath.Dir(folder) {
		text, err := os.ReadFile(filepath.Join(folder, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module github.com/fiftyhosts/fifty\n") {
			return folder, nil
		}
		if folder == filepath.Dir(folder) {
			return "", fmt.Errorf("%s is not below Fifty's own go.mod, where scripts/tool.sh is", start)
		}
	}
}
