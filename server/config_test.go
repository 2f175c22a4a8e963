package server

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const wholeConfig = `
# everything that this version knows
seal:
  keys:
    - {id: "2026", file: new.key}
    - {id: "2025", file: old.key}
routes:
  - path: /charges
    methods: [POST]
    upstream: https://pay.example.com/v2
    key: optional
    scope:
      header: x-account
      with_endpoint: true
    unknown: retry
    upstream_window: 24h
    duplicate: accepted
    retention: 2h
    tombstone: 48h
    headers: [location, ETag]
    forward_key: derived
    body_max: 64KiB
    response_max: 2MiB
    timeout: 90s
    lease: 10s
  - path: /orders/{rest...}
    upstream: http://127.0.0.1:9000
    scope: {credential: }
`

func TestEveryFieldIsRead(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "new.key", strings.Repeat("\x00", 32))
	write(t, dir, "old.key", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n")
	cfg, err := ParseConfig(filepath.Join(dir, "fifty.yaml"), []byte(wholeConfig))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Seal == nil {
		t.Error("the ring is not there")
	}
	if retention, tombstone := cfg.keeps(); retention != 24*time.Hour || tombstone != 720*time.Hour {
		t.Errorf("kept for %v and %v, want the longest of the routes'", retention, tombstone)
	}
	var got []string
	for _, r := range cfg.Routes {
		got = append(got, r.Summary())
	}
	want := []string{
		"POST /charges -> https://pay.example.com/v2, key optional, scope header (X-Account) with endpoint, unknown retry (within 24h0m0s), duplicate accepted, forward_key derived, body_max 64KiB, response_max 2MiB, timeout 1m30s, lease 10s, retention 2h0m0s, tombstone 48h0m0s, headers Location|Etag",
		"POST,PATCH /orders/{rest...} -> http://127.0.0.1:9000, key required, scope credential (Authorization), unknown hold, duplicate conflict, forward_key raw, body_max 1MiB, response_max 1MiB, timeout 5m0s, lease 30s, retention 24h0m0s, tombstone 720h0m0s",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestEveryFaultIsNamedWithItsPlaceAndWhatWouldBeRight has one text per row and all faults of it, as an
// operator reads them.
func TestEveryFaultIsNamedWithItsPlaceAndWhatWouldBeRight(t *testing.T) {
	const head = "routes:\n- path: /charges\n  upstream: http://127.0.0.1:9000\n"
	const route = head + "  scope: {constant: all}\n"
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "f.yaml:1:1: is empty; it needs routes"},
		{"only a comment", "# later\n", "f.yaml:1:1: is empty; it needs routes"},
		{"not YAML", "routes: [", "f.yaml:1:9: is not YAML: sequence end token ']' not found"},
		{"a tab", "routes:\n\t- path: /", "f.yaml:2:1: is not YAML: found character '\t' that cannot start any token"},
		{"a list", "- path: /charges\n", "f.yaml:1:1: must be a mapping, such as \"routes: ...\", and is a list"},
		{"no routes", "{}", "f.yaml:1:1: has no routes; without any there is nothing to serve"},
		{"empty routes", "routes: []", "f.yaml:1:9: routes: is empty; without a route there is nothing to serve"},
		{"routes left out", "routes:\n", "f.yaml:1:1: routes: must be a list, each entry starting with \"- path: ...\", and is empty"},
		{"two documents", route + "---\nroutes: []\n", "f.yaml:6:1: a second document starts here; put everything into one"},
		{"a route that is text", "routes: [/charges]", "f.yaml:1:10: routes[0]: must be a mapping, such as \"path: ...\", and is text"},
		{
			"what a route can't do without", "routes:\n- methods: [POST]\n",
			"f.yaml:2:3: routes[0]: has no path, such as /charges\n" +
				"f.yaml:2:3: routes[0]: has no upstream, such as http://127.0.0.1:9000\n" +
				"f.yaml:2:3: routes[0]: has no scope, which says who the caller is: jwt, credential, header or constant",
		},
		{"a misspelt field", route + "  methds: [POST]\n", "f.yaml:5:3: routes[0].methds: is not a known field; did you mean methods?"},
		{"a field in capitals", route + "  Timeout: 3s\n", "f.yaml:5:3: routes[0].Timeout: is not a known field; did you mean timeout?"},
		{"a field like no other", "listeners: 3\n" + route, "f.yaml:1:1: listeners: is not a known field; known here: routes, seal"},
		{"a field twice", route + "  key: required\n  key: optional\n", "f.yaml:6:3: routes[0].key: is there twice; keep one"},
		{"a window without retry", route + "  upstream_window: 24h\n", "f.yaml:5:20: routes[0].upstream_window: has no meaning with unknown: hold; remove it, or write unknown: retry if the upstream knows a repeat by its key"},
		{"retry without a window", route + "  unknown: retry\n", "f.yaml:2:3: routes[0]: has unknown: retry and no upstream_window; say how long the upstream remembers a key, such as 24h"},
		{"too short a window", route + "  unknown: retry\n  upstream_window: 1ms\n", "f.yaml:6:20: routes[0].upstream_window: 1ms is out of bounds; from 1s to 8784h0m0s is allowed"},
		{"too short a retention", route + "  retention: 1s\n", "f.yaml:5:14: routes[0].retention: 1s is out of bounds; from 1m0s to 87840h0m0s is allowed"},
		{"a tombstone shorter than the answer", route + "  retention: 48h\n  tombstone: 24h\n", "f.yaml:6:14: routes[0].tombstone: is 24h0m0s and so shorter than retention (48h0m0s); a key is remembered at least as long as its answer"},
		{"headers", route + "  headers: ['a b', location, Location, connection]\n", "f.yaml:5:13: routes[0].headers[0]: \"a b\" is no name of a header\n" +
			"f.yaml:5:30: routes[0].headers[2]: Location is there twice; keep one\n" +
			"f.yaml:5:40: routes[0].headers[3]: Connection is about one connection and can't be kept"},
		{"a number as a field", route + "  1: 2\n", "f.yaml:5:3: routes[0].1: is no name of a field"},
		{"an anchor", head + "  scope: &s {constant: all}\n", "f.yaml:4:10: routes[0].scope: must be a mapping, such as \"credential: ...\", and is an anchor or alias, which is not supported"},
		{"duplicate", route + "  duplicate: queue\n", "f.yaml:5:14: routes[0].duplicate: \"queue\" is not known; only conflict, wait and accepted are"},
		{"unknown", route + "  unknown: ask\n", "f.yaml:5:12: routes[0].unknown: \"ask\" is not known; only hold and retry are"},
		{"key", route + "  key: maybe\n", "f.yaml:5:8: routes[0].key: \"maybe\" is not known; only required and optional are"},
		{"key: true", route + "  key: true\n", "f.yaml:5:8: routes[0].key: must be text and is true; put it in quotes"},
		{"forward_key", route + "  forward_key: none\n", "f.yaml:5:16: routes[0].forward_key: \"none\" is not known; only derived and raw are"},
		{"a size without sense", route + "  body_max: 1MB\n", "f.yaml:5:13: routes[0].body_max: \"1MB\" is not a size; write 65536, 64KiB, 1MiB or 1GiB"},
		{"no size", route + "  body_max: 0\n", "f.yaml:5:13: routes[0].body_max: 0 is out of bounds; from 1B to 1GiB is allowed"},
		{"too large a size", route + "  response_max: 65MiB\n", "f.yaml:5:17: routes[0].response_max: 65MiB is out of bounds; from 1B to 64MiB is allowed"},
		{"a size that overflows", route + "  body_max: 9999999999GiB\n", "f.yaml:5:13: routes[0].body_max: \"9999999999GiB\" is not a size; write 65536, 64KiB, 1MiB or 1GiB"},
		{"no unit", route + "  timeout: 30\n", "f.yaml:5:12: routes[0].timeout: has no unit; write 30s or 30ms"},
		{"no duration", route + "  timeout: soon\n", "f.yaml:5:12: routes[0].timeout: \"soon\" is not a duration; write 300ms, 30s, 5m or 1h30m"},
		{"a negative duration", route + "  timeout: -1s\n", "f.yaml:5:12: routes[0].timeout: -1s is out of bounds; from 1ms to 24h0m0s is allowed"},
		{"too short a lease", route + "  lease: 1ms\n", "f.yaml:5:10: routes[0].lease: 1ms is out of bounds; from 1s to 1h0m0s is allowed"},
		{"methods", route + "  methods: [post, GET, POST, POST, 'A B', CONNECT, 3]\n", "f.yaml:5:13: routes[0].methods[0]: \"post\" must be in capitals: methods are told apart by case\n" +
			"f.yaml:5:19: routes[0].methods[1]: GET can't take a key; it passes through\n" +
			"f.yaml:5:30: routes[0].methods[3]: POST is there twice; keep one\n" +
			"f.yaml:5:36: routes[0].methods[4]: \"A B\" is not a method\n" +
			"f.yaml:5:43: routes[0].methods[5]: CONNECT can't take a key; it passes through\n" +
			"f.yaml:5:52: routes[0].methods[6]: must be text and is the number 3; put it in quotes"},
		{"no methods", route + "  methods: []\n", "f.yaml:5:12: routes[0].methods: is empty; name at least one, such as \"POST\""},
		{"an empty value", route + "  methods:\n", "f.yaml:5:3: routes[0].methods: must be text, such as \"POST\", and is empty"},
	} {
		t.Run(c.name, func(t *testing.T) { wantFaults(t, c.text, c.want) })
	}
}

