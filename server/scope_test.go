package server

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/fiftyhosts/fifty/idempotency"
)

// at is the present of these tests.
var at = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// issuer makes tokens and the files of keys that verify them.
type issuer struct {
	ec    *ecdsa.PrivateKey
	rsa   *rsa.PrivateKey
	other *ecdsa.PrivateKey // whose public half nobody trusts
}

func newIssuer(t testing.TB) issuer {
	t.Helper()
	var is issuer
	var err error
	if is.ec, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	if is.other, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	if is.rsa, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		t.Fatal(err)
	}
	return is
}

// jwks is a JWK set with the public keys "ec" and "rsa".
func (is issuer) jwks(t testing.TB) string {
	t.Helper()
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: is.ec.Public(), KeyID: "ec", Algorithm: "ES256", Use: "sig"},
		{Key: is.rsa.Public(), KeyID: "rsa"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func pemOf(t testing.TB, key any) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func sign(t testing.TB, alg jose.SignatureAlgorithm, key any, kid string, claims any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", kid))
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func unsigned(header, claims string) string {
	b := base64.RawURLEncoding
	return b.EncodeToString([]byte(header)) + "." + b.EncodeToString([]byte(claims)) + "."
}

type claims = map[string]any

// jwtScopes reads a jwt scope from a configuration, as an operator would write it.
func jwtScopes(t testing.TB, keys, fields string) *scopes {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "keys", keys)
	name := write(t, dir, "fifty.yaml", "routes:\n- path: /charges\n  upstream: http://a\n  scope: {jwt: {keys: keys"+fields+"}}\n")
	cfg, err := LoadConfig(name)
	if err != nil {
		t.Fatal(err)
	}
	return &scopes{rule: cfg.Routes[0].Scope, route: "/charges", now: func() time.Time { return at }}
}

func TestOnlyAVerifiedTokenIdentifies(t *testing.T) {
	is := newIssuer(t)
	who := jwtScopes(t, is.jwks(t), `, issuer: "https://login", audience: [pay, refund]`)
	good := claims{"iss": "https://login", "aud": "pay", "sub": "alice", "exp": at.Add(time.Hour).Unix()}
	with := func(name string, value any) claims {
		c := claims{}
		for k, v := range good {
			c[k] = v
		}
		if c[name] = value; value == nil {
			delete(c, name)
		}
		return c
	}
	const alice = `jwt:"https://login" "sub"="alice"`
	goodToken := sign(t, jose.ES256, is.ec, "ec", good)
	parts := strings.Split(goodToken, ".")
	mallory, _ := json.Marshal(with("sub", "mallory"))

	for _, c := range []struct{ name, token, scope, problem string }{
		{"good, elliptic curve", goodToken, alice, ""},
		{"good, RSA", sign(t, jose.PS512, is.rsa, "rsa", good), alice, ""},
		{"good, no key id", sign(t, jose.RS256, is.rsa, "", good), alice, ""},
		{"good, two audiences", sign(t, jose.ES256, is.ec, "ec", with("aud", []string{"x", "refund"})), alice, ""},
		{"good, just expired", sign(t, jose.ES256, is.ec, "ec", with("exp", at.Add(-jwtLeeway).Unix())), alice, ""},
		{"good, no expiry", sign(t, jose.ES256, is.ec, "ec", with("exp", nil)), alice, ""},
		{"quoted name", sign(t, jose.ES256, is.ec, "ec", with("sub", "a\" \"sub\"=\"b\n")), `jwt:"https://login" "sub"="a\" \"sub\"=\"b\n"`, ""},
		{"expired", sign(t, jose.ES256, is.ec, "ec", with("exp", at.Add(-jwtLeeway-time.Second).Unix())), "", "it has expired"},
		{"not valid yet", sign(t, jose.ES256, is.ec, "ec", with("nbf", at.Add(jwtLeeway+time.Second).Unix())), "", "it is not valid yet"},
		{"another issuer", sign(t, jose.ES256, is.ec, "ec", with("iss", "https://evil")), "", "it is from another issuer"},
		{"no issuer", sign(t, jose.ES256, is.ec, "ec", with("iss", nil)), "", "it is from another issuer"},
		{"another audience", sign(t, jose.ES256, is.ec, "ec", with("aud", "x")), "", "it is for another audience"},
		{"no audience", sign(t, jose.ES256, is.ec, "ec", with("aud", nil)), "", "it is for another audience"},
		{"no claim", sign(t, jose.ES256, is.ec, "ec", with("sub", nil)), "", `no claim "sub" that is a text`},
		{"an empty claim", sign(t, jose.ES256, is.ec, "ec", with("sub", "")), "", `no claim "sub" that is a text`},
		{"alg none", unsigned(`{"alg":"none"}`, string(mallory)), "", "not a JWT signed with an algorithm that is allowed"},
		{"alg NONE", unsigned(`{"alg":"NONE","kid":"ec"}`, string(mallory)), "", "not a JWT signed with an algorithm that is allowed"},
		{"signed by another", sign(t, jose.ES256, is.other, "ec", good), "", "signature does not verify"},
		{"signed by another, without a key id", sign(t, jose.ES256, is.other, "", good), "", "signature does not verify"},
		{"the key of another id", sign(t, jose.RS256, is.rsa, "ec", good), "", "signature does not verify"},
		{"an unknown key id", sign(t, jose.ES256, is.ec, "new", good), "", "signature does not verify"},
		{"the public key as a shared secret", sign(t, jose.HS256, []byte(pemOf(t, is.rsa.Public())), "rsa", good), "", "algorithm that is allowed"},
		{"claims replaced", parts[0] + "." + base64.RawURLEncoding.EncodeToString(mallory) + "." + parts[2], "", "signature does not verify"},
		{"signature left out", parts[0] + "." + parts[1] + ".", "", "signature does not verify"},
		{"no token", "alice", "", "not a JWT"},
		{"endless", strings.Repeat("a", jwtBytesMax+1), "", "at most 16384 are read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, "/charges", nil)
			r.Header.Set("Authorization", "Bearer "+c.token)
			wantScope(t, who, r, c.scope, c.problem)
		})
	}
}

