package server

import (
	"net/http"
	"os"
	"strings"
	"testing"
)

// TestTheGatewaysOwnProblemsAreDocumented: docs/problems.md has a section for each, and its example is what is
// sent.
func TestTheGatewaysOwnProblemsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/problems.md")
	if err != nil {
		t.Fatal(err)
	}
	dead := startUpstream(t, created)
	dead.Close()
	optional := func(r *Route) { r.Key = KeyOptional }
	nowhere := startGate(t, dead.URL, optional)
	for name, got := range map[string]answer{
		"upstream-unreachable": nowhere.send(t, http.MethodPost, "/charges", "k1", "{}"),
		"upstream-failed":      startGate(t, startUpstream(t, hangUp).URL, optional).send(t, http.MethodPost, "/charges", "", "{}"),
		"no-route":             startGate(t, dead.URL, func(r *Route) { r.Path = "/charges" }).send(t, http.MethodGet, "/absent", "", ""),
	} {
		_, section, ok := strings.Cut(string(text), "\n## "+name+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		detail := find(t, got.body, `"detail":("(?:[^"\\]|\\.)*")`)
		if !ok || got.problem() != name || !strings.Contains(section, http.StatusText(got.status)) || !strings.Contains(section, detail) {
			t.Errorf("%s: the document does not have what is sent: %+v", name, got)
		}
	}
}