func TestFaultsOfPathsUpstreamsAndScopes(t *testing.T) {
	path := func(p string) string {
		return "routes:\n- path: " + p + "\n  upstream: http://a\n  scope: {constant: all}\n"
	}
	upstream := func(u string) string { return "routes:\n- path: /a\n  scope: {constant: all}\n  upstream: " + u + "\n" }
	scope := func(s string) string { return "routes:\n- path: /a\n  upstream: http://a\n  scope: " + s + "\n" }
	for _, c := range []struct{ name, text, want string }{
		{"a method in the path", path("POST /charges"), `f.yaml:2:9: routes[0].path: "POST /charges" has a space; write the path alone, and the methods under methods`},
		{"the gateway's own path", path("/_fifty/status/x"), `f.yaml:2:9: routes[0].path: "/_fifty/status/x" is the gateway's own; choose another path`},
		{"a host in the path", path("example.com/charges"), `f.yaml:2:9: routes[0].path: "example.com/charges" must start with a slash; a host can't be given`},
		{"a broken wildcard", path("/v1/{rest...}/x"), `f.yaml:2:9: routes[0].path: "/v1/{rest...}/x" is no pattern: at offset 4: {...} wildcard not at end`},
		{"one path twice", path("/a") + strings.TrimPrefix(path("/a"), "routes:\n"), `f.yaml:5:9: routes[1].path: "/a" matches requests that routes[0].path "/a" matches too, and neither is more specific; make one route of them`},
		{"two paths that cross", path("/{x}/b") + strings.TrimPrefix(path("/a/{y}"), "routes:\n"), `f.yaml:5:9: routes[1].path: "/a/{y}" matches requests that routes[0].path "/{x}/b" matches too, and neither is more specific; make one route of them`},
		{"no scheme", upstream("127.0.0.1:9000"), `f.yaml:4:13: routes[0].upstream: "127.0.0.1:9000" is not a URL; write http://HOST:PORT or https://HOST`},
		{"another scheme", upstream("ftp://a"), `f.yaml:4:13: routes[0].upstream: "ftp://a" has no scheme that is known; write http://HOST:PORT or https://HOST`},
		{"no host", upstream("http:///a"), `f.yaml:4:13: routes[0].upstream: "http:///a" has no host; write http://HOST:PORT or https://HOST`},
		{"a port too high", upstream("http://a:70000"), `f.yaml:4:13: routes[0].upstream: "http://a:70000" has a port that is none; write http://HOST:PORT or https://HOST`},
		{"a credential", upstream("http://u:p@a"), `f.yaml:4:13: routes[0].upstream: "http://u:p@a" has a credential; callers bring their own, remove it`},
		{"a query", upstream("http://a?b"), `f.yaml:4:13: routes[0].upstream: "http://a?b" has a query or fragment; remove it`},
		{"no way", scope("{with_endpoint: true}"), `f.yaml:4:10: routes[0].scope: names no caller; give one of jwt, credential, header, constant`},
		{"two ways", scope("{constant: a, header: X-A}"), `f.yaml:4:10: routes[0].scope: has constant and header; exactly one can say who the caller is`},
		{"no mapping", scope("credential"), `f.yaml:4:10: routes[0].scope: must be a mapping, such as "credential: ...", and is text`},
		{"an unverified header", scope("{header: authorization}"), `f.yaml:4:19: routes[0].scope.header: Authorization comes from the caller, unverified; use credential or jwt`},
		{"the key's header", scope("{header: idempotency-key}"), `f.yaml:4:19: routes[0].scope.header: Idempotency-Key is the key itself; name the header with the caller's identity`},
		{"a cookie", scope("{credential: {header: cookie}}"), `f.yaml:4:23: routes[0].scope.credential: Cookie differs between retries of one caller; name a header with the credential alone`},
		{"no header name", scope("{header: 'X A'}"), `f.yaml:4:19: routes[0].scope.header: "X A" is no name of a header`},
		{"an empty constant", scope("{constant: ''}"), `f.yaml:4:21: routes[0].scope.constant: is empty; give it a value, such as "everyone"`},
		{"not a truth", scope("{constant: a, with_endpoint: 1}"), `f.yaml:4:39: routes[0].scope.with_endpoint: must be true or false, and is the number 1`},
		{"no keys", scope("{jwt: {claim: sub}}"), `f.yaml:4:16: routes[0].scope.jwt: has no keys; name a file with a JWK set or PEM public keys, since an unverified token identifies nobody`},
		{"no file", scope("{jwt: {keys: absent.json}}"), `f.yaml:4:23: routes[0].scope.jwt.keys: can't be read: stat absent.json: no such file or directory`},
		{"none", scope("{jwt: {keys: absent.json, algorithms: [none, XX]}}"), `f.yaml:4:23: routes[0].scope.jwt.keys: can't be read: stat absent.json: no such file or directory` + "\n" +
			`f.yaml:4:49: routes[0].scope.jwt.algorithms[0]: "none" would accept forged tokens; name RS256, ES256 or EdDSA` + "\n" +
			`f.yaml:4:55: routes[0].scope.jwt.algorithms[1]: "XX" is not known; known: RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512, EdDSA, HS256, HS384, HS512`},
	} {
		t.Run(c.name, func(t *testing.T) { wantFaults(t, c.text, c.want) })
	}
}

