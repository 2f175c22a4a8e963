package history

import (
	"math"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// clockMonotonic is CLOCK_MONOTONIC of clock_gettime(2).
const clockMonotonic = 1

// anchor is one moment by two readings of the same clock: the kernel's, which all processes share, and that of
// this process, which is cheap and counts from a start of its own.
type anchor struct {
	process time.Time
	kernel  int64
	spread  int64 // the kernel's was taken at most so much later
}

var anchored = sync.OnceValue(func() anchor {
	const readings = 50 // the one that was least held up counts
	best := anchor{spread: math.MaxInt64}
	for range readings {
		before := time.Now()
		kernel := kernelClock()
		if took := int64(time.Since(before)); took < best.spread {
			best = anchor{before, kernel, took}
		}
	}
	return best
})

func kernelClock() int64 {
	var ts syscall.Timespec
	// It can't fail, with a clock that exists and a pointer to the stack.
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}

func now() int64 {
	a := anchored()
	return a.kernel + int64(time.Since(a.process))
}

func spread() int64 { return anchored().spread }

// origin names the clock: the same text means that stamps can be compared. It is the boot of the kernel and,
// since containers may shift the clock, the time namespace.
var origin = sync.OnceValue(func() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return processOrigin()
	}
	space, err := os.Readlink("/proc/self/ns/time")
	if err != nil {
		space = "without time namespaces" // an older kernel
	}
	return "boot " + strings.TrimSpace(string(boot)) + " " + space
})
