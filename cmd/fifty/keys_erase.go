package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/server"
)

func (a *app) keysErase() *cobra.Command {
	var db, scope string
	var yes bool
	cmd := &cobra.Command{
		Use:   "erase --scope SCOPE",
		Short: "Take away all kept answers of one scope, for a customer who asks for it",
		Long: "erase drops the answers and steps of all finished keys of a scope. The keys stay used: a request with one gets\n" +
			"409 not-replayable, and nothing runs again. Keys that are in flight or unresolved are not touched; decide them\n" +
			"first, or erase again later. What was erased can't be brought back.",
		Example: "  fifty keys erase --scope 'header:X-Account=\"4711\"'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if scope == "" {
				return errors.New(`--scope is missing; "fifty keys list" prints the scope of each key`)
			}
			if err := idempotency.ValidateScope(scope); err != nil {
				return fmt.Errorf("--scope: %w", err)
			}
			return a.withKeys(cmd, db, 0, func(ctx context.Context, b *server.Backend) error {
				if !yes {
					fmt.Fprintf(a.err, "All kept answers of scope %s will be gone.\n", quoted(scope))
					if err := a.confirm(ctx, "erase them"); err != nil {
						return err
					}
				}
				n, err := idempotency.NewOperator(b.Keys).Erase(ctx, scope)
				fmt.Fprintf(a.out, "%d answers of scope %s are erased\n", n, quoted(scope))
				if err != nil {
					return fmt.Errorf("some may be left; run it again: %w", err)
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&scope, "scope", "", "whose answers (required)")
	cmd.Flags().BoolVar(&yes, "yes", false, "don't ask")
	dbFlag(cmd.Flags(), &db)
	return cmd
}