func TestFaultsOfSealingKeys(t *testing.T) {
	dir := t.TempDir()
	good := write(t, dir, "good.key", strings.Repeat("k", 32))
	short := write(t, dir, "short.key", "secret")
	large := write(t, dir, "large.key", strings.Repeat("k", sealFileMax+1))
	seal := func(s string) string {
		return "routes:\n- path: /a\n  upstream: http://a\n  scope: {constant: all}\nseal: " + s + "\n"
	}
	const makeOne = "make one with: head -c 32 /dev/urandom > FILE"
	for _, c := range []struct{ name, text, want string }{
		{"no mapping", seal("x"), `f.yaml:5:7: seal: must be a mapping, such as "keys: ...", and is text`},
		{"no keys", seal("{}"), "f.yaml:5:7: seal: has no keys; give a list of id and file, the one that seals first"},
		{"no list", seal("{keys: x}"), `f.yaml:5:14: seal.keys: must be a list, each entry like "- {id: "2026", file: 2026.key}", and is text`},
		{"an empty ring", seal("{keys: []}"), "f.yaml:5:14: seal.keys: is empty; give at least the key that seals, or remove seal"},
		{"no id", seal("{keys: [{file: " + good + "}]}"), `f.yaml:5:15: seal.keys[0]: has no id, such as "2026"; it is stored with each answer that the key seals`},
		{"no file", seal("{keys: [{id: a}]}"), "f.yaml:5:15: seal.keys[0]: has no file, with 32 random bytes, as they are or in base64"},
		{"one id twice", seal("{keys: [{id: a, file: " + good + "}, {id: a, file: " + good + "}]}"), fmt.Sprintf(`f.yaml:5:%d: seal.keys[1].id: "a" names a key before; each key has an id of its own`, 37+len(good))},
		{"a file that is not there", seal("{keys: [{id: a, file: /absent.key}]}"), "f.yaml:5:29: seal.keys[0].file: can't be read: open /absent.key: no such file or directory"},
		{"a key that is too short", seal("{keys: [{id: a, file: " + short + "}]}"), "f.yaml:5:29: seal.keys[0].file: " + short + " has 6 bytes, which are neither 32 bytes nor 32 bytes in base64; " + makeOne},
		{"a file that is too large", seal("{keys: [{id: a, file: " + large + "}]}"), "f.yaml:5:29: seal.keys[0].file: is too large for a key of 32 bytes; " + makeOne},
		{"an id that can't be one", seal("{keys: [{id: 'ä', file: " + good + "}]}"), `f.yaml:5:7: seal: keys have an ID "ä"; it must be 1 to 100 printable ASCII characters`},
	} {
		t.Run(c.name, func(t *testing.T) { wantFaults(t, c.text, c.want) })
	}
}

