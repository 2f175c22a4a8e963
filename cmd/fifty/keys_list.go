package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/server"
)

// listFlags are those of keys list.
type listFlags struct {
	db, after string
	filter    idempotency.Filter
	json      bool
}

func (a *app) keysList() *cobra.Command {
	var f listFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List keys, in the order of scope and key",
		Long: "list prints a page of keys. --after goes on behind it, with what the page before ends with. A claim whose\n" +
			"owner vanished reads as unknown. One that was let go is in flight without an owner: the next request with\n" +
			"the key goes on with it.",
		Example: "  fifty keys list --unresolved\n" +
			"  fifty keys list --scope 'constant:\"proxy\"' --older-than 24h --limit 1000 --json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.validate(); err != nil {
				return err
			}
			return a.withKeys(cmd, f.db, operatorMax, func(ctx context.Context, b *server.Backend) error {
				page, err := idempotency.NewOperator(b.Keys).List(ctx, f.filter)
				if err != nil {
					return err
				}
				return a.printList(page, f)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.filter.Scope, "scope", "", "only this scope")
	flags.BoolVar(&f.filter.Unresolved, "unresolved", false, "only what waits for a decision")
	flags.DurationVar(&f.filter.OlderThan, "older-than", 0, "only what was first claimed at least so long ago")
	flags.IntVar(&f.filter.Limit, "limit", 100, "at most so many, up to 1000")
	flags.StringVar(&f.after, "after", "", "only what comes behind a page, with what that page ends with")
	flags.BoolVar(&f.json, "json", false, "print JSON")
	dbFlag(flags, &f.db)
	return cmd
}

func (f *listFlags) validate() error {
	const limitMax = 1000
	switch {
	case f.filter.Limit < 1 || f.filter.Limit > limitMax:
		return fmt.Errorf("--limit is %d; it can be 1 to %d", f.filter.Limit, limitMax)
	case f.filter.OlderThan < 0:
		return fmt.Errorf("--older-than is %v; it can't be negative", f.filter.OlderThan)
	case f.after == "":
		return nil
	}
	var err error
	f.filter.AfterScope, f.filter.AfterKey, err = parseCursor(f.after)
	return err
}

// cursor is where a page ends, in one word.
func cursor(rec idempotency.Record) string {
	return base64.RawURLEncoding.EncodeToString([]byte(rec.Request.Scope + "\x00" + rec.Request.Key))
}

func parseCursor(word string) (scope, key string, err error) {
	text, err := base64.RawURLEncoding.DecodeString(word)
	scope, key, ok := strings.Cut(string(text), "\x00")
	if err != nil || !ok {
		return "", "", errors.New("--after is not what a page ended with; copy the word behind \"more: --after\"")
	}
	return scope, key, nil
}

// listing is what keys list --json prints.
type listing struct {
	Records []recordView `json:"records"`
	After   string       `json:"after,omitempty"` // there is more behind it
}

func (a *app) printList(page []idempotency.Record, f listFlags) error {
	list := listing{Records: make([]recordView, len(page))}
	for i, rec := range page {
		list.Records[i] = viewOf(rec)
	}
	if len(page) == f.filter.Limit {
		list.After = cursor(page[len(page)-1])
	}
	if f.json {
		return a.printJSON(list)
	}
	if len(page) == 0 {
		fmt.Fprintln(a.out, "no such keys")
		return nil
	}
	table := tabwriter.NewWriter(a.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "KEY\tSTATE\tAGE\tTOKEN\tOWNER\tSCOPE")
	for _, rec := range page {
		fmt.Fprintf(table, "%s\t%s\t%v\t%d\t%s\t%s\n",
			rec.Request.Key, stateOf(rec), rounded(rec.Age), rec.Token, plain(rec.Owner), rec.Request.Scope)
	}
	if err := table.Flush(); err != nil {
		return &failure{err}
	}
	if list.After != "" {
		fmt.Fprintln(a.out, "more: --after "+list.After)
	}
	return nil
}

// stateOf is the state of a record in words.
func stateOf(rec idempotency.Record) string {
	if rec.Expired() {
		return "let go"
	}
	return rec.State.String()
}

// recordView is a record in JSON. Its names and meanings only ever grow.
type recordView struct {
	Scope      string  `json:"scope"`
	Key        string  `json:"key"`
	State      string  `json:"state"` // in flight, let go, unknown, done, free, tombstone
	Unresolved bool    `json:"unresolved"`
	Token      int64   `json:"token"`
	Owner      string  `json:"owner"`
	Resumable  bool    `json:"resumable"`
	Age        float64 `json:"age_seconds"`
	ExpiresIn  float64 `json:"expires_in_seconds,omitempty"` // of a claim; negative when it has expired
	Status     int     `json:"status,omitempty"`             // of the answer
}

func viewOf(rec idempotency.Record) recordView {
	return recordView{
		Scope: rec.Request.Scope, Key: rec.Request.Key, State: stateOf(rec), Unresolved: unresolved(rec),
		Token: rec.Token, Owner: rec.Owner, Resumable: rec.Resume,
		Age: seconds(rec.Age), ExpiresIn: seconds(rec.ExpiresIn), Status: rec.Response.Status,
	}
}

func seconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }

func (a *app) printJSON(v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if _, err = a.out.Write(append(text, '\n')); err != nil {
		return &failure{err}
	}
	return nil
}
