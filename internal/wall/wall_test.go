package wall

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// childVariable makes this test binary print what it reads.
const childVariable = "WALL_TEST_CHILD"

// reading is what one process reads.
type reading struct {
	Faulty    bool
	Skew      time.Duration
	Ahead     time.Duration // Now, ahead of Runtime
	Since     time.Duration // of a reading that was just taken
	Monotonic bool
}

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		os.Exit(m.Run())
	}
	now := Now()
	_ = json.NewEncoder(os.Stdout).Encode(reading{
		Faulty: Faulty, Skew: Skew(), Ahead: now.Sub(Runtime()), Since: Since(now),
		Monotonic: now != now.Round(0),
	})
}

// read runs a test binary with the variable set.
func read(t *testing.T, binary, value string) (got reading, stderr string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Env = append(os.Environ(), childVariable+"=1", Variable+"="+value)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &got)
	}
	return got, said.String(), err
}

// isNear is true for two readings that were meant for one moment, however slow the machine.
func isNear(got, want time.Duration) bool { return (got - want).Abs() < 10*time.Minute }

func TestUsualBuildIgnoresTheVariable(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"", "+4h", "nonsense"} {
		got, stderr, err := read(t, os.Args[0], value)
		if err != nil || got.Faulty || got.Skew != 0 || !isNear(got.Ahead, 0) || !isNear(got.Since, 0) || !got.Monotonic {
			t.Errorf("%q: %+v, %v %s", value, got, err, stderr)
		}
	}
}

func TestFaultBuildMovesTheClock(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "wall.test")
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-tags", "faultclock", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for value, want := range map[string]time.Duration{
		"": 0, "+4h": 4 * time.Hour, "-90m": -90 * time.Minute, "4h0m0s": 4 * time.Hour, "0s": 0,
	} {
		got, stderr, err := read(t, binary, value)
		if err != nil || !got.Faulty || got.Skew != want || !isNear(got.Ahead, want) {
			t.Errorf("%q: %+v, %v %s", value, got, err, stderr)
		}
		if !isNear(got.Since, 0) || !got.Monotonic {
			t.Errorf("%q: differences between readings are not true: %+v", value, got)
		}
	}
	for _, value := range []string{"4", "four hours", "+4h x", "-2000000h", "99999999999h"} {
		_, stderr, err := read(t, binary, value)
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 2 {
			t.Errorf("%q: %v, want exit code 2", value, err)
		}
		if !strings.Contains(stderr, Variable) || !strings.Contains(stderr, value) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: it says %q", value, stderr)
		}
	}
}
