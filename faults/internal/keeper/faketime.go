//go:build linux || darwin

package keeper

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// FaketimeVariable names libfaketime's library, which is then the only one looked at.
const FaketimeVariable = "FIFTY_FAKETIME_LIB"

// FaketimePlaces are where packages put the library.
var FaketimePlaces = []string{
	"/usr/lib/*/faketime/libfaketime.so.1", // Debian, Ubuntu
	"/usr/lib64/faketime/libfaketime.so.1", // Fedora
	"/usr/lib/faketime/libfaketime.so.1",   // Arch
	"/usr/lib/libfaketime.so.1",            // Alpine
	"/usr/local/lib/faketime/libfaketime.so.1",
	"/opt/homebrew/lib/faketime/libfaketime.1.dylib", // Homebrew
	"/usr/local/lib/faketime/libfaketime.1.dylib",
}

// ErrNoFaketime is returned when libfaketime is not found. Its message says what to install.
var ErrNoFaketime = errors.New("a server with another clock needs libfaketime, and it was not found")

const faketimeHelp = `
  Debian, Ubuntu:  apt-get install faketime
  Fedora:          dnf install libfaketime
  Alpine:          apk add libfaketime
  macOS:           brew install libfaketime
  or set ` + FaketimeVariable + ` to the library.`

// A Clock is how far a server's clock is off. nil is the host's clock. libfaketime moves it: it is loaded into
// the server, and looks at a file each time that the server asks for the time.
type Clock struct {
	Library string
	Skew    time.Duration
}

// Set writes the file below folder, and returns what makes a server heed it.
func (c *Clock) Set(folder string, who Owner) (env []string, err error) {
	if c == nil {
		return nil, nil
	}
	file := filepath.Join(folder, "clock")
	scratch := file + ".new"
	if err := os.WriteFile(scratch, fmt.Appendf(nil, "%+d\n", int64(c.Skew.Round(time.Second)/time.Second)), 0o600); err != nil {
		return nil, err
	}
	// Linearization point: the rename. A process that asks for the time sees the old file or the new one.
	if err := errors.Join(who.Give(scratch), os.Rename(scratch, file)); err != nil {
		return nil, err
	}
	env = []string{
		"FAKETIME_TIMESTAMP_FILE=" + file,
		"FAKETIME_NO_CACHE=1", // so that a change holds at once
		"FAKETIME_DONT_FAKE_MONOTONIC=1",
	}
	if runtime.GOOS == "darwin" {
		return append(env, "DYLD_INSERT_LIBRARIES="+c.Library, "DYLD_FORCE_FLAT_NAMESPACE=1"), nil
	}
	return append(env, "LD_PRELOAD="+c.Library), nil
}

// FindFaketime returns the path of libfaketime's library: that named by FIFTY_FAKETIME_LIB, else the first in
// the places. The error wraps [ErrNoFaketime] when there is none.
func FindFaketime(places []string) (library string, err error) {
	if library := os.Getenv(FaketimeVariable); library != "" {
		if _, err := os.Stat(library); err != nil {
			return "", fmt.Errorf("%w: %s: %w%s", ErrNoFaketime, FaketimeVariable, err, faketimeHelp)
		}
		return library, nil
	}
	for _, place := range places {
		matches, err := filepath.Glob(place)
		if err != nil {
			panic(err) // the pattern is a constant
		}
		if len(matches) > 0 {
			return matches[0], nil
		}
	}
	return "", fmt.Errorf("%w in %s.%s", ErrNoFaketime, strings.Join(places, ", "), faketimeHelp)
}
