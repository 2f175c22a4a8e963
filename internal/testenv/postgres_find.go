//go:build linux || darwin

package testenv

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

// PostgresVariable names a folder that holds initdb and postgres, which is then
// the only one looked at.
const PostgresVariable = "FIFTY_POSTGRES_BIN"

// postgresOldest is the first version with all that the tests use.
const postgresOldest = 14

// postgresPlaces are where packages put the programs outside of PATH.
var postgresPlaces = []string{
	"/usr/lib/postgresql/*/bin",   // Debian, Ubuntu
	"/usr/pgsql-*/bin",            // postgresql.org's packages for Fedora, Red Hat
	"/usr/libexec/postgresql*",    // Alpine
	"/opt/homebrew/opt/*sql*/bin", // Homebrew
	"/usr/local/opt/*sql*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
	"/usr/local/pgsql/bin",
}

// ErrNoPostgres is returned when Postgres's programs are not found. Its message
// says what to install.
var ErrNoPostgres = errors.New("these tests need Postgres's own programs (initdb, postgres), and they were not found")

const postgresHelp = `
  Debian, Ubuntu:  apt-get install postgresql   (make test does it, as root or with sudo)
  Fedora:          dnf install postgresql-server
  Alpine:          apk add postgresql
  macOS:           brew install postgresql@17
  or set ` + PostgresVariable + ` to the folder that holds them.
No server needs to be set up or running: the tests start their own.
make check runs the tests that need no server.`

// postgresPrograms are the programs of one installed version.
type postgresPrograms struct {
	folder  string
	version string // as postgres --version prints it
}

// FindPostgres returns the folder of Postgres's programs: that named by
// FIFTY_POSTGRES_BIN, else that of the initdb in PATH, else the newest version
// in the usual places. The error wraps [ErrNoPostgres] when there is none.
func FindPostgres() (folder string, err error) {
	found, err := findPostgres(postgresPlaces)
	return found.folder, err
}

func findPostgres(places []string) (postgresPrograms, error) {
	if folder := os.Getenv(PostgresVariable); folder != "" {
		found, err := tryPostgres(folder)
		if err != nil {
			return postgresPrograms{}, fmt.Errorf("%s: %w", PostgresVariable, err)
		}
		return found, nil
	}
	var reasons []string
	for _, folder := range postgresFolders(places) {
		found, err := tryPostgres(folder)
		if err == nil {
			return found, nil
		}
		reasons = append(reasons, fmt.Sprintf("\n  (%v)", err))
	}
	return postgresPrograms{}, fmt.Errorf("%w in PATH or in %s.%s%s", ErrNoPostgres,
		strings.Join(places, ", "), strings.Join(reasons, ""), postgresHelp)
}

// postgresFolders lists where to look, best first.
func postgresFolders(places []string) []string {
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
func (p postgresPrograms) major() int {
	version, err := strconv.Atoi(digits.FindString(p.version))
	if err != nil {
		return 0
	}
	return version
}

func tryPostgres(folder string) (postgresPrograms, error) {
	for _, program := range []string{"initdb", "postgres"} {
		if _, err := exec.LookPath(filepath.Join(folder, program)); err != nil {
			return postgresPrograms{}, fmt.Errorf("no %s in %s", program, folder)
		}
	}
	out, err := exec.Command(filepath.Join(folder, "postgres"), "--version").Output()
	if err != nil {
		return postgresPrograms{}, fmt.Errorf("%s/postgres --version: %w", folder, err)
	}
	found := postgresPrograms{folder: folder, version: strings.TrimSpace(string(out))}
	if found.major() < postgresOldest {
		return postgresPrograms{}, fmt.Errorf("%s has %s, and the tests need version %d or newer", folder, found.version, postgresOldest)
	}
	return found, nil
}
