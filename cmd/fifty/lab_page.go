package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fiftyhosts/fifty/lab"
)

// page is the file of --html: written beside its place, so that nothing is left there by a run without a
// result. A nil page is none.
type page struct {
	path string
	file *os.File
}

const pageHint = "name a file in a folder that is there and that this user can write"

// unwritable names the page's own path, not that of the file beside it.
func unwritable(path string, err error) error {
	if inner, ok := errors.AsType[*fs.PathError](err); ok {
		err = inner.Err
	}
	return fmt.Errorf("--html %s: %w; %s", path, err, pageHint)
}

// newPage finds out, before anything runs, whether the page can be written.
func newPage(path string) (*page, error) {
	if path == "" {
		return nil, nil
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return nil, fmt.Errorf("--html %s is there and is no file; %s", path, pageHint)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, unwritable(path, err)
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".fifty-lab-*.html")
	if err != nil {
		return nil, unwritable(path, err)
	}
	return &page{path: path, file: file}, nil
}

// keep writes the page and puts it in its place.
func (p *page) keep(r lab.Report) error {
	if p == nil {
		return nil
	}
	const mode = 0o644 // to be looked at, like any document
	err := lab.WriteHTML(p.file, r)
	if err == nil {
		err = p.file.Chmod(mode)
	}
	if closing := p.file.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(p.file.Name(), p.path)
	}
	if err != nil {
		return &failure{fmt.Errorf("--html: %w", err)}
	}
	return nil
}

// discard takes away what was not kept.
func (p *page) discard() {
	if p == nil {
		return
	}
	_ = p.file.Close()
	_ = os.Remove(p.file.Name()) // it is gone when it was kept
}
