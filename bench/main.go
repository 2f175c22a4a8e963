package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// The exit codes.
const (
	exitFine        = 0
	exitShort       = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	if told, ok := os.LookupEnv(gatewayVariable); ok {
		os.Exit(gatewayProcess(told))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := command(ctx, os.Args[1:], groups(), os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// command does what the arguments say and returns the exit code.
func command(ctx context.Context, args []string, all []group, stdout, stderr io.Writer) int {
	o, err := parse(args, all)
	switch {
	case errors.Is(err, errHelp):
		usage(stdout, all)
		return exitFine
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "bench: %v\n\n", err)
		usage(stderr, all)
		return exitUsage
	case o.list:
		list(stdout, o.groups)
		return exitFine
	}
	s := &servers{url: o.db}
	outcomes := runAll(ctx, o, s, stderr)
	closed := s.close()
	if len(outcomes) > 0 {
		report(stdout, outcomes)
	}
	if closed != nil {
		_, _ = fmt.Fprintf(stderr, "bench: end the server: %v\n", closed)
	}
	if ctx.Err() != nil {
		_, _ = fmt.Fprintln(stderr, "bench: interrupted; the cases above are whole, the others were not measured")
		return exitInterrupted
	}
	if o.raw != "" {
		if err := writeRaw(o.raw, outcomes); err != nil {
			_, _ = fmt.Fprintf(stderr, "bench: raw figures: %v\n", err)
			return exitUsage
		}
	}
	for _, o := range outcomes {
		if o.verdict() == "short" {
			return exitShort
		}
	}
	if closed != nil {
		return exitShort
	}
	return exitFine
}

// runAll runs the cases one after the other. An interrupted case is left out.
func runAll(ctx context.Context, o options, s *servers, stderr io.Writer) []outcome {
	var outcomes []outcome
	for _, g := range o.groups {
		for _, c := range g.Cases {
			ran := run(ctx, g.Name, c, o, s, stderr)
			if ctx.Err() != nil {
				return outcomes
			}
			outcomes = append(outcomes, ran)
			_, _ = fmt.Fprintf(stderr, "%s\n", ran.line())
		}
	}
	return outcomes
}
