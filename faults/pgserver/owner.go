//go:build linux || darwin

package pgserver

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// An owner is the user that a server runs as. The zero value is ourselves.
type owner struct {
	UID, GID int
}

// serverOwner is ourselves, unless we are root, as whom Postgres refuses to
// run: then it is the user postgres, or nobody where there is no postgres.
func serverOwner() (owner, error) {
	if os.Geteuid() != 0 {
		return owner{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.Atoi(u.Uid)
		gid, errGID := strconv.Atoi(u.Gid)
		if errUID == nil && errGID == nil && uid != 0 {
			return owner{UID: uid, GID: gid}, nil
		}
	}
	return owner{}, errors.New("as root, a test server runs as the user postgres or nobody, and this system has neither: add one (useradd --system postgres), or run the tests as another user")
}

func (o owner) credential() *syscall.Credential {
	if o == (owner{}) {
		return nil
	}
	return &syscall.Credential{Uid: uint32(o.UID), Gid: uint32(o.GID)} //nolint:gosec // from the system's own table of users
}

// give makes path theirs.
func (o owner) give(path string) error {
	if o == (owner{}) {
		return nil
	}
	return os.Lchown(path, o.UID, o.GID)
}

// tempFolder is the folder for temporary files, or another usual one where the
// owner can't get into that one.
func tempFolder(who owner) (string, error) {
	candidates := []string{os.TempDir(), "/tmp", "/var/tmp"}
	for _, folder := range candidates {
		if who == (owner{}) || openToAll(folder) {
			return folder, nil
		}
	}
	return "", fmt.Errorf("none of %s can be entered by all users: set TMPDIR to a folder that can", strings.Join(candidates, ", "))
}

// openToAll tells whether each folder on the way to path can be entered by
// every user.
func openToAll(path string) bool {
	path, err := filepath.Abs(path)
	if err != nil {
		return false
	}
	for {
		info, err := os.Stat(path)
		if err != nil || !info.IsDir() || info.Mode().Perm()&0o001 == 0 {
			return false
		}
		if path == filepath.Dir(path) {
			return true
		}
		path = filepath.Dir(path)
	}
}

// cleanEnvironment is ours without what would steer a server: the language of
// its messages, and Postgres's own variables.
func cleanEnvironment() []string {
	kept := []string{"LC_ALL=C"}
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		steers := strings.HasPrefix(name, "PG") || strings.HasPrefix(name, "LC_") ||
			strings.HasPrefix(name, "LANG") || name == keeperVariable
		if !steers {
			kept = append(kept, variable)
		}
	}
	return kept
}
