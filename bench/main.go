package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
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
	if url, ok := os.LookupEnv(saleVariable); ok {
		os.Exit(saleProcess(url))
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
	return measure(ctx, o, stdout, stderr)
}

// measure runs the cases and reports. What it needs for that is tried first, since the cases take minutes.
func measure(ctx context.Context, o options, stdout, stderr io.Writer) int {
	s := &servers{url: o.db}
	if err := prepare(ctx, o, s); err != nil {
		_, _ = fmt.Fprintf(stderr, "bench: %v\n", err)
		return exitUsage
	}
	outcomes := runAll(ctx, o, s, stderr)
	failed := s.close()
	if len(outcomes) > 0 {
		report(stdout, s.is, outcomes)
	}
	if o.raw != "" {
		failed = errors.Join(failed, writeRaw(o.raw, s.is, outcomes))
	}
	if o.plot != "" && ctx.Err() == nil {
		failed = errors.Join(failed, writePlot(o.plot, outcomes))
	}
	if failed != nil {
		_, _ = fmt.Fprintf(stderr, "bench: %v\n", failed)
	}
	if ctx.Err() != nil {
		_, _ = fmt.Fprintf(stderr, "bench: interrupted; %d cases were measured\n", len(outcomes))
		return exitInterrupted
	}
	short := slices.ContainsFunc(outcomes, func(o outcome) bool { return o.verdict() == "short" })
	if short || failed != nil {
		return exitShort
	}
	return exitFine
}

func prepare(ctx context.Context, o options, s *servers) error {
	if o.db != "" {
		if err := s.check(ctx); err != nil {
			return err
		}
	}
	if o.raw != "" {
		if err := writeRaw(o.raw, "", nil); err != nil {
			return err
		}
	}
	if o.profiles != "" {
		return os.MkdirAll(o.profiles, 0o750)
	}
	return nil
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
