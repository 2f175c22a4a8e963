package server

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
)

// Defaults of a Route.
const (
	BodyMaxDefault     = 1 << 20 // bytes
	ResponseMaxDefault = 1 << 20 // bytes
	TimeoutDefault     = 5 * time.Minute
	LeaseDefault       = 30 * time.Second
	RetentionDefault   = 24 * time.Hour
	TombstoneDefault   = 30 * 24 * time.Hour
)

// Bounds of the configuration.
const (
	configBytesMax = 1 << 20
	routesMax      = 1000
	bodyMaxMax     = 1 << 30
	responseMaxMax = 64 << 20
	timeoutMin     = time.Millisecond
	timeoutMax     = 24 * time.Hour
	leaseMin       = time.Second
	leaseMax       = time.Hour
	windowMin      = time.Second
	windowMax      = 366 * 24 * time.Hour
	keepMin        = time.Minute // of an answer
	keepMax        = 10 * 366 * 24 * time.Hour
	sealKeysMax    = 16
)

// Config is what a gateway protects. LoadConfig and ParseConfig make a valid one; so does ProxyConfig.
type Config struct {
	Routes []Route

	// Seal seals what is kept of answers. nil keeps them in the clear.
	Seal *idempotency.Ring
}

// Route is one path of an upstream and what holds for it.
type Route struct {
	Path     string   // a pattern of http.ServeMux without method and host: "/charges", "/v1/{rest...}"
	Methods  []string // those that take a key; all others pass through
	Upstream *url.URL // scheme and host, and a path that is put in front
	Key      KeyRule
	Scope    ScopeRule

	ForwardKey  ForwardKey
	BodyMax     int64         // bytes of a keyed request
	ResponseMax int64         // bytes of an answer that is kept
	Timeout     time.Duration // of the work, from the claim to the upstream's last byte
	Lease       time.Duration // how long a claim outlives a host that vanished

	Duplicate      DuplicateRule
	Unknown        UnknownRule
	UpstreamWindow time.Duration // with UnknownRetry: how long the upstream remembers a key
	Retention      time.Duration // how long an answer is kept at least, from when its work was done
	Tombstone      time.Duration // how long a key is remembered at least; not below Retention
	Headers        []string      // that are kept of an answer, beside those about its body; nil keeps all
}

// KeyRule says what becomes of a request without a key.
type KeyRule string

// The rules for a request without a key.
const (
	KeyRequired KeyRule = "required" // it is refused with 400
	KeyOptional KeyRule = "optional" // it passes through, unprotected, and is counted
)

// DuplicateRule says what becomes of a request whose first arrival is still at work.
type DuplicateRule string

// The rules for a duplicate of a request at work.
const (
	DuplicateConflict DuplicateRule = "conflict" // 409
	DuplicateWait     DuplicateRule = "wait"     // it waits for the answer, a while; then 409
	DuplicateAccepted DuplicateRule = "accepted" // 202, and where to look
)

// UnknownRule says what becomes of a request that the upstream got and did not answer, or with 500 or above.
type UnknownRule string

// The rules for a request whose outcome is not known.
const (
	UnknownHold  UnknownRule = "hold"  // it is never sent again; an operator decides
	UnknownRetry UnknownRule = "retry" // the next request sends it again, to an upstream that knows a repeat by its key
)

// ForwardKey says which key the upstream sees.
type ForwardKey string

// The keys that an upstream may see. A raw key is right when each caller brings its own credential to the
// upstream. When all callers share one upstream credential, two of them may use the same key for two
// intents, and only the derived one tells them apart.
const (
	ForwardRaw     ForwardKey = "raw"     // the client's
	ForwardDerived ForwardKey = "derived" // a digest of scope and key
)

// routeDefaults is a Route before its fields are read.
func routeDefaults() Route {
	return Route{
		Methods:     []string{http.MethodPost, http.MethodPatch},
		Key:         KeyRequired,
		ForwardKey:  ForwardRaw,
		BodyMax:     BodyMaxDefault,
		ResponseMax: ResponseMaxDefault,
		Timeout:     TimeoutDefault,
		Lease:       LeaseDefault,
		Duplicate:   DuplicateConflict,
		Unknown:     UnknownHold,
		Retention:   RetentionDefault,
		Tombstone:   TombstoneDefault,
	}
}

