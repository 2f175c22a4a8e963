package server

import (
	"net/http"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// constantMax bounds a constant scope, in bytes, so that it fits into a scope with its endpoint.
const constantMax = 200

// scope reads who the caller is. Exactly one way must be named.
func (r *configReader) scope(at place) ScopeRule {
	var rule ScopeRule
	var ways []string
	way := func(name string, kind ScopeKind, read func(at place)) field {
		return field{name, func(at place) {
			ways = append(ways, name)
			rule.Kind = kind
			read(at)
		}}
	}
	seen := r.mapping(at, "credential", []field{
		way("jwt", ScopeJWT, func(at place) { rule.JWT = r.jwt(at) }),
		way("credential", ScopeCredential, func(at place) { rule.Header = r.credential(at) }),
		way("header", ScopeHeader, func(at place) { rule.Header = r.trustedHeader(at) }),
		way("constant", ScopeConstant, func(at place) { rule.Constant = r.constant(at) }),
		{"with_endpoint", func(at place) { r.boolean(at, &rule.WithEndpoint) }},
	})
	switch {
	case seen == nil:
	case len(ways) == 0:
		r.fault(at, "names no caller; give one of jwt, credential, header, constant")
	case len(ways) > 1:
		r.fault(at, "has %s; exactly one can say who the caller is", strings.Join(ways, " and "))
	}
	return rule
}

// credential reads the header whose whole value identifies the caller. It may be left out.
func (r *configReader) credential(at place) string {
	header := "Authorization"
	if _, empty := at.node.(*ast.NullNode); empty {
		return header
	}
	r.mapping(at, "header", []field{
		{"header", func(at place) { header = r.headerName(at, "Authorization") }},
	})
	if header == "Cookie" {
		r.fault(at, "Cookie differs between retries of one caller; name a header with the credential alone")
	}
	return header
}

// trustedHeader reads the header that a proxy in front sets, and strips from what comes from outside.
func (r *configReader) trustedHeader(at place) string {
	header := r.headerName(at, "X-Account")
	switch header {
	case "Authorization", "Proxy-Authorization", "Cookie":
		r.fault(at, "%s comes from the caller, unverified; use credential or jwt", header)
	case "Idempotency-Key":
		r.fault(at, "Idempotency-Key is the key itself; name the header with the caller's identity")
	}
	return header
}

func (r *configReader) headerName(at place, example string) string {
	value, ok := r.text(at, example)
	if ok && !IsToken(value) {
		r.fault(at, "%q is no name of a header", value)
	}
	return http.CanonicalHeaderKey(value)
}

func (r *configReader) constant(at place) string {
	value, ok := r.text(at, "everyone")
	if ok && len(value) > constantMax {
		r.fault(at, "has %d bytes; at most %d are allowed", len(value), constantMax)
	}
	return value
}

func (r *configReader) jwt(at place) *JWTRule {
	rule := &JWTRule{Claim: "sub"}
	var algorithms, keys place
	seen := r.mapping(at, "keys", []field{
		{"keys", func(at place) { keys = at; r.jwtKeys(at, rule) }},
		{"claim", func(at place) { rule.Claim, _ = r.text(at, "sub") }},
		{"issuer", func(at place) { rule.Issuer, _ = r.text(at, "https://login.example.com") }},
		{"audience", func(at place) { rule.Audience, _ = r.texts(at, "charges") }},
		{"algorithms", func(at place) { algorithms = at }},
	})
	if seen == nil {
		return rule
	}
	if !seen["keys"] {
		r.fault(at, "has no keys; name a file with a JWK set or PEM public keys, since an unverified token identifies nobody")
	}
	possible := rule.possible()
	if !seen["algorithms"] {
		rule.Algorithms = asymmetric(possible)
		if len(rule.keys) > 0 && len(rule.Algorithms) == 0 {
			r.fault(keys, "has only shared secrets; name their algorithm under algorithms, such as HS256")
		}
		return rule
	}
	values, places := r.texts(algorithms, "RS256")
	for i, name := range values {
		switch {
		case strings.EqualFold(name, "none"):
			r.fault(places[i], "%q would accept forged tokens; name RS256, ES256 or EdDSA", name)
		case !isAlgorithm(name):
			r.fault(places[i], "%q is not known; known: %s", name, strings.Join(algorithmNames(), ", "))
		case len(rule.keys) > 0 && !hasAlgorithm(possible, name):
			r.fault(places[i], "no key in keys can verify %s", name)
		default:
			rule.allow(name)
		}
	}
	return rule
}

func (r *configReader) jwtKeys(at place, rule *JWTRule) {
	name, ok := r.text(at, "keys.json")
	if !ok {
		return
	}
	rule.KeysFile = name
	if !filepath.IsAbs(name) {
		rule.KeysFile = filepath.Join(r.dir, name)
	}
	keys, err := loadJWTKeys(rule.KeysFile)
	if err != nil {
		r.fault(at, "%v", err)
		return
	}
	rule.keys = keys
}
