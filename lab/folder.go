package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fiftyhosts/fifty/server"
)

// folderPrefix begins the name of the folder of a run on SQLite.
const folderPrefix = "fifty-lab-"

// lockName is the file in it that its owner holds locked.
const lockName = "owner"

// youngMax is how old a folder must be before it is taken for a leftover: its owner makes it first and locks it
// then.
const youngMax = time.Minute

// folder is a folder of SQLite files. It is locked while its owner lives, whatever ends that one.
type folder struct {
	path  string
	shown string
	lock  *os.File
	files int
}

// newFolder makes a folder within parent. beside is the file that the URL named, or "".
func newFolder(parent, beside string) (place, error) {
	f := &folder{shown: "a temporary SQLite file"}
	if beside != "" {
		f.shown = "a SQLite file of its own beside " + beside
	}
	tidyFolders(parent)
	path, err := os.MkdirTemp(parent, folderPrefix)
	if err != nil {
		return nil, f.explain(err)
	}
	f.path = path
	if f.lock, err = lockFile(filepath.Join(path, lockName)); err != nil {
		return nil, errors.Join(f.explain(err), os.RemoveAll(path))
	}
	return f, nil
}

func (f *folder) name() string { return f.shown }

func (f *folder) explain(err error) error {
	return &server.BackendError{
		Name: f.shown, Cause: err,
		Hint: "name a folder that this user can write, in TMPDIR or with --db sqlite://PATH",
	}
}

func (f *folder) fresh(context.Context) (world, error) {
	f.files++
	return world{File: filepath.Join(f.path, fmt.Sprintf("run-%d.db", f.files))}, nil
}

func (f *folder) drop(_ context.Context, w world) error {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(w.File + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (f *folder) close() error {
	err := os.RemoveAll(f.path)
	_ = f.lock.Close()
	if err != nil {
		return fmt.Errorf("%s is left; remove it: %w", f.path, err)
	}
	return nil
}

// tidyFolders takes away what killed runs have left in parent: folders whose owner is gone. What it can't
// tell, or can't remove, stays.
func tidyFolders(parent string) {
	found, err := os.ReadDir(parent)
	if err != nil {
		return // what is wrong with it shows when a folder is made in it
	}
	looked := 0
	for _, entry := range found {
		if !strings.HasPrefix(entry.Name(), folderPrefix) || looked == staleMax {
			continue
		}
		looked++
		path := filepath.Join(parent, entry.Name())
		info, err := os.Stat(filepath.Join(path, lockName))
		if err != nil || time.Since(info.ModTime()) < youngMax {
			continue
		}
		lock, err := lockFile(filepath.Join(path, lockName))
		if err != nil {
			continue // somebody's
		}
		_ = os.RemoveAll(path)
		_ = lock.Close()
	}
}
