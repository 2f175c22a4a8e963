package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/retry"
	"github.com/fiftyhosts/fifty/server/sandbox"
)

// DefaultDB is the database without a --db.
const DefaultDB = "sqlite://fifty.db"

// Bounds of a start.
const (
	// BackendWaitMax is how long a start waits for a database that can't be reached, since one that is
	// started at the same time comes up later.
	BackendWaitMax = 10 * time.Second

	backendConnectMax = 5 * time.Second // of one attempt to reach it
	backendWaitCap    = time.Second     // between two attempts
	migrateMax        = 5 * time.Minute // of a migration, including the wait for another host's
	readyMax          = 2 * time.Second // of a look whether it can still be reached
)

// Backend is an open database: the store of the keys, and where the sandbox keeps its ledger. It is safe
// for concurrent use.
type Backend struct {
	// Name is the database's URL without password and options.
	Name string
	Keys KeyStore

	migrate func(ctx context.Context) error
	secret  func(ctx context.Context, name string) ([]byte, error)
	check   func(ctx context.Context) (warnings []string, err error)
	ledger  func(ctx context.Context) (sandbox.Ledger, error)
	close   func() error
	wait    time.Duration // BackendWaitMax, unless a test is in a hurry
}

// KeyStore is what a database of keys offers to a gateway and to its operators.
type KeyStore interface {
	idempotency.Store
	idempotency.OperatorStore
}

// URLError says that a database URL can't be used. Nothing was opened.
type URLError struct{ Problem string }

func (e *URLError) Error() string {
	return "database: " + e.Problem + "; write sqlite://PATH, postgres://USER@HOST/NAME or memory:"
}

// OpenBackend opens the database behind a URL. For a file that includes making it; a server is not
// reached before the first use. Close the Backend when done with it. An error names what to do; no
// password is ever in it.
func OpenBackend(ctx context.Context, dbURL string) (*Backend, error) {
	scheme, rest, ok := strings.Cut(dbURL, ":")
	switch {
	case dbURL == "":
		return nil, &URLError{"the URL is empty"}
	case !ok:
		return nil, &URLError{"the URL has no scheme"} // it may be a password, so it is not told
	case scheme == "memory" && rest == "":
		return openMemory(), nil
	case scheme == "memory":
		return nil, &URLError{"memory: takes nothing after the colon"}
	case scheme == "sqlite":
		path, ok := strings.CutPrefix(rest, "//")
		if !ok || path == "" || strings.ContainsAny(path, "?#") {
			return nil, &URLError{"a sqlite URL is sqlite:// and the path of a file, without options"}
		}
		return openSQLite(ctx, path)
	case scheme == "postgres" || scheme == "postgresql":
		return openPostgres(ctx, dbURL)
	default:
		return nil, &URLError{fmt.Sprintf("%q is not a kind of database that is known", scheme)}
	}
}

// OpenExisting is OpenBackend for a look at what a gateway left: it makes no file and no tables. Its calls fail,
// and say so, where the tables are missing.
func OpenExisting(ctx context.Context, dbURL string) (*Backend, error) {
	if dbURL == "memory:" {
		return nil, &URLError{"memory: is gone with the process that had it; there is nothing to look at"}
	}
	if path, ok := strings.CutPrefix(dbURL, "sqlite://"); ok && path != "" {
		if _, err := os.Stat(path); err != nil {
			return nil, &BackendError{Name: dbURL, Hint: "name the file that the gateway uses in --db or FIFTY_DB", Cause: err}
		}
	}
	return OpenBackend(ctx, dbURL)
}

// WriteMigrations writes the SQL that makes the tables for a database URL, for other tools to apply.
func WriteMigrations(w io.Writer, dbURL string) error {
	scheme, _, _ := strings.Cut(dbURL, ":")
	switch scheme {
	case "sqlite":
		return writeSQLiteMigrations(w)
	case "postgres", "postgresql":
		return writePostgresMigrations(w)
	case "memory":
		return &URLError{"memory: has no tables"}
	default:
		return &URLError{"the URL names no kind of database that is known"}
	}
}

// Prepare reaches the database and brings its tables up to date. Fifty hosts may do so at once. While the
// database can't be reached it tries again, and says so, for up to BackendWaitMax. Settings under which
// answers can be lost are warned about.
func (b *Backend) Prepare(ctx context.Context, log *slog.Logger) error {
	policy := retry.Policy{
		Base: 100 * time.Millisecond, Cap: backendWaitCap, ElapsedMax: b.wait, AttemptsMax: 1000,
		Idempotent: true, Retryable: unreachableDB,
	}
	told := false
	err := retry.Do(ctx, policy, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, migrateMax)
		defer cancel()
		err := b.migrate(ctx)
		if err != nil && unreachableDB(err) && !told {
			told = true
			log.WarnContext(ctx, "the database can't be reached yet; trying again", "database", b.Name, "for", b.wait, "error", err)
		}
		return err
	})
	if err != nil {
		return b.explain(err)
	}
	warnings, err := b.check(ctx)
	if err != nil {
		return b.explain(err)
	}
	for _, w := range warnings {
		log.WarnContext(ctx, w, "database", b.Name)
	}
	return nil
}

// Secret returns the random bytes of that name, which are made once per database.
func (b *Backend) Secret(ctx context.Context, name string) ([]byte, error) {
	secret, err := b.secret(ctx, name)
	if err != nil {
		return nil, b.explain(err)
	}
	return secret, nil
}

// Ledger returns the sandbox's ledger in this database, made if need be.
func (b *Backend) Ledger(ctx context.Context) (sandbox.Ledger, error) {
	l, err := b.ledger(ctx)
	if err != nil {
		return nil, b.explain(err)
	}
	return l, nil
}

// Ready returns nil when the store answers where writes are decided.
func (b *Backend) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyMax)
	defer cancel()
	_, err := b.Keys.Find(ctx, "fifty:ready", "ready")
	if err != nil && !errors.Is(err, idempotency.ErrNotFound) {
		return err
	}
	return nil
}

// Close closes the database.
func (b *Backend) Close() error { return b.close() }

// Explain adds to an error of Keys which database it is of and, where that is known, what to do. An error that
// is about the key and not about the database comes back as it is.
func (b *Backend) Explain(err error) error {
	for _, about := range []error{idempotency.ErrNotFound, idempotency.ErrDecided, fifty.ErrInvalid} {
		if err == nil || errors.Is(err, about) {
			return err
		}
	}
	return b.explain(err)
}

// explain adds which database it is and, where that is known, what to do.
func (b *Backend) explain(err error) error {
	return &BackendError{Name: b.Name, Hint: hintOf(err), Cause: err}
}

// BackendError is an error of a database: at the start, or of an operator's command.
type BackendError struct {
	Name  string // its URL, without password and options
	Hint  string // what to do; empty if the cause says it
	Cause error
}

func (e *BackendError) Error() string {
	cause := e.Cause
	if exhausted, ok := errors.AsType[*retry.ExhaustedError](cause); ok {
		cause = exhausted.Err
	}
	text := "database " + e.Name + ": " + oneLine(cause.Error())
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

// oneLine joins the lines of a driver's error, each once.
func oneLine(text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(kept, line) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, " ")
}

// Unwrap returns the cause.
func (e *BackendError) Unwrap() error { return e.Cause }

// withoutSecrets is a database URL as it may be shown: no password, no options.
func withoutSecrets(u *url.URL) string {
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if name := u.User.Username(); name != "" {
		shown.User = url.User(name)
	}
	return shown.String()
}
