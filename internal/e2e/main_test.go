package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// waitMax bounds each wait in these tests; a wait that gets there has failed.
const waitMax = 30 * time.Second

// buildFolder holds the binary under test, for the life of the test process.
var buildFolder string

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if run, ok := programs[os.Args[1]]; ok {
			if err := run(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, "e2e:", err)
				os.Exit(1)
			}
			return
		}
	}
	os.Exit(run(m))
}

// programs are what the test binary is when its first argument says so: hosts that are built on the library.
var programs = map[string]func(args []string) error{
	stepsHost:  func(args []string) error { return runStepsHost(args[0], args[1], args[2]) },
	soakHost:   func(args []string) error { return runSoakHost(args[0], args[1]) },
	saleHost:   func(args []string) error { return runSaleHost(args[0], args[1]) },
	linearHost: runLinearHost,
	saleLinear: runSaleLinear,
}

func run(m *testing.M) int {
	var err error
	if buildFolder, err = os.MkdirTemp("", "fifty-e2e-"); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(buildFolder) }()
	return m.Run()
}

// buildFifty builds cmd/fifty as a user would, once.
var buildFifty = sync.OnceValues(func() (string, error) {
	path := filepath.Join(buildFolder, "fifty")
	out, err := exec.Command("go", "build", "-o", path, "github.com/fiftyhosts/fifty/cmd/fifty").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build cmd/fifty: %w\n%s", err, out)
	}
	return path, nil
})

func fiftyBinary(tb testing.TB) string {
	tb.Helper()
	path, err := buildFifty()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// curlBinary is the path of curl, which the tests need as a client that we did not write.
func curlBinary(tb testing.TB) string {
	tb.Helper()
	path, err := exec.LookPath("curl")
	if err != nil {
		tb.Fatalf("curl is missing: install it (apt-get install curl, brew install curl): %v", err)
	}
	return path
}

// moduleRoot is the folder of Fifty's go.mod.
func moduleRoot(tb testing.TB) string {
	tb.Helper()
	out, err := exec.CommandContext(tb.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/fiftyhosts/fifty").Output()
	if err != nil {
		tb.Fatalf("go list -m: %v\n%s", err, stderrOf(err))
	}
	return strings.TrimSpace(string(out))
}

func stderrOf(err error) string {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(exit.Stderr)
	}
	return ""
}
