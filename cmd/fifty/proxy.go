package main

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/fiftyhosts/fifty/server"
)

// proxyFlags are those of proxy alone.
type proxyFlags struct {
	upstream, scope, key, forwardKey string
	timeout                          time.Duration
}

func (a *app) proxy() *cobra.Command {
	var f serveFlags
	var p proxyFlags
	cmd := &cobra.Command{
		Use:   "proxy --upstream URL",
		Short: "Put a whole service behind the gateway",
		Long: "proxy puts a service behind the gateway, unchanged: each POST and PATCH needs an Idempotency-Key and takes\n" +
			"effect once; everything else passes through.\n\n" +
			"Keys are remembered per caller. A caller is who sends the same Authorization header; a request without\n" +
			"one gets 401, unless --scope constant says that all callers are one.",
		Example: "  fifty proxy --upstream http://127.0.0.1:9000\n" +
			"  fifty proxy --upstream https://api.example.com --db postgres://fifty@db.internal/shop\n" +
			"  fifty proxy --upstream http://127.0.0.1:9000 --scope constant --key optional",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if f.cfg.Config, err = p.config(); err != nil {
				return err
			}
			return a.runGateway(cmd, &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&p.upstream, "upstream", "", "URL of the service (required)")
	flags.StringVar(&p.scope, "scope", string(server.ScopeCredential), "who the caller is: credential (the Authorization header) or constant (all are one)")
	flags.StringVar(&p.key, "key", string(server.KeyRequired), "required, or optional: without a key a request passes, unprotected")
	flags.StringVar(&p.forwardKey, "forward-key", string(server.ForwardRaw), "key that the service sees: raw, or derived from scope and key")
	flags.DurationVar(&p.timeout, "timeout", server.TimeoutDefault, "how long the service may take for a keyed request")
	f.add(cmd)
	return cmd
}

// config is the one route that the flags describe.
func (p proxyFlags) config() (server.Config, error) {
	if p.upstream == "" {
		return server.Config{}, errors.New("--upstream is missing; write --upstream http://HOST:PORT")
	}
	scope := server.ScopeRule{Kind: server.ScopeKind(p.scope)}
	switch scope.Kind {
	case server.ScopeCredential:
		scope.Header = http.CanonicalHeaderKey("Authorization")
	case server.ScopeConstant:
		scope.Constant = "proxy"
	default:
		return server.Config{}, fmt.Errorf("--scope is %q; it can be credential or constant, and more with serve --config", p.scope)
	}
	cfg, err := server.ProxyConfig(p.upstream, scope)
	if err != nil {
		return server.Config{}, fmt.Errorf("--%w", err)
	}
	route := &cfg.Routes[0]
	switch route.Key = server.KeyRule(p.key); route.Key {
	case server.KeyRequired, server.KeyOptional:
	default:
		return server.Config{}, fmt.Errorf("--key is %q; it can be required or optional", p.key)
	}
	switch route.ForwardKey = server.ForwardKey(p.forwardKey); route.ForwardKey {
	case server.ForwardRaw, server.ForwardDerived:
	default:
		return server.Config{}, fmt.Errorf("--forward-key is %q; it can be raw or derived", p.forwardKey)
	}
	if route.Timeout = p.timeout; p.timeout <= 0 {
		return server.Config{}, fmt.Errorf("--timeout is %v; it must be above zero", p.timeout)
	}
	return cfg, nil
}
