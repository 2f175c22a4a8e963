package server

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// jwtLeeway is how far the issuer's clock may differ from ours, for exp, nbf and iat.
const jwtLeeway = 30 * time.Second

// jwtBytesMax bounds a token that is looked at.
const jwtBytesMax = 16 << 10

// JWTRule says which bearer tokens identify a caller, and by which claim. Only a configuration makes one,
// since it holds the keys.
type JWTRule struct {
	KeysFile   string
	Claim      string   // a text in the token; "sub" unless the configuration says otherwise
	Issuer     string   // the token's iss must be this; empty for any
	Audience   []string // the token's aud must name one of these; empty for any
	Algorithms []jose.SignatureAlgorithm

	keys []jose.JSONWebKey
}

// possible are the algorithms that at least one key can verify.
func (j *JWTRule) possible() []jose.SignatureAlgorithm {
	var all []jose.SignatureAlgorithm
	for _, k := range j.keys {
		for _, a := range verifies(k) {
			if !slices.Contains(all, a) {
				all = append(all, a)
			}
		}
	}
	return all
}

func (j *JWTRule) allow(name string) {
	j.Algorithms = append(j.Algorithms, jose.SignatureAlgorithm(name))
}

// identity returns the verified caller of a request. The issuer is part of it, so that two issuers' users
// of one name are two callers.
func (j *JWTRule) identity(r *http.Request, now time.Time) (string, error) {
	header, err := single(r, "Authorization")
	if err != nil {
		return "", err
	}
	scheme, text, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", errors.New("the Authorization header has no bearer token")
	}
	text = strings.TrimSpace(text)
	if len(text) > jwtBytesMax {
		return "", fmt.Errorf("the bearer token has %d bytes; at most %d are read", len(text), jwtBytesMax)
	}
	token, err := jwt.ParseSigned(text, j.Algorithms)
	if err != nil || len(token.Headers) != 1 {
		return "", errors.New("the bearer token is not a JWT signed with an algorithm that is allowed")
	}
	var standard jwt.Claims
	var all map[string]any
	if !j.verify(token, &standard, &all) {
		return "", errors.New("the bearer token's signature does not verify")
	}
	expected := jwt.Expected{Issuer: j.Issuer, AnyAudience: j.Audience, Time: now}
	if err := standard.ValidateWithLeeway(expected, jwtLeeway); err != nil {
		return "", errors.New("the bearer token is not valid: " + jwtProblem(err))
	}
	value, ok := all[j.Claim].(string)
	if !ok || value == "" {
		return "", fmt.Errorf("the bearer token has no claim %q that is a text", j.Claim)
	}
	return "jwt:" + strconv.QuoteToASCII(standard.Issuer) + " " + strconv.QuoteToASCII(j.Claim) + "=" + strconv.QuoteToASCII(value), nil
}

// verify tries the keys that may have signed the token: those of its key id when it names one, and in
// any case only those that are for its algorithm.
func (j *JWTRule) verify(token *jwt.JSONWebToken, into ...any) bool {
	head := token.Headers[0]
	for _, k := range j.keys {
		if head.KeyID != "" && k.KeyID != "" && head.KeyID != k.KeyID {
			continue
		}
		if !hasAlgorithm(verifies(k), head.Algorithm) {
			continue
		}
		if token.Claims(k.Key, into...) == nil {
			return true
		}
	}
	return false
}

func jwtProblem(err error) string {
	switch {
	case errors.Is(err, jwt.ErrExpired):
		return "it has expired"
	case errors.Is(err, jwt.ErrNotValidYet), errors.Is(err, jwt.ErrIssuedInTheFuture):
		return "it is not valid yet"
	case errors.Is(err, jwt.ErrInvalidIssuer):
		return "it is from another issuer"
	case errors.Is(err, jwt.ErrInvalidAudience):
		return "it is for another audience"
	default:
		return "its claims can't be accepted"
	}
}
