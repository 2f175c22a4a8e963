package idempotencyhttp

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A host of the next release must take the retry of a request that a host of this one has seen for the same
// request. When this test fails, live keys turn into mismatches on an upgrade: what goes into a fingerprint
// may only change together with its version.
func TestDeployDoesNotChangeTheFingerprint(t *testing.T) {
	for name, c := range map[string]struct{ media, body, want string }{
		"JSON":             {"application/json; charset=utf-8", `{"b":1, "a":[true]}`, "01dfc197bc4497cff5672559b15b270fe43e10110aeec5901f5ed176f8ea4f3535"},
		"JSON that is cut": {"application/vnd.api+json", `{"b":1`, "014f7514ab66914694aca97a08850412dda5ea110f6eafcdc61844cfa8dc6ad7ce"},
		"a form":           {"application/x-www-form-urlencoded", "b=1&a=2", "0199f316a8ab17484460bf83a0996668bf0b93c954e44b0526a7688b0930bd4bdd"},
		"no body, no type": {"", "", "010a5c3fcb59e3f46c6c46d9cfbe21ef277d422802fe1d7b54b06b9e4492e28c9f"},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, "/a%2Fb?x=1&y", strings.NewReader(c.body))
			r.Header.Set("Content-Type", c.media)
			b, err := readBody(httptest.NewRecorder(), r, BodyMaxDefault, MemoryMaxDefault)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := fingerprint(r, b); err != nil || got.String() != c.want {
				t.Fatalf("%v, %v; want %s", got, err, c.want)
			}
		})
	}
}
