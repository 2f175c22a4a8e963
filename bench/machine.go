package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// machine says in one line what the figures were measured on.
func machine() string {
	return fmt.Sprintf("%s, %d cores, %s %s/%s", processor(), runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// processor is its model, where the system tells.
func processor() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	for line := range strings.Lines(string(info)) {
		if name, model, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(model)
		}
	}
	return "unknown processor"
}