func wantScope(t *testing.T, who *scopes, r *http.Request, scope, problem string) {
	t.Helper()
	got, err := who.of(r)
	switch {
	case problem != "" && err == nil:
		t.Errorf("identified as %s, want an error with %q", got, problem)
	case problem != "" && !strings.Contains(err.Error(), problem):
		t.Errorf("the error is %q, want %q in it", err, problem)
	case problem == "" && err != nil:
		t.Errorf("not identified: %v", err)
	case problem == "" && got != scope:
		t.Errorf("got %s, want %s", got, scope)
	case problem == "":
		if err := idempotency.ValidateScope(got); err != nil {
			t.Errorf("no valid scope: %v", err)
		}
	}
}

func TestTokensThatNameNobodyOrMany(t *testing.T) {
	is := newIssuer(t)
	who := jwtScopes(t, pemOf(t, is.ec.Public()), `, claim: account`)
	token := sign(t, jose.ES256, is.ec, "", claims{"account": "a"})
	number := sign(t, jose.ES256, is.ec, "", claims{"account": 7})
	long := sign(t, jose.ES256, is.ec, "", claims{"account": strings.Repeat("a", idempotency.ScopeMax)})
	for _, c := range []struct {
		name           string
		authorization  []string
		scope, problem string
	}{
		{"one", []string{"bearer " + token}, `jwt:"" "account"="a"`, ""},
		{"none", nil, "", "has no Authorization header"},
		{"an empty one", []string{""}, "", "has no Authorization header"},
		{"two", []string{"Bearer " + token, "Bearer " + token}, "", "has 2 Authorization headers; send one"},
		{"a password", []string{"Basic YTpi"}, "", "has no bearer token"},
		{"only the scheme", []string{"Bearer"}, "", "not a JWT"},
		{"a number as a claim", []string{"Bearer " + number}, "", `no claim "account" that is a text`},
		{"a long name", []string{"Bearer " + long}, "", "at most 512 are allowed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, "/charges", nil)
			r.Header["Authorization"] = c.authorization
			wantScope(t, who, r, c.scope, c.problem)
		})
	}
}

