package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fiftyhosts/fifty/internal/wall"
	"github.com/fiftyhosts/fifty/server"
)

// dbFlag adds --db, whose default is FIFTY_DB.
func dbFlag(flags *pflag.FlagSet, db *string) {
	fallback := server.DefaultDB
	if env := os.Getenv("FIFTY_DB"); env != "" {
		*db = env
	} else {
		*db = fallback
	}
	flags.Var((*dbValue)(db), "db", "database: sqlite://PATH, postgres://USER@HOST/NAME or memory: (env FIFTY_DB; default "+fallback+")")
}

// dbValue is a text whose value is not shown in --help: it may hold a password.
type dbValue string

func (d *dbValue) Set(s string) error { *d = dbValue(s); return nil }
func (d *dbValue) Type() string       { return "URL" }
func (d *dbValue) String() string     { return "" }

// logFlags are those of every command that runs on.
type logFlags struct{ format, level string }

func (l *logFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&l.format, "log", "text", "log format: text or json")
	flags.StringVar(&l.level, "log-level", "info", "least level that is logged: debug, info, warn or error")
}

func (l *logFlags) logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	switch l.level {
	case "debug":
		level = slog.LevelDebug
	case "info":
	case "warn":
		level = slog.LevelWarn
	case "error":
		level = slog.LevelError
	default:
		return nil, fmt.Errorf("--log-level is %q; it can be debug, info, warn or error", l.level)
	}
	options := &slog.HandlerOptions{Level: level}
	switch l.format {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	default:
		return nil, fmt.Errorf("--log is %q; it can be text or json", l.format)
	}
}

// warnOfFaults says that this is no build to work with.
func warnOfFaults(log *slog.Logger) {
	if wall.Faulty {
		log.Warn("this is a fault build, for tests only: its clock is moved", "skew", wall.Skew(), "variable", wall.Variable)
	}
}

// serveFlags are those of serve and proxy.
type serveFlags struct {
	logFlags
	cfg server.ServeConfig
}

func (f *serveFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.cfg.Listen, "listen", server.ListenDefault, "address for clients; port 0 takes a free one")
	flags.StringVar(&f.cfg.Admin, "admin", server.AdminDefault, "address for /healthz, /readyz and /metrics")
	flags.StringVar(&f.cfg.TLSCert, "tls-cert", "", "certificate (PEM) for clients; with --tls-key")
	flags.StringVar(&f.cfg.TLSKey, "tls-key", "", "its private key (PEM)")
	flags.DurationVar(&f.cfg.Drain, "drain", server.DrainDefault, "how long requests in flight may take to finish at the end")
	dbFlag(flags, &f.cfg.DB)
	f.logFlags.add(flags)
}

// serve runs the gateway until it is told to end.
func (a *app) runGateway(cmd *cobra.Command, f *serveFlags) error {
	log, err := f.logger(a.err)
	if err != nil {
		return err
	}
	warnOfFaults(log)
	if f.cfg.Drain <= 0 {
		return fmt.Errorf("--drain is %v; it must be above zero", f.cfg.Drain)
	}
	ctx, hurry, stop := a.untilSignal(cmd.Context())
	defer stop()
	f.cfg.Hurry, f.cfg.Log, f.cfg.Out, f.cfg.Version = hurry, log, a.out, versionText()
	return started(server.Serve(ctx, f.cfg))
}

// started tells an error of the start, which is a fault of how the program was called, from a later one.
func started(err error) error {
	switch err.(type) { //nolint:errorlint // Serve documents these as they are
	case nil, *server.StartError, *server.URLError, *server.BackendError, *server.UnfinishedError:
		return err
	default:
		return &failure{err}
	}
}
