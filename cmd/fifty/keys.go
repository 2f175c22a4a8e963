package main

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/server"
)

// operatorMax bounds an operator's command, but for erase, which takes as long as there is something to erase.
const operatorMax = time.Minute

func (a *app) keys() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Look at the keys in a database, and decide those that are unresolved",
		Long: "keys is for the people who look after a gateway. A key is unresolved when its work may or may not have\n" +
			"happened: its owner died, or the service behind gave no whole answer. Nothing runs it again by itself.\n" +
			"Find out from the service whether it happened; then resolve the key with the answer, or release it.",
		Example: "  fifty keys list --unresolved --older-than 5m\n" +
			"  fifty keys show order-17 --scope 'constant:\"proxy\"'",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.keysList(), a.keysShow(), a.keysResolve(), a.keysRelease(), a.keysErase())
	return cmd
}

// keyName is what names one key on a command line.
type keyName struct{ db, scope, key string }

// add makes cmd take the name: KEY, --scope and --db.
func (n *keyName) add(cmd *cobra.Command) {
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("write one KEY, and not %d; see %s --help", len(args), cmd.CommandPath())
		}
		n.key = args[0]
		return nil
	}
	cmd.Flags().StringVar(&n.scope, "scope", "", "scope of the key, as \"fifty keys list\" prints it (required)")
	dbFlag(cmd.Flags(), &n.db)
}

func (n *keyName) validate() error {
	if n.scope == "" {
		return errors.New(`--scope is missing; "fifty keys list" prints the scope of each key`)
	}
	if err := idempotency.ValidateScope(n.scope); err != nil {
		return fmt.Errorf("--scope: %w", err)
	}
	if err := idempotency.ValidateKey(n.key); err != nil {
		return fmt.Errorf("KEY: %w", err)
	}
	return nil
}

// on is the rest of a command line about this key.
func (n *keyName) on(verb string) string {
	return fmt.Sprintf("fifty keys %s %s --scope %s", verb, quoted(n.key), quoted(n.scope))
}

// quoted is text as a shell takes it for one word.
func quoted(text string) string {
	if text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/=@") == "" && text[0] != '-' {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// withKeys opens the database and runs fn with it. limit bounds fn; zero leaves it until a signal.
func (a *app) withKeys(cmd *cobra.Command, db string, limit time.Duration, fn func(ctx context.Context, b *server.Backend) error) error {
	ctx, _, stop := a.untilSignal(cmd.Context())
	defer stop()
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	backend, err := server.OpenExisting(ctx, db)
	if err != nil {
		return err
	}
	err = fn(ctx, backend)
	if _, ok := errors.AsType[*failure](err); !ok {
		err = backend.Explain(err)
	}
	if closing := backend.Close(); err == nil {
		err = closing
	}
	return err
}

// find reads the record of a key as people see it: an owner that vanished reads as unknown.
func (n *keyName) find(ctx context.Context, b *server.Backend) (idempotency.Record, error) {
	return idempotency.New(b.Keys, idempotency.Config{}).Find(ctx, n.scope, n.key)
}

// answered turns what the keys say of one key into what its operator does next.
func (n *keyName) answered(err error) error {
	if errors.Is(err, idempotency.ErrNotFound) {
		return &failure{fmt.Errorf("there is no key %s in scope %s; \"fifty keys list\" shows those that there are", quoted(n.key), quoted(n.scope))}
	}
	if decided, ok := errors.AsType[*idempotency.DecidedError](err); ok {
		return &failure{fmt.Errorf("nothing was changed: %s. Look at it with: %s", n.whyNot(decided.Record), n.on("show"))}
	}
	if errors.Is(err, fifty.ErrUnknownOutcome) {
		return fmt.Errorf("the decision was sent, and it is not known whether it was carried out (%w). Look before you do it again: %s", err, n.on("show"))
	}
	return err
}

// whyNot says why a key was not open to the decision.
func (n *keyName) whyNot(rec idempotency.Record) string {
	switch {
	case unresolved(rec):
		return fmt.Sprintf("key %s has token %d by now, so it is not what you looked at", quoted(n.key), rec.Token)
	case rec.State == idempotency.InFlight:
		return fmt.Sprintf("the owner of key %s, %s, is at work; if it has died, the key is unresolved in %v", quoted(n.key), rec.Owner, rounded(rec.ExpiresIn))
	default:
		return fmt.Sprintf("key %s is not unresolved, it is %v, with token %d", quoted(n.key), rec.State, rec.Token)
	}
}

// unresolved says that an operator may decide.
func unresolved(rec idempotency.Record) bool {
	return rec.State == idempotency.Unknown || rec.Expired()
}

// decision is who decides, and why.
type decision struct{ by, note string }

func (d *decision) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&d.by, "by", "", "who decides (default: this user's name)")
	cmd.Flags().StringVar(&d.note, "note", "", "why, for those who ask later (required)")
}

func (d *decision) validate() error {
	if d.note == "" {
		return errors.New("--note is missing; say how you found out, since it is kept with the decision")
	}
	if d.by != "" {
		return nil
	}
	u, err := user.Current()
	if err != nil || u.Username == "" {
		return errors.New("--by is missing, and this system does not tell who you are; write --by NAME")
	}
	d.by = u.Username
	return nil
}

func rounded(d time.Duration) time.Duration {
	if d < time.Second && d > -time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Second)
}
