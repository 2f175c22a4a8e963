package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fiftyhosts/fifty/faults/hosts"
)

const (
	// gatewayVariable in the environment makes this program a gateway: its value is the upstream's URL, a
	// space and the database's.
	gatewayVariable = "FIFTY_BENCH_GATEWAY"

	heldMax     = time.Minute // until all requests are at the upstream
	heldRounds  = 5
	scrapeBytes = 1 << 20
)

var gatewayMemoryCases = []Case{
	{
		Name: "gateway-memory",
		Goal: atMost(192 << 10),
		What: "Bytes of a gateway's resident memory per request in flight: 2,000 requests of 74 bytes that the upstream does not answer yet.",
		Run: func(ctx context.Context, b *bench) (float64, error) {
			return gatewayMemory(ctx, b, 2000, chargeBody)
		},
	},
	{
		Name: "gateway-memory-large",
		Goal: atMost(1 << 20),
		What: "The same for 200 requests with bodies of 1 MiB, the largest that a route takes by default.",
		Run: func(ctx context.Context, b *bench) (float64, error) {
			return gatewayMemory(ctx, b, 200, strings.Repeat("x", 1<<20))
		},
	},
}

const gatewayMemoryExplained = `What is measured:
A gateway in a process of its own (server.Serve, keys in SQLite) gets a request on each of its connections. When the
upstream has all of them, process_resident_memory_bytes of the gateway's own /metrics is read. That and the same
figure before, the difference divided by the requests, is the value: connections on both sides, goroutines, claim,
heartbeat, body, and garbage that is not collected yet. Five times, with new keys; the largest counts.`

// gatewayMemory holds requests at the upstream and looks at the gateway from outside.
func gatewayMemory(ctx context.Context, b *bench, requests int, body string) (float64, error) {
	b.Explain(gatewayMemoryExplained)
	if b.Rough {
		requests /= 10
	}
	up := &holdingUpstream{}
	up.reset(requests)
	upstream, err := serveHTTP(b, up)
	if err != nil {
		return 0, err
	}
	folder, err := tempFolder(b)
	if err != nil {
		return 0, err
	}
	public, admin, err := startGatewayProcess(ctx, b, "http://"+upstream, "sqlite://"+filepath.Join(folder, "keys.db"))
	if err != nil {
		return 0, err
	}
	idle, err := scrape(ctx, admin)
	if err != nil {
		return 0, err
	}
	most := memoryUse{}
	for round := range heldRounds {
		held, err := holdAndLook(ctx, up, public, admin, fmt.Sprintf("round-%d", round), requests, body)
		if err != nil {
			return 0, err
		}
		b.progress("round %d of %d: %.0f bytes a request", round+1, heldRounds, (held.resident-idle.resident)/float64(requests))
		most = memoryUse{max(most.resident, held.resident), max(most.heap, held.heap), max(most.stacks, held.stacks)}
	}
	b.Note("%d in flight: resident %.1f MiB over %.1f MiB idle, of it heap in use %.1f, stacks %.1f MiB", requests,
		most.resident/(1<<20), idle.resident/(1<<20), (most.heap-idle.heap)/(1<<20), (most.stacks-idle.stacks)/(1<<20))
	return (most.resident - idle.resident) / float64(requests), nil
}

// holdAndLook sends the requests, looks when the upstream has all of them, and lets them end.
func holdAndLook(ctx context.Context, up *holdingUpstream, public, admin, round string, requests int, body string) (memoryUse, error) {
	up.reset(requests)
	clients := make([]*client, 0, requests)
	defer func() {
		for _, c := range clients {
			_ = c.conn.Close()
		}
	}()
	sent := make(chan error, requests)
	for i := range requests {
		c, err := newClient(public)
		if err != nil {
			return memoryUse{}, err
		}
		clients = append(clients, c)
		go func() {
			a, err := c.call(postRequest(public, fmt.Sprintf("%s-request-%06d", round, i), body))
			if err == nil {
				err = checkCharge(a, "")
			}
			sent <- err
		}()
	}
	timeout := time.NewTimer(heldMax)
	defer timeout.Stop()
	select {
	case <-up.all:
	case err := <-sent:
		return memoryUse{}, fmt.Errorf("a request ended before it was let go: %w", err)
	case <-timeout.C:
		return memoryUse{}, fmt.Errorf("after %v the upstream has %d of %d requests", heldMax, up.held.Load(), requests)
	case <-ctx.Done():
		return memoryUse{}, ctx.Err()
	}
	m, err := scrape(ctx, admin)
	close(up.free)
	for range requests {
		err = errors.Join(err, <-sent)
	}
	return m, err
}

// holdingUpstream answers a charge when it is let go.
type holdingUpstream struct {
	want int64
	held atomic.Int64
	all  chan struct{} // closed when want requests are held
	free chan struct{} // closed to let them go
}

// reset is not for concurrent use: no request may be on its way.
func (h *holdingUpstream) reset(want int) {
	h.want, h.all, h.free = int64(want), make(chan struct{}), make(chan struct{})
	h.held.Store(0)
}

func (h *holdingUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	if h.held.Add(1) == h.want {
		close(h.all)
	}
	select {
	case <-h.free:
		charge(w, r)
	case <-r.Context().Done():
	}
}

// memoryUse is in bytes.
type memoryUse struct{ resident, heap, stacks float64 }

// scrape reads the gateway's metrics.
func scrape(ctx context.Context, admin string) (memoryUse, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, admin+"/metrics", nil)
	if err != nil {
		return memoryUse{}, err
	}
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		return memoryUse{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, scrapeBytes))
	if err != nil {
		return memoryUse{}, err
	}
	values := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			values[name] = n
		}
	}
	m := memoryUse{values["process_resident_memory_bytes"], values["go_memstats_heap_inuse_bytes"], values["go_memstats_stack_inuse_bytes"]}
	if m.resident == 0 {
		return memoryUse{}, errors.New("this system does not tell how much memory a process has")
	}
	return m, nil
}

// startGatewayProcess runs a gateway as a process of its own.
func startGatewayProcess(ctx context.Context, b *bench, upstream, db string) (public, admin string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", "", err
	}
	host, err := hosts.Start(hosts.Config{Path: self, Name: "gateway", Env: append(os.Environ(), gatewayVariable+"="+upstream+" "+db)})
	if err != nil {
		return "", "", err
	}
	b.Cleanup(host.Kill)
	found, err := host.WaitFor(ctx, `listening on http://(\S+)\n\s+admin on\s+(http://\S+)`)
	if err != nil {
		return "", "", err
	}
	return found[1], found[2], nil
}

// gatewayProcess is this program as a gateway. It ends with its standard input, or by a signal.
func gatewayProcess(told string) int {
	upstream, db, _ := strings.Cut(told, " ")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err == nil {
		defer null.Close()
		err = serve(ctx, upstream, db, os.Stdout, null)
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return exitShort
	}
	return exitFine
}
