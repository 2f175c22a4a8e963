package main

import (
	"github.com/spf13/cobra"

	"github.com/fiftyhosts/fifty/server"
)

func (a *app) sandbox() *cobra.Command {
	var logs logFlags
	cfg := server.SandboxConfig{}
	cmd := &cobra.Command{
		Use:   "sandbox",
		Short: "Run the payments sandbox alone, to put something in front of it",
		Long: "sandbox is a payments service to try things on. It is not idempotent, on purpose: each POST /charges is\n" +
			"another charge. GET /charges lists them.\n\n" +
			"The header Sandbox-Fault makes a charge go wrong: slow=2s, drop, crash-before or crash-after. The last two\n" +
			"end this process, so don't let the public reach it.",
		Example: "  fifty sandbox --listen 127.0.0.1:9000\n" +
			"  curl -i http://127.0.0.1:9000/charges -d '{\"account\":\"alice\",\"amount\":1200,\"currency\":\"EUR\"}'\n" +
			"  fifty proxy --upstream http://127.0.0.1:9000",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := logs.logger(a.err)
			if err != nil {
				return err
			}
			warnOfFaults(log)
			ctx, hurry, stop := a.untilSignal(cmd.Context())
			defer stop()
			cfg.Hurry, cfg.Log, cfg.Out = hurry, log, a.out
			return started(server.ServeSandbox(ctx, cfg))
		},
	}
	cmd.Flags().StringVar(&cfg.Listen, "listen", server.SandboxListenDefault, "address; port 0 takes a free one")
	dbFlag(cmd.Flags(), &cfg.DB)
	logs.add(cmd.Flags())
	return cmd
}
