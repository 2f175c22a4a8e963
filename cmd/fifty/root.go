package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/server"
)

// The exit codes.
const (
	exitFine    = 0
	exitNo      = 1 // the answer is no: a check failed, a listener broke
	exitUsage   = 2 // the command line, the configuration or the database is not as it must be
	exitUnknown = 3 // the outcome of some work is not known
)

// app is one run of the program.
type app struct {
	in       io.Reader
	out, err io.Writer
	signals  chan os.Signal
}

// run executes a command line and returns the exit code.
func run(args []string, out, errOut io.Writer) int {
	a := &app{in: os.Stdin, out: out, err: errOut, signals: make(chan os.Signal, 2)} // the second one must not be lost
	signal.Notify(a.signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(a.signals)
	return a.run(args)
}

func (a *app) run(args []string) int {
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(context.Background())
	if err == nil {
		return exitFine
	}
	fmt.Fprintln(a.err, "fifty: "+err.Error())
	return exitCode(err)
}

// exitCode says what an error means to a script. What is not known to be something else is a fault of the
// command line, since that is where cobra's own errors come from.
func exitCode(err error) int {
	if _, ok := errors.AsType[*server.UnfinishedError](err); ok || errors.Is(err, fifty.ErrUnknownOutcome) {
		return exitUnknown
	}
	if _, ok := errors.AsType[*failure](err); ok {
		return exitNo
	}
	return exitUsage
}

// failure is an error of something that ran as it was asked to.
type failure struct{ cause error }

func (f *failure) Error() string { return f.cause.Error() }
func (f *failure) Unwrap() error { return f.cause }

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "fifty",
		Short: "The same request twice, one effect",
		Long: "Fifty is a gateway in front of services in any language. A request that must not take effect twice\n" +
			"carries an Idempotency-Key, and then takes effect once, however often and through however many\n" +
			"gateways it is sent.",
		Example: "  fifty serve                                         # try it: a payments sandbox behind the gateway\n" +
			"  fifty proxy --upstream http://127.0.0.1:9000        # a whole service behind the gateway\n" +
			"  fifty serve --config fifty.yaml --db postgres://... # routes, on as many hosts as you like",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf("%w; see %s --help", err, c.CommandPath())
	})
	root.AddCommand(a.serve(), a.proxy(), a.sandbox(), a.migrate(), a.keys(), a.lab(), a.labHost(), a.version())
	return root
}

// untilSignal returns a context that the first signal ends, and a channel that the second one closes. stop
// gives both back.
func (a *app) untilSignal(parent context.Context) (ctx context.Context, hurry <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	second, done := make(chan struct{}), make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for _, act := range []func(){cancel, func() { close(second) }} {
			select {
			case <-a.signals:
				act()
			case <-done:
				return
			}
		}
	}()
	return ctx, second, func() {
		close(done)
		<-ended
		cancel()
	}
}
