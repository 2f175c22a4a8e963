package pgwire

import (
	"fmt"
	"net"
	"net/url"

	"github.com/fiftyhosts/fifty/faults"
)

const portDefault = "5432"

// Start starts a proxy in front of the server that databaseURL (postgres://…) leads to, and returns it with
// the URL that leads through it. cfg's Upstream and Protocol are set here. The proxy must be closed.
//
// The URL may not ask for TLS without an alternative: sslmode must be disable, allow or prefer, or missing.
func Start(databaseURL string, cfg faults.Config) (*faults.Proxy, string, error) {
	u, err := url.Parse(databaseURL)
	if err != nil || u.Hostname() == "" {
		return nil, "", fmt.Errorf("pgwire: the database must be a URL with a host, such as postgres://user@127.0.0.1/db")
	}
	port := u.Port()
	if port == "" {
		port = portDefault
	}
	switch mode := u.Query().Get("sslmode"); mode {
	case "", "disable", "allow", "prefer":
	default:
		return nil, "", fmt.Errorf("pgwire: sslmode=%s, but the proxy reads what passes: use sslmode=disable", mode)
	}
	cfg.Upstream = net.JoinHostPort(u.Hostname(), port)
	cfg.Protocol = Protocol{}
	p, err := faults.Start(cfg)
	if err != nil {
		return nil, "", err
	}
	u.Host = p.Addr()
	return p, u.String(), nil
}
