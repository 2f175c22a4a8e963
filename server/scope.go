package server

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
)

// ScopeKind is the way in which a caller is identified.
type ScopeKind string

// The ways. Each rests on something verified (H2): a replay must not be had with a name alone.
const (
	ScopeJWT        ScopeKind = "jwt"        // a claim of a bearer token whose signature was verified
	ScopeCredential ScopeKind = "credential" // a keyed digest of the whole credential
	ScopeHeader     ScopeKind = "header"     // a header that a proxy in front sets and strips
	ScopeConstant   ScopeKind = "constant"   // all callers are one
)

// ScopeRule says who the caller of a request is.
type ScopeRule struct {
	Kind         ScopeKind
	Header       string // for credential and header
	Constant     string // for constant
	JWT          *JWTRule
	WithEndpoint bool // method and route are part of the scope: a key is used once per endpoint
}

// String names the rule, for an operator.
func (s ScopeRule) String() string {
	var text string
	switch s.Kind {
	case ScopeJWT:
		names := make([]string, len(s.JWT.Algorithms))
		for i, a := range s.JWT.Algorithms {
			names[i] = string(a)
		}
		text = fmt.Sprintf("jwt (claim %s, %s, keys %s)", s.JWT.Claim, strings.Join(names, "|"), s.JWT.KeysFile)
	case ScopeCredential, ScopeHeader:
		text = fmt.Sprintf("%s (%s)", s.Kind, s.Header)
	case ScopeConstant:
		text = fmt.Sprintf("constant (%s)", s.Constant)
	}
	if s.WithEndpoint {
		text += " with endpoint"
	}
	return text
}

// scopes derives the scopes of one route. It is safe for concurrent use.
type scopes struct {
	rule    ScopeRule
	route   string
	methods []string // of the route; not empty
	secret  []byte   // keys the digest of a credential
	now     func() time.Time
}

// of returns the scope of a request, or an error that says why there is none. The parts are quoted, so
// that no two identities give one scope.
func (s *scopes) of(r *http.Request) (string, error) { return s.as(r, r.Method) }

// as is of for a request that says of itself who sends it, about one that was sent with method.
func (s *scopes) as(r *http.Request, method string) (string, error) {
	scope, err := s.identity(r)
	if err != nil {
		return "", err
	}
	if s.rule.WithEndpoint {
		scope += endpoint(method, s.route)
	}
	if len(scope) > idempotency.ScopeMax {
		return "", fmt.Errorf("the caller's identity makes a scope of %d bytes; at most %d are allowed", len(scope), idempotency.ScopeMax)
	}
	return scope, nil
}

// endpoint is the end of a scope with its endpoint. A method has no space, so it is told apart from what is
// before it.
func endpoint(method, route string) string { return " " + method + " " + strconv.QuoteToASCII(route) }

func (s *scopes) identity(r *http.Request) (string, error) {
	switch s.rule.Kind {
	case ScopeJWT:
		return s.rule.JWT.identity(r, s.now())
	case ScopeCredential:
		value, err := single(r, s.rule.Header)
		if err != nil {
			return "", err
		}
		sum := hmac.New(sha256.New, s.secret)
		_, _ = io.WriteString(sum, s.rule.Header+"\x00"+value)
		return "credential:" + hex.EncodeToString(sum.Sum(nil)), nil
	case ScopeHeader:
		value, err := single(r, s.rule.Header)
		if err != nil {
			return "", err
		}
		return "header:" + s.rule.Header + "=" + strconv.QuoteToASCII(value), nil
	case ScopeConstant:
		return "constant:" + strconv.QuoteToASCII(s.rule.Constant), nil
	default:
		return "", fmt.Errorf("the route has no scope")
	}
}

// single returns the value of a header that must be there once. A header that is there twice could mean
// one caller here and another one at the upstream.
func single(r *http.Request, name string) (string, error) {
	values := r.Header.Values(name)
	switch {
	case len(values) == 0 || values[0] == "":
		return "", fmt.Errorf("the request has no %s header, which says who the caller is", name)
	case len(values) > 1:
		return "", fmt.Errorf("the request has %d %s headers; send one", len(values), name)
	}
	return values[0], nil
}