func wantFaults(t *testing.T, text, want string) {
	t.Helper()
	cfg, err := ParseConfig("f.yaml", []byte(text))
	if err == nil {
		t.Fatalf("taken as %+v, want\n%s", cfg, want)
	}
	if _, ok := errors.AsType[*ConfigError](err); !ok {
		t.Errorf("the error is a %T", err)
	}
	if err.Error() != want {
		t.Errorf("got\n%s\nwant\n%s", err, want)
	}
}

func TestManyFaultsAreBounded(t *testing.T) {
	_, err := ParseConfig("f.yaml", []byte("routes:\n"+strings.Repeat("- x\n", 200)))
	cfg, ok := errors.AsType[*ConfigError](err)
	if !ok || len(cfg.Faults) != faultsMax+1 {
		t.Fatalf("got %v", err)
	}
	if last := cfg.Faults[len(cfg.Faults)-1].Problem; last != "more faults follow; mend these first" {
		t.Errorf("the last says %q", last)
	}
}

func TestFilesAreNamedRelativeToTheConfiguration(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "secret.json", `{"kty":"oct","kid":"a","k":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"}`)
	name := write(t, dir, "fifty.yaml", "routes:\n- path: /a\n  upstream: http://a\n  scope: {jwt: {keys: secret.json, algorithms: HS256}}\n")
	cfg, err := LoadConfig(name)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := cfg.Routes[0].Scope.JWT.KeysFile, filepath.Join(dir, "secret.json"); got != want {
		t.Errorf("keys from %s, want %s", got, want)
	}
}

