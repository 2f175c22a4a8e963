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
)

// Defaults of a Route.
const (
	BodyMaxDefault     = 1 << 20 // bytes
	ResponseMaxDefault = 1 << 20 // bytes
	TimeoutDefault     = 5 * time.Minute
	LeaseDefault       = 30 * time.Second
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
)

// Config is what a gateway protects. LoadConfig and ParseConfig make a valid one; so does ProxyConfig.
type Config struct {
	Routes []Route
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
}

// KeyRule says what becomes of a request without a key.
type KeyRule string

// The rules for a request without a key.
const (
	KeyRequired KeyRule = "required" // it is refused with 400
	KeyOptional KeyRule = "optional" // it passes through, unprotected, and is counted
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
	return fmt.Sprintf("%s %s -> %s, key %s, scope %s, unknown hold, duplicate conflict, forward_key %s, %s",
		strings.Join(r.Methods, ","), r.Path, r.Upstream, r.Key, r.Scope, r.ForwardKey, limits)
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
