package history

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Defaults of Config.
const (
	dirDefault     = "testdata"
	nameDefault    = "history"
	timeMaxDefault = 10 * time.Second
)

// Why a history fails its check. See CheckError.
var (
	// ErrIllegal: no order of the operations, one after the other, explains what the callers were told.
	ErrIllegal = errors.New("no order explains the answers")

	// ErrUndecided: the time was over before an order was found or ruled out. This is no success: record
	// shorter histories, on more keys, with fewer unknown outcomes.
	ErrUndecided = errors.New("not decided")
)

// CheckError is an ErrIllegal or an ErrUndecided about one key.
type CheckError struct {
	Key        string
	Operations int    // on this key
	Unknown    int    // of them
	Path       string // the whole history, as JSON lines
	Picture    string // of this key's operations, and the longest orders found: an HTML page
	Err        error
}

func (e *CheckError) Error() string {
	return fmt.Sprintf("history: key %q, %d operations, %d of them unknown: %v\nthe history: %s\na picture: %s",
		e.Key, e.Operations, e.Unknown, e.Err, e.Path, e.Picture)
}

// Unwrap returns ErrIllegal or ErrUndecided, possibly wrapped.
func (e *CheckError) Unwrap() error { return e.Err }

// Config is that of Check. Model is mandatory.
type Config struct {
	// Model says what one key may do. Its Step gets the Input of an operation, and its Output or, of one whose
	// outcome is unknown, nil: such a step must be possible in every state. It must have no Partition.
	Model porcupine.Model

	// TimeMax is how long the check of one key may take. Defaults to 10 s.
	TimeMax time.Duration

	// Dir is the folder for histories; it is made where it is missing. Defaults to testdata, which in a test
	// is that of the package.
	Dir string

	// Name begins the names of the files, such as t.Name(). Defaults to history.
	Name string
}

// Report says what was checked.
type Report struct {
	Keys, Operations, Unknown int
	Took                      time.Duration
}

func (r Report) String() string {
	return fmt.Sprintf("%d operations on %d keys, %d of them unknown, checked in %v", r.Operations, r.Keys, r.Unknown, r.Took.Round(time.Microsecond))
}

// Check says whether each key of h could have been one object. It saves h in a file first, so that nothing
// that the check does can lose it; it removes the file of a history that is right, and keeps one that is not
// with a picture beside it: the error is a *CheckError, whose text tells their paths. A history without
// operations is an error, too.
func Check[In, Out any](h History[In, Out], cfg Config) (Report, error) {
	if cfg.Model.Init == nil || cfg.Model.Step == nil && cfg.Model.StepContext == nil || cfg.Model.Partition != nil {
		return Report{}, errors.New("history: Config.Model must have Init and Step, and no Partition")
	}
	if len(h.Operations) == 0 {
		return Report{}, errors.New("history: there is nothing to check: no operation was recorded")
	}
	if cfg.TimeMax <= 0 {
		cfg.TimeMax = timeMaxDefault
	}
	path, forget, err := save(h, cfg)
	if err != nil {
		return Report{}, err
	}
	began := time.Now()
	report, err := check(h, cfg, path)
	report.Took = time.Since(began)
	if err != nil {
		return report, err
	}
	return report, forget()
}

// check checks key by key. An illegal key counts more than one that is not decided.
func check[In, Out any](h History[In, Out], cfg Config, path string) (Report, error) {
	var report Report
	var undecided error
	keys, of := h.byKey()
	for _, key := range keys {
		unknown := 0
		var ops []porcupine.Operation
		for _, op := range of[key] {
			o := porcupine.Operation{ClientId: op.Client, Input: op.Input, Call: op.Call, Return: op.Return}
			if op.Unknown() {
				unknown++
			} else {
				o.Output = op.Output
			}
			ops = append(ops, o)
		}
		report.Keys++
		report.Operations += len(ops)
		report.Unknown += unknown
		result, info := porcupine.CheckOperationsVerbose(cfg.Model, ops, cfg.TimeMax)
		if result == porcupine.Ok {
			continue
		}
		failure := &CheckError{
			Key: key, Operations: len(ops), Unknown: unknown, Path: path,
			Picture: strings.TrimSuffix(path, ".jsonl") + ".html", Err: ErrIllegal,
		}
		if result != porcupine.Illegal {
			failure.Err = fmt.Errorf("%w within %v", ErrUndecided, cfg.TimeMax)
		}
		if err := porcupine.VisualizePath(cfg.Model, info, failure.Picture); err != nil {
			failure.Picture = fmt.Sprintf("none (%v)", err)
		}
		if result == porcupine.Illegal {
			return report, failure
		}
		if undecided == nil {
			undecided = failure
		}
	}
	return report, undecided
}

// save writes h into a new file. forget removes it, and the folder if that was made for it and is empty.
func save[In, Out any](h History[In, Out], cfg Config) (path string, forget func() error, err error) {
	dir, name := cfg.Dir, cfg.Name
	if dir == "" {
		dir = dirDefault
	}
	if name == "" {
		name = nameDefault
	}
	_, missing := os.Stat(dir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", nil, fmt.Errorf("history: save: %w", err)
	}
	f, err := os.CreateTemp(dir, fileName(name)+"-*.jsonl")
	if err != nil {
		return "", nil, fmt.Errorf("history: save: %w", err)
	}
	path = f.Name()
	if full, err := filepath.Abs(path); err == nil {
		path = full
	}
	if err := errors.Join(Write(f, h), f.Close()); err != nil {
		return "", nil, fmt.Errorf("%s: %w", path, err)
	}
	return path, func() error {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("history: the history is right, but its file is left: %w", err)
		}
		if os.IsNotExist(missing) {
			_ = os.Remove(dir) // another history may be there
		}
		return nil
	}, nil
}

// fileName makes the name of a test one that a file may have.
func fileName(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, name)
}
