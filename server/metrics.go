package server

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/internal/wall"
)

// Metrics counts for Prometheus. It is an Observer of packages idempotency and idempotencyhttp. It is safe
// for concurrent use.
type Metrics struct {
	registry    *prometheus.Registry
	requests    *prometheus.CounterVec
	seconds     *prometheus.HistogramVec
	inFlight    *prometheus.GaugeVec
	unprotected *prometheus.CounterVec
	upstream    *prometheus.CounterVec
	perAttempt  *prometheus.CounterVec
	events      *prometheus.CounterVec
	swept       prometheus.Counter
}

// Why a request was not protected.
const (
	reasonNoKey  = "no_key"
	reasonMethod = "method"
)

// How an upstream failed.
const (
	failureDial = "dial" // nothing was sent
	failureLost = "lost" // it was sent, and no whole answer came
	failureLate = "late" // it came again after the upstream's window, and was not sent again
)

// watchedEvents are there from the start, so that an alert can rest on their being zero.
var watchedEvents = []string{
	"idempotency.completion_failed", "idempotency.lease_lost", "idempotency.superseded", "idempotency.left_unknown",
	"idempotency.sweep_failed", "idempotency.replay_failed",
}

// NewMetrics makes metrics in a registry of their own, with those of the Go runtime and the process.
func NewMetrics() *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "fifty", Name: name, Help: help}, labels)
	}
	m := &Metrics{
		registry:    prometheus.NewRegistry(),
		requests:    counter("requests_total", "Requests by route and what became of them.", "route", "outcome"),
		unprotected: counter("unprotected_total", "Requests that changed something without a key: a repeat of one runs again.", "route", "reason"),
		upstream:    counter("upstream_failures_total", "Keyed requests whose upstream could not be reached (dial), gave no whole answer (lost), or no longer knows a repeat (late).", "route", "kind"),
		perAttempt:  counter("key_per_attempt_total", "Requests that repeat another one of the same caller under a new key within a minute.", "route"),
		events:      counter("events_total", "Events of the idempotency packages, by name.", "event"),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "fifty", Name: "request_seconds", Help: "Time of keyed requests, by route and what became of them.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"route", "outcome"}),
		swept: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "fifty", Name: "swept_total", Help: "Answers dropped and keys forgotten by this host's sweeps, because their time was over.",
		}),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "fifty", Name: "in_flight", Help: "Keyed requests whose work is running.",
		}, []string{"route"}),
	}
	m.registry.MustRegister(m.requests, m.seconds, m.inFlight, m.unprotected, m.upstream, m.perAttempt, m.events, m.swept,
		newHostClock(), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, name := range watchedEvents {
		m.events.WithLabelValues(name)
	}
	return m
}

// newHostClock shows the host's clock as it is when it is asked.
func newHostClock() prometheus.Collector {
	const perSecond = 1e9
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "fifty", Name: "host_clock_seconds",
		Help: "This host's clock at the scrape, in seconds since 1970: compare it with the scrape's own time.",
	}, func() float64 { return float64(wall.Now().UnixNano()) / perSecond })
}

// Observe counts the event. Names are those of the code, so there are few.
func (m *Metrics) Observe(_ context.Context, e fifty.Event) { m.events.WithLabelValues(e.Name).Inc() }

// Handler answers a scrape.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

// route makes the series of a route that an alert may rest on.
func (m *Metrics) route(name string) {
	for _, reason := range []string{reasonNoKey, reasonMethod} {
		m.unprotected.WithLabelValues(name, reason)
	}
	for _, kind := range []string{failureDial, failureLost, failureLate} {
		m.upstream.WithLabelValues(name, kind)
	}
	m.inFlight.WithLabelValues(name)
	m.perAttempt.WithLabelValues(name)
}

func (m *Metrics) request(route string, o Outcome, took time.Duration) {
	m.requests.WithLabelValues(route, string(o)).Inc()
	m.seconds.WithLabelValues(route, string(o)).Observe(took.Seconds())
}
