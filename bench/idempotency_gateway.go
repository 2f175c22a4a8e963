package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
)

const (
	gatewayWorkers = 16
	// gatewayKeys is how many completed keys are asked for again, in turn.
	gatewayKeys = 1600
)

var gatewayCases = []Case{
	{
		Name: "gateway-replay-sqlite",
		Goal: atLeast(0.7),
		What: "16 clients ask again for completed keys. Ours: fifty serve answers from its SQLite file. Theirs: httputil.ReverseProxy forwards to the upstream.",
		Run: func(ctx context.Context, b *bench) (float64, error) {
			folder, err := tempFolder(b)
			if err != nil {
				return 0, err
			}
			return gatewayReplay(ctx, b, "sqlite://"+filepath.Join(folder, "keys.db"))
		},
	},
	{
		Name: "gateway-replay-postgres",
		Goal: atLeast(0.7),
		What: "The same with the keys in Postgres.",
		Run: func(ctx context.Context, b *bench) (float64, error) {
			url, err := b.Postgres(ctx)
			if err != nil {
				return 0, err
			}
			return gatewayReplay(ctx, b, url)
		},
	},
}

const gatewayExplained = `What each side does:
Both: 16 connections over loopback that are kept; a POST of 74 bytes with Authorization and Idempotency-Key; an
answer of 121 bytes, which is checked. The client writes and reads HTTP/1.1 by hand, so that it costs little.
Ours: server.Serve as fifty serve runs it (access log written to /dev/null, scope from the Authorization header,
metrics, sweeper); 1,600 keys completed beforehand. Nothing is forwarded.
Theirs: httputil.ReverseProxy in an http.Server, with a Transport that keeps a connection for each client, to the
upstream, which reads the body and answers. No log, no key, no store.
All of it in one process, on the same cores.`

// gatewayReplay compares a gateway's replays with a plain proxy.
func gatewayReplay(ctx context.Context, b *bench, db string) (float64, error) {
	b.Explain(gatewayExplained)
	upstream, err := serveHTTP(b, http.HandlerFunc(charge))
	if err != nil {
		return 0, err
	}
	gateway, err := startGateway(ctx, b, "http://"+upstream, db)
	if err != nil {
		return 0, err
	}
	proxy, err := serveHTTP(b, plainProxy(b, upstream))
	if err != nil {
		return 0, err
	}
	asks, err := complete(ctx, b, gateway)
	if err != nil {
		return 0, err
	}
	clients, err := newClients(b, gateway, gatewayWorkers)
	if err != nil {
		return 0, err
	}
	proxied, err := newClients(b, proxy, gatewayWorkers)
	if err != nil {
		return 0, err
	}
	next := make([]int, gatewayWorkers)
	r, err := throughput(ctx, b, gatewayWorkers,
		Side{Name: "gateway", Op: func(_ context.Context, worker int) error {
			next[worker]++
			a, err := clients[worker].call(asks[(next[worker]*gatewayWorkers+worker)%len(asks)])
			if err != nil {
				return err
			}
			return checkCharge(a, "true")
		}},
		Side{Name: "ReverseProxy", Op: func(_ context.Context, worker int) error {
			a, err := proxied[worker].call(asks[worker])
			if err != nil {
				return err
			}
			return checkCharge(a, "")
		}})
	return r.Median, err
}

// complete runs a request under each key and returns the requests.
func complete(ctx context.Context, b *bench, gateway string) ([][]byte, error) {
	b.progress("completing %d keys", gatewayKeys)
	clients, err := newClients(b, gateway, 1)
	if err != nil {
		return nil, err
	}
	asks := make([][]byte, gatewayKeys)
	for i := range asks {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		asks[i] = chargeRequest("bench.example", fmt.Sprintf("order-%08d-charge", i))
		a, err := clients[0].call(asks[i])
		if err == nil {
			err = checkCharge(a, "")
		}
		if err != nil {
			return nil, fmt.Errorf("complete key %d: %w", i, err)
		}
	}
	return asks, nil
}

// plainProxy is the best that httputil.ReverseProxy does with little said: a connection for each client is
// kept open to the upstream.
func plainProxy(b *bench, upstream string) http.Handler {
	transport := &http.Transport{MaxIdleConns: 2 * gatewayWorkers, MaxIdleConnsPerHost: 2 * gatewayWorkers, DisableCompression: true}
	b.Cleanup(func() error { transport.CloseIdleConnections(); return nil })
	to := &url.URL{Scheme: "http", Host: upstream}
	return &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(to)
			p.SetXForwarded()
		},
	}
}
