package hosts_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNoThreadOfAPausedHostRuns(t *testing.T) {
	t.Parallel()
	h := start(t, config("spin"))
	waitFor(t, h, "ready")
	for round := range 5 {
		if err := h.Pause(); err != nil {
			t.Fatal(err)
		}
		for _, state := range threadStates(t, h.PID()) {
			if state != "T" {
				t.Errorf("round %d: a thread is in state %s", round, state)
			}
		}
		if err := h.Pause(); err != nil {
			t.Errorf("pausing what is paused: %v", err)
		}
		said := fmt.Sprintf("round %d\n", round)
		if _, err := io.WriteString(h.Stdin(), said); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := h.Resume(); err != nil {
				t.Fatal(err)
			}
		}
		waitFor(t, h, said)
	}
}

func threadStates(t *testing.T, pid int) (states []string) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(files) < 4 {
		t.Fatalf("found %v, %v: want the files of several threads", files, err)
	}
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		states = append(states, rest[:1])
	}
	return states
}