func TestAConfigurationThatCanNotBeReadIsNamed(t *testing.T) {
	dir := t.TempDir()
	large := write(t, dir, "large.yaml", strings.Repeat("#", configBytesMax+1))
	for name, want := range map[string]string{
		filepath.Join(dir, "absent.yaml"): "no such file",
		dir:                               "is a folder; name the YAML file in it",
		large:                             "at most 1048576 are allowed",
	} {
		if _, err := LoadConfig(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q in it", name, err, want)
		}
	}
}

func TestAProxyIsOneRouteForAll(t *testing.T) {
	cfg, err := ProxyConfig("http://127.0.0.1:9000/base", ScopeRule{Kind: ScopeCredential, Header: "Authorization"})
	if err != nil {
		t.Fatal(err)
	}
	r := cfg.Routes[0]
	if len(cfg.Routes) != 1 || r.Path != "/" || !r.keyed(http.MethodPost) || !r.keyed(http.MethodPatch) || r.keyed(http.MethodPut) {
		t.Errorf("got %s", r.Summary())
	}
	if r.Key != KeyRequired || r.Timeout != 5*time.Minute {
		t.Errorf("got %s", r.Summary())
	}
	if _, err := ProxyConfig("localhost", ScopeRule{}); err == nil || !strings.Contains(err.Error(), "write http://HOST:PORT") {
		t.Errorf("a wrong URL gives %v", err)
	}
}

func TestSizesAreReadAndWritten(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "7": 7, "7B": 7, "7 B": 7, "2KiB": 2048, "1MiB": 1 << 20, "3GiB": 3 << 30} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "B", "-1", "1.5MiB", "MiB", "1kib", "0x10", "1_000", "9223372036854775808"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("%q is taken as %d", text, got)
		}
	}
	for n, want := range map[int64]string{0: "0B", 1: "1B", 1024: "1KiB", 1025: "1025B", 1 << 20: "1MiB", 3 << 30: "3GiB"} {
		if got := formatSize(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

// FuzzConfig: no text ends the process, and what is taken can be served.
func FuzzConfig(f *testing.F) {
	f.Add(wholeConfig)
	f.Add("routes: []")
	f.Add("routes:\n- path: /{a}\n  upstream: http://a\n  scope: {constant: x}\n")
	f.Add("? [a]\n: &b *b\n")
	f.Fuzz(func(t *testing.T, text string) {
		cfg, err := ParseConfig("fifty.yaml", []byte(text))
		if err != nil {
			if faults, ok := errors.AsType[*ConfigError](err); !ok || len(faults.Faults) == 0 {
				t.Fatalf("an error without faults: %v", err)
			}
			return
		}
		mux := http.NewServeMux()
		for _, r := range cfg.Routes {
			if r.Upstream == nil || r.Scope.Kind == "" || len(r.Methods) == 0 {
				t.Fatalf("taken, but not whole: %+v", r)
			}
			if problem := register(mux, r.Path); problem != "" {
				t.Fatalf("taken, but can't be served: %s", problem)
			}
			_ = r.Summary()
		}
	})
}

func write(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