// ProxyConfig is a whole service behind one route, with the defaults of a Route. An error names what is
// wrong with the URL.
func ProxyConfig(upstream string, scope ScopeRule) (Config, error) {
	u, problem := upstreamURL(upstream)
	if problem != "" {
		return Config{}, fmt.Errorf("upstream %q %s", upstream, problem)
	}
	route := routeDefaults()
	route.Path, route.Upstream, route.Scope = "/", u, scope
	return Config{Routes: []Route{route}}, nil
}

// LoadConfig reads a YAML file. Files that it names are relative to its folder. An error that is a
// *ConfigError holds every fault of the file.
func LoadConfig(name string) (Config, error) {
	info, err := os.Stat(name)
	if err != nil {
		return Config{}, fmt.Errorf("configuration: %w", err)
	}
	if info.IsDir() {
		return Config{}, fmt.Errorf("configuration: %s is a folder; name the YAML file in it", name)
	}
	if info.Size() > configBytesMax {
		return Config{}, fmt.Errorf("configuration: %s has %d bytes; at most %d are allowed", name, info.Size(), configBytesMax)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return Config{}, fmt.Errorf("configuration: %w", err)
	}
	return ParseConfig(name, text)
}

// ParseConfig is LoadConfig for a text that is there already; name is what faults call it, and where
// the files that it names are looked for.
func ParseConfig(name string, text []byte) (Config, error) {
	r := &configReader{name: name, dir: filepath.Dir(name)}
	cfg := r.config(text)
	if len(r.faults) > 0 {
		slices.SortStableFunc(r.faults, func(a, b Fault) int {
			return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		})
		return Config{}, &ConfigError{Name: name, Faults: r.faults}
	}
	return cfg, nil
}

// Summary is one line of what the route does.
func (r Route) Summary() string {
	limits := fmt.Sprintf("body_max %s, response_max %s, timeout %v, lease %v",
		formatSize(r.BodyMax), formatSize(r.ResponseMax), r.Timeout, r.Lease)
	unknown := string(r.Unknown)
	if r.Unknown == UnknownRetry {
		unknown += fmt.Sprintf(" (within %v)", r.UpstreamWindow)
	}
	headers := ""
	if r.Headers != nil {
		headers = ", headers " + strings.Join(r.Headers, "|")
	}
	return fmt.Sprintf("%s %s -> %s, key %s, scope %s, unknown %s, duplicate %s, forward_key %s, %s, retention %v, tombstone %v%s",
		strings.Join(r.Methods, ","), r.Path, r.Upstream, r.Key, r.Scope, unknown, r.Duplicate, r.ForwardKey, limits,
		r.Retention, r.Tombstone, headers)
}

// keeps is how long answers and keys are kept. One sweep tidies the keys of all routes and can't tell them
// apart, so the longest of the routes' counts.
func (c Config) keeps() (retention, tombstone time.Duration) {
	for _, r := range c.Routes {
		retention, tombstone = max(retention, r.Retention), max(tombstone, r.Tombstone)
	}
	return retention, tombstone
}

func (r Route) keyed(method string) bool {
	return slices.Contains(r.Methods, method)
}

// ConfigError holds every fault that was found, in the order of the text.
type ConfigError struct {
	Name   string // of the file
	Faults []Fault
}

// Fault is one thing wrong in a configuration, and what would be right.
type Fault struct {
	Line, Column int    // from 1
	Field        string // "routes[0].scope.jwt.keys"; empty for the file as a whole
	Problem      string
}

func (e *ConfigError) Error() string {
	var b strings.Builder
	for i, f := range e.Faults {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s:%d:%d: ", e.Name, f.Line, f.Column)
		if f.Field != "" {
			b.WriteString(f.Field + ": ")
		}
		b.WriteString(f.Problem)
	}
	return b.String()
}
