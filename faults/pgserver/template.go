//go:build linux || darwin

package pgserver

import (
	"crypto/rand"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fiftyhosts/fifty/faults/internal/keeper"
)

const (
	superuser = "postgres"
	// leftoverAge is when an unfinished template of a killed process may go.
	leftoverAge = time.Hour
)

// serverSettings hold for each test server. fsync stays on: a commit then takes
// the time that it really takes, and races get the windows that they really get.
const serverSettings = `
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 200
# In the data folder, so that nothing outside is left behind by a kill.
dynamic_shared_memory_type = mmap
lc_messages = 'C'
log_line_prefix = '%m [%p] %d '
`

func dataFolder(folder string) string   { return filepath.Join(folder, "data") }
func passwordFile(folder string) string { return filepath.Join(folder, "password") }
func (p installation) initdb() string   { return filepath.Join(p.folder, "initdb") }
func (p installation) server() string   { return filepath.Join(p.folder, "postgres") }

// A template is what initdb made, kept in the user's cache folder: initdb takes
// a second of processor time, a copy a tenth. An empty path means no cache.
type template string

// templateFor depends on all that the content depends on.
func templateFor(p installation, who keeper.Owner) template {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "" // no home folder: do without
	}
	inputs := strings.Join(append(initdbArguments("", ""), p.folder, p.version, serverSettings, fmt.Sprint(who)), "\x00")
	return template(filepath.Join(cache, "fifty", "pgserver", fmt.Sprintf("postgres-%d-%08x",
		p.major(), crc32.ChecksumIEEE([]byte(inputs)))))
}

func initdbArguments(data, password string) []string {
	locale := "C.UTF-8"
	if runtime.GOOS == "darwin" {
		locale = "C" // older ones have no C.UTF-8
	}
	// The password is for people who share the machine: a superuser of Postgres
	// can run programs as the user whom Postgres runs as.
	return []string{
		"--pgdata=" + data, "--username=" + superuser, "--pwfile=" + password,
		"--auth=scram-sha-256", "--encoding=UTF8", "--locale=" + locale, "--no-sync",
	}
}

// fill makes the data folder and the password file below k's folder, by a copy
// of the template or, when there is none yet, by initdb.
func (t template) fill(k *keeper.Kept, p installation, who keeper.Owner) error {
	if t != "" {
		err := errors.Join(copyTree(string(t)+"/data", dataFolder(k.Folder), who),
			copyTree(string(t)+"/password", passwordFile(k.Folder), who))
		if err == nil {
			return nil
		}
		// Not there, or just being replaced: make our own.
		if err := errors.Join(os.RemoveAll(dataFolder(k.Folder)), os.RemoveAll(passwordFile(k.Folder))); err != nil {
			return err
		}
	}
	if err := initdb(k, p, who); err != nil {
		return err
	}
	if t != "" {
		// A cache that can't be written costs a second at each start, no more.
		_ = t.save(k.Folder)
	}
	return nil
}

func initdb(k *keeper.Kept, p installation, who keeper.Owner) error {
	password := passwordFile(k.Folder)
	if err := os.WriteFile(password, []byte(rand.Text()), 0o600); err != nil {
		return err
	}
	if err := who.Give(password); err != nil {
		return err
	}
	data := dataFolder(k.Folder)
	_, err := k.Ask(keeper.Request{Do: "run", Command: keeper.Command{Path: p.initdb(), Args: initdbArguments(data, password), Owner: who}})
	if err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, k.Tail())
	}
	settings, err := os.OpenFile(data+"/postgresql.conf", os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = settings.WriteString(serverSettings)
	return errors.Join(err, settings.Close())
}

// save puts a copy of a fresh server into the cache. Of several processes that
// do so at once, one wins and the others' copies go away.
func (t template) save(folder string) error {
	parent := filepath.Dir(string(t))
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	removeLeftovers(parent)
	scratch, err := os.MkdirTemp(parent, "unfinished-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	err = errors.Join(copyTree(dataFolder(folder), scratch+"/data", keeper.Owner{}),
		copyTree(passwordFile(folder), scratch+"/password", keeper.Owner{}))
	if err != nil {
		return err
	}
	// The content must not be younger than the name: after a power cut a template
	// is whole or absent.
	unix.Sync()
	// Linearization point: the rename. A template of that name stays as it is,
	// since a folder that isn't empty can't be replaced.
	return os.Rename(scratch, string(t))
}

// forget removes a template from which a server did not start.
func (t template) forget() {
	if t != "" {
		_ = os.RemoveAll(string(t))
	}
}

func removeLeftovers(parent string) {
	leftovers, err := filepath.Glob(filepath.Join(parent, "unfinished-*"))
	if err != nil {
		return
	}
	for _, leftover := range leftovers {
		if info, err := os.Stat(leftover); err == nil && time.Since(info.ModTime()) > leftoverAge {
			_ = os.RemoveAll(leftover)
		}
	}
}

// copyTree copies a file or a folder and gives the copy to who.
func copyTree(from, to string, who keeper.Owner) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := to + strings.TrimPrefix(path, from)
		if entry.IsDir() {
			err = os.Mkdir(target, 0o700)
		} else {
			err = copyFile(path, target)
		}
		return errors.Join(err, who.Give(target))
	})
}

func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}
