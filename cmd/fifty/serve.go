package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fiftyhosts/fifty/server"
)

func (a *app) serve() *cobra.Command {
	var f serveFlags
	var config string
	var check bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the gateway for the routes of a configuration, or for a sandbox",
		Long: "serve puts the routes of a YAML file behind the gateway. Without --config it starts a payments sandbox\n" +
			"behind it and prints two curl lines to try.\n\n" +
			"A file with everything that a route can say; path, upstream and scope must be there:\n\n" +
			exampleConfig +
			"\nSIGTERM or SIGINT drains: /readyz turns to 503, no new requests are taken, those in flight finish within\n" +
			"--drain. A second one ends at once. The exit code is then 3 if work was still under way.",
		Example: "  fifty serve\n" +
			"  fifty serve --config fifty.yaml --check-config\n" +
			"  fifty serve --config fifty.yaml --listen :8080 --db postgres://fifty@db.internal/shop",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if config != "" {
				var err error
				if f.cfg.Config, err = server.LoadConfig(config); err != nil {
					return configFaults(config, err)
				}
			}
			if !check {
				return a.runGateway(cmd, &f)
			}
			if config == "" {
				return errors.New("--check-config needs --config FILE")
			}
			a.printRoutes(config, f.cfg.Config)
			return nil
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&config, "config", "", "YAML file with the routes")
	cmd.Flags().BoolVar(&check, "check-config", false, "only check the configuration and print what would run; 0 if it is right, 2 if not")
	return cmd
}

func (a *app) printRoutes(name string, cfg server.Config) {
	fmt.Fprintf(a.out, "%s is right. It has %d route(s):\n", name, len(cfg.Routes))
	for _, r := range cfg.Routes {
		fmt.Fprintf(a.out, "  %s\n", r.Summary())
	}
}

// configFaults puts a line about the whole above the faults.
func configFaults(name string, err error) error {
	faults, ok := errors.AsType[*server.ConfigError](err)
	if !ok {
		return err
	}
	return fmt.Errorf("%s has %d fault(s):\n%w", name, len(faults.Faults), err)
}

const exampleConfig = `  routes:
  - path: /charges                    # a pattern of Go's http.ServeMux: /v1/{rest...}
    methods: [POST, PATCH]            # those that take a key; the default
    upstream: http://127.0.0.1:9000
    key: required                     # or optional: without one it passes, unprotected
    scope:                            # who the caller is; one of
      credential: {header: Authorization}
      # jwt: {keys: jwks.json, claim: sub, issuer: https://login.example.com, audience: [charges]}
      # header: X-Account             # set, and stripped, by a proxy in front that you trust
      # constant: everyone
      with_endpoint: false            # true: a key is used once per method and route
    forward_key: raw                  # or derived: when all callers share one upstream credential
    unknown: hold                     # an answer of 500 or above, or none: held for an operator
    # unknown: retry                  # or sent again by the next request, under the same key: if the upstream knows
    # upstream_window: 23h            # a repeat by it, and only for as long as it does
    duplicate: conflict               # while the first one is at work: 409. Or wait; or accepted: 202 and a status URL
    retention: 24h                    # how long answers are kept, and how long keys are: the longest of all routes
    tombstone: 720h
    headers: [Location, ETag]         # kept of an answer's header; default: all
    body_max: 1MiB
    response_max: 1MiB                # of an answer that is kept
    timeout: 5m
    lease: 30s
  # seal: {keys: [{id: "2026", file: 2026.key}]}    # seals what is kept; 32 bytes, the first key seals
`
