//go:build linux || darwin

package pgserver

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// BinVariable names a folder that holds initdb and postgres, which is then
// the only one looked at.
const BinVariable = "FIFTY_POSTGRES_BIN"

// oldest is the first version that has all that is used here.
const oldest = 14

// usualPlaces are where packages put the programs outside of PATH.
var usualPlaces = []string{
	"/usr/lib/postgresql/*/bin",   // Debian, Ubuntu
	"/usr/pgsql-*/bin",            // postgresql.org's packages for Fedora, Red Hat
	"/usr/libexec/postgresql*",    // Alpine
	"/opt/homebrew/opt/*sql*/bin", // Homebrew
	"/usr/local/opt/*sql*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
	"/usr/local/pgsql/bin",
}

// ErrNotFound is returned when Postgres's programs are not found. Its message
// says what to install.
var ErrNotFound = errors.New("a Postgres server to start needs Postgres's own programs (initdb, postgres), and they were not found")

const help = `
  Debian, Ubuntu:  apt-get install postgresql
  Fedora:          dnf install postgresql-server
  Alpine:          apk add postgresql
  macOS:           brew install postgresql@17
  or set ` + BinVariable + ` to the folder that holds them.
No server needs to be set up or running: each test binary starts its own.`

// An installation is the programs of one version.
type installation struct {
	folder  string
	version string // as postgres --version prints it
}

// Find returns the folder of Postgres's programs: that named by
// FIFTY_POSTGRES_BIN, else that of the initdb in PATH, else the newest version
// in the usual places. The error wraps [ErrNotFound] when there is none.
func Find() (folder string, err error) {
	found, err := find(usualPlaces)
	return found.folder, err
}

func find(places []string) (installation, error) {
	if folder := os.Getenv(BinVariable); folder != "" {
		found, err := tryFolder(folder)
		if err != nil {
			return installation{}, fmt.Errorf("%s: %w", BinVariable, err)
		}
		return found, nil
	}
	var reasons []string
	for _, folder := range folders(places) {
		found, err := tryFolder(folder)
		if err == nil {
			return found, nil
		}
		reasons = append(reasons, fmt.Sprintf("\n  (%v)", err))
	}
	return installation{}, fmt.Errorf("%w in PATH or in %s.%s%s", ErrNotFound,
		strings.Join(places, ", "), strings.Join(reasons, ""), help)
}

// folders lists where to look, best first.
func folders(places []string) []string {
	var folders []string
	for _, place := range places {
		matches, err := filepath.Glob(place)
		if err != nil {
			panic(err) // the pattern is a constant
		}
		folders = append(folders, matches...)
	}
	slices.SortStableFunc(folders, func(a, b string) int {
		return cmp.Compare(pathVersion(b), pathVersion(a))
	})
	if initdb, err := exec.LookPath("initdb"); err == nil {
		if target, err := filepath.EvalSymlinks(initdb); err == nil {
			folders = append([]string{filepath.Dir(target)}, folders...)
		}
	}
	return folders
}

var digits = regexp.MustCompile(`[0-9]+`)

// pathVersion is the version in a path such as /usr/lib/postgresql/17/bin, or 0.
func pathVersion(path string) int {
	numbers := digits.FindAllString(path, -1)
	if len(numbers) == 0 {
		return 0
	}
	version, err := strconv.Atoi(numbers[len(numbers)-1])
	if err != nil {
		return 0
	}
	return version
}

// major is 15 in "postgres (PostgreSQL) 15.13 (Debian 15.13-0+deb12u1)", or 0.
func (p installation) major() int {
	version, err := strconv.Atoi(digits.FindString(p.version))
	if err != nil {
		return 0
	}
	return version
}

func tryFolder(folder string) (installation, error) {
	for _, program := range []string{"initdb", "postgres"} {
		if _, err := exec.LookPath(filepath.Join(folder, program)); err != nil {
			return installation{}, fmt.Errorf("no %s in %s", program, folder)
		}
	}
	out, err := exec.Command(filepath.Join(folder, "postgres"), "--version").Output()
	if err != nil {
		return installation{}, fmt.Errorf("%s/postgres --version: %w", folder, err)
	}
	found := installation{folder: folder, version: strings.TrimSpace(string(out))}
	if found.major() < oldest {
		return installation{}, fmt.Errorf("%s has %s, and version %d or newer is needed", folder, found.version, oldest)
	}
	return found, nil
}
