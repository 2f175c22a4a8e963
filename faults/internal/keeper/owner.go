//go:build linux || darwin

package keeper

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

// An Owner is the user that a server runs as. The zero value is ourselves.
type Owner struct {
	UID, GID int
}

// ServerOwner is ourselves, unless we are root, as whom no test server runs (Postgres refuses to): then it is the user postgres, or nobody where there is no postgres.
func ServerOwner() (Owner, error) {
	if os.Geteuid() != 0 {
		return Owner{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.Atoi(u.Uid)
		gid, errGID := strconv.Atoi(u.Gid)
		if errUID == nil && errGID == nil && uid != 0 {
			return Owner{UID: uid, GID: gid}, nil
		}
	}
	return Owner{}, errors.New("as root, a test server runs as the user postgres or nobody, and this system has neither: add one (useradd --system postgres), or run the tests as another user")
}

func (o Owner) credential() *syscall.Credential {
	if o == (Owner{}) {
		return nil
	}
	return &syscall.Credential{Uid: uint32(o.UID), Gid: uint32(o.GID)} //nolint:gosec // from the system's own table of users
}

// Give makes path theirs.
func (o Owner) Give(path string) error {
	if o == (Owner{}) {
		return nil
	}
	return os.Lchown(path, o.UID, o.GID)
}

// tempFolder is the folder for temporary files, or another usual one where the
// owner can't get into that one.
func tempFolder(who Owner) (string, error) {
	candidates := []string{os.TempDir(), "/tmp", "/var/tmp"}
	for _, folder := range candidates {
		if who == (Owner{}) || openToAll(folder) {
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
			strings.HasPrefix(name, "LANG") || name == variable
		if !steers {
			kept = append(kept, variable)
		}
	}
	return kept
}
