package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fiftyhosts/fifty/server"
)

func (a *app) migrate() *cobra.Command {
	var db string
	var print bool
	var logs logFlags
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the database's tables up to date, or print the SQL for it",
		Long: "migrate makes the tables of a database, or brings them up to date. Any number of hosts may do so at once.\n" +
			"serve and proxy do the same at their start; this is for roles that may not, and for a look before.",
		Example: "  fifty migrate --db postgres://owner@db.internal/shop\n" +
			"  fifty migrate --db postgres: --print > fifty.sql",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if print {
				return server.WriteMigrations(a.out, db)
			}
			log, err := logs.logger(a.err)
			if err != nil {
				return err
			}
			ctx, _, stop := a.untilSignal(cmd.Context())
			defer stop()
			backend, err := server.OpenBackend(ctx, db)
			if err != nil {
				return err
			}
			err = backend.Prepare(ctx, log)
			if closing := backend.Close(); err == nil {
				err = closing
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(a.out, "database %s is up to date\n", backend.Name)
			return nil
		},
	}
	dbFlag(cmd.Flags(), &db)
	cmd.Flags().BoolVar(&print, "print", false, "print the SQL and change nothing")
	logs.add(cmd.Flags())
	return cmd
}
