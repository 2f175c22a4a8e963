package e2e

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/faults/hosts"
)

const (
	hoursApart = 4 * time.Hour
	// skewTolerance is far below hoursApart and far above what a slow machine needs for an answer.
	skewTolerance = 10 * time.Minute
)

// clocks are those of the hosts of one test: right, ahead and behind.
var clocks = []time.Duration{0, hoursApart, -hoursApart}

// buildFaulty builds fifty and onesweep with clocks that a test can move, once.
var buildFaulty = sync.OnceValues(func() (folder string, err error) {
	folder = filepath.Join(buildFolder, "faultclock")
	cmd := exec.Command("go", "build", "-tags", "faultclock", "-o", folder+string(filepath.Separator),
		"github.com/fiftyhosts/fifty/cmd/fifty", "github.com/fiftyhosts/fifty/internal/e2e/testdata/onesweep")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build with the tag faultclock: %w\n%s", err, out)
	}
	return folder, nil
})

// startSkewed runs a program of the fault build, on a host whose clock is off by skew.
func startSkewed(tb testing.TB, skew time.Duration, program string, args ...string) *process {
	tb.Helper()
	folder, err := buildFaulty()
	if err != nil {
		tb.Fatal(err)
	}
	return launch(tb, hosts.Config{Path: filepath.Join(folder, program), Args: args, Clock: skew})
}

// startSkewedRoute is startRoute on a host whose clock is off by skew, which it asserts.
func startSkewedRoute(tb testing.TB, skew time.Duration, upstream, database string, fields ...string) *host {
	tb.Helper()
	config := writeConfig(tb, routeConfig(upstream, fields...))
	return startSkewedServe(tb, skew, config, database)
}

func startSkewedServe(tb testing.TB, skew time.Duration, config, database string) *host {
	tb.Helper()
	gateway := ready(startSkewed(tb, skew, "fifty", append([]string{"serve", "--config", config}, onFreePorts(database)...)...))
	wantSkew(tb, gateway, skew)
	return gateway
}

// startApart starts a gateway for each of the clocks.
func startApart(tb testing.TB, upstream, database string, fields ...string) (gateways []*host) {
	tb.Helper()
	return startEach(tb, clocks, upstream, database, fields...)
}

func startEach(tb testing.TB, clocks []time.Duration, upstream, database string, fields ...string) (gateways []*host) {
	tb.Helper()
	for _, skew := range clocks {
		gateways = append(gateways, startSkewedRoute(tb, skew, upstream, database, fields...))
	}
	return gateways
}

// wantSkew checks that a gateway's clock is off by skew, as its own metric says.
func wantSkew(tb testing.TB, gateway *host, skew time.Duration) {
	tb.Helper()
	admin := gateway.find(`admin on\s+(http://\S+) `)[1]
	a, err := request(tb.Context(), http.MethodGet, admin+"/metrics", nil, "")
	if err != nil {
		tb.Fatal(err)
	}
	_, after, _ := strings.Cut(string(a.body), "\nfifty_host_clock_seconds ")
	text, _, _ := strings.Cut(after, "\n")
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil {
		tb.Fatalf("no clock among the metrics: %v\n%s", err, a.body)
	}
	wantClock(tb, int64(seconds), skew)
}

func wantClock(tb testing.TB, seconds int64, skew time.Duration) {
	tb.Helper()
	if off := time.Until(time.Unix(seconds, 0)); (off - skew).Abs() > skewTolerance {
		tb.Fatalf("a clock that should be off by %v is off by %v", skew, off)
	}
}

// sweepOn sweeps once, from a host whose clock is off by skew.
func sweepOn(tb testing.TB, skew time.Duration, database string, retention, tombstone time.Duration) {
	tb.Helper()
	p := startSkewed(tb, skew, "onesweep", database, retention.String(), tombstone.String())
	said := p.find(`clock (\d+) removed \d+\n`)
	if code := p.exitCode(); code != 0 {
		tb.Fatalf("the sweep ended with %d: %s", code, p.log())
	}
	seconds, err := strconv.ParseInt(said[1], 10, 64)
	if err != nil {
		tb.Fatal(err)
	}
	wantClock(tb, seconds, skew)
}

func urlsOf(gateways []*host) (urls []string) {
	for _, g := range gateways {
		urls = append(urls, g.url)
	}
	return urls
}

func TestFaultBuildSaysThatItIsOne(t *testing.T) {
	t.Parallel()
	database := sqliteURL(t)
	for _, args := range [][]string{
		append([]string{"serve"}, onFreePorts(database)...),
		append([]string{"proxy", "--upstream", "http://127.0.0.1:9"}, onFreePorts(database)...),
		{"sandbox", "--listen", "127.0.0.1:0", "--db", database},
	} {
		startSkewed(t, -90*time.Minute, "fifty", args...).find(`level=WARN msg="this is a fault build.* skew=-1h30m0s`)
	}
	version := startSkewed(t, 0, "fifty", "version")
	version.find("fault build")
	if code := version.exitCode(); code != 0 {
		t.Errorf("version ended with %d", code)
	}
	usual := start(t, "version")
	if code := usual.exitCode(); code != 0 || strings.Contains(usual.log(), "fault") {
		t.Errorf("the usual build's version ended with %d: %s", code, usual.log())
	}
}

func TestUsualBuildHasTheHostsClockWhateverTheVariableSays(t *testing.T) {
	t.Parallel()
	p := launch(t, hosts.Config{
		Path: fiftyBinary(t), Args: append([]string{"serve"}, onFreePorts(sqliteURL(t))...), Clock: hoursApart,
	})
	wantSkew(t, ready(p), 0)
}