func TestAlgorithmsMustSuitTheKeys(t *testing.T) {
	is := newIssuer(t)
	secret := `{"keys":[{"kty":"oct","k":"` + base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32)) + `"}]}`
	short := `{"kty":"oct","k":"c2hvcnQ"}`
	private, err := json.Marshal(jose.JSONWebKey{Key: is.ec})
	if err != nil {
		t.Fatal(err)
	}
	encryption, err := json.Marshal(jose.JSONWebKey{Key: is.ec.Public(), Use: "enc"})
	if err != nil {
		t.Fatal(err)
	}
	privatePEM := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(is.rsa)}))
	for _, c := range []struct{ name, keys, algorithms, problem string }{
		{"an algorithm that no key has", pemOf(t, is.ec.Public()), ", algorithms: [RS256]", "no key in keys can verify RS256"},
		{"a shared secret, unasked", secret, "", "has only shared secrets; name their algorithm"},
		{"a shared secret, asked for", secret, ", algorithms: [HS256]", ""},
		{"a public key as a secret", pemOf(t, is.rsa.Public()), ", algorithms: [HS256]", "no key in keys can verify HS256"},
		{"a short secret", short, ", algorithms: [HS256]", "is a shared secret of 5 bytes; at least 32 are needed"},
		{"a private key", string(private), "", "is a private key; keep that where tokens are made"},
		{"a private key in PEM", privatePEM, "", "only public keys and certificates are wanted"},
		{"a key for encryption", string(encryption), "", `is for use "enc"`},
		{"no keys", `{"keys":[]}`, "", "has 0 keys; from 1 to 100 are allowed"},
		{"broken JSON", `{"keys":`, "", "is not JSON"},
		{"something else", "hello", "", "holds neither a JWK set nor PEM blocks"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "keys", c.keys)
			_, err := LoadConfig(write(t, dir, "fifty.yaml", "routes:\n- path: /charges\n  upstream: http://a\n  scope: {jwt: {keys: keys"+c.algorithms+"}}\n"))
			switch {
			case c.problem == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.problem != "" && (err == nil || !strings.Contains(err.Error(), c.problem)):
				t.Errorf("got %v, want %q in it", err, c.problem)
			}
		})
	}
}

func TestEachCredentialIsAnotherCaller(t *testing.T) {
	who := &scopes{rule: ScopeRule{Kind: ScopeCredential, Header: "Authorization"}, secret: []byte("s")}
	of := func(value string) string {
		r := httptest.NewRequest(http.MethodPost, "/charges", nil)
		r.Header.Set("Authorization", value)
		scope, err := who.of(r)
		if err != nil {
			t.Fatal(err)
		}
		return scope
	}
	const alice = "Basic YWxpY2U6c2VjcmV0"
	seen := map[string]string{}
	for _, credential := range []string{alice, "Basic YWxpY2U6d3Jvbmc=", "Bearer YWxpY2U6c2VjcmV0", "basic YWxpY2U6c2VjcmV0", alice + "x"} {
		scope := of(credential)
		if other, ok := seen[scope]; ok {
			t.Errorf("%q and %q are one caller", credential, other)
		}
		seen[scope] = credential
		if strings.Contains(scope, "YWxpY2U6") {
			t.Errorf("the scope %q holds the credential", scope)
		}
	}
	first := of(alice)
	if of(alice) != first {
		t.Error("the same credential is two callers")
	}
	who.secret = []byte("other")
	if of(alice) == first {
		t.Error("the digest does not depend on the secret, so credentials can be guessed from it")
	}
}

func TestATrustedHeaderMustBeThereOnce(t *testing.T) {
	who := &scopes{rule: ScopeRule{Kind: ScopeHeader, Header: "X-Account", WithEndpoint: true}, route: "/v1/{rest...}"}
	for _, c := range []struct {
		name           string
		values         []string
		scope, problem string
	}{
		{"one", []string{"a b"}, `header:X-Account="a b" POST "/v1/{rest...}"`, ""},
		{"not ASCII", []string{"é\xff"}, `header:X-Account="\u00e9\xff" POST "/v1/{rest...}"`, ""},
		{"none", nil, "", "has no X-Account header, which says who the caller is"},
		{"an empty one", []string{""}, "", "has no X-Account header"},
		{"the caller's own beside the proxy's", []string{"victim", "mallory"}, "", "has 2 X-Account headers; send one"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, "/v1/x", nil)
			r.Header["X-Account"] = c.values
			wantScope(t, who, r, c.scope, c.problem)
		})
	}
}

func TestScopesOfDifferentWaysNeverMeet(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/v1/x", nil)
	r.Header.Set("X-Account", `"a"`)
	seen := map[string]ScopeRule{}
	for _, rule := range []ScopeRule{
		{Kind: ScopeConstant, Constant: "a"},
		{Kind: ScopeConstant, Constant: `a" POST "/v1`},
		{Kind: ScopeConstant, Constant: "a", WithEndpoint: true},
		{Kind: ScopeHeader, Header: "X-Account"},
		{Kind: ScopeHeader, Header: "X-Account", WithEndpoint: true},
		{Kind: ScopeCredential, Header: "X-Account"},
		{Kind: ScopeConstant, Constant: `header:X-Account="a"`},
	} {
		scope, err := (&scopes{rule: rule, route: "/v1"}).of(r)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[scope]; ok {
			t.Errorf("%s and %s give the same scope %s", rule, other, scope)
		}
		seen[scope] = rule
	}
	if _, err := (&scopes{}).of(r); err == nil {
		t.Error("a route without a scope takes requests")
	}
}
