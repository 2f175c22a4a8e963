package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// keyRecord is what `fifty keys list --json` and `fifty keys show --json` say of a key, as far as these tests
// read it.
type keyRecord struct {
	Scope      string
	Key        string
	State      string
	Unresolved bool
	Decisions  []struct{ By, Note string }
}

// operate runs `fifty keys` with the given arguments and returns what it wrote. It must succeed.
func operate(tb testing.TB, database string, args ...string) string {
	tb.Helper()
	p := start(tb, append(append([]string{"keys"}, args...), "--db", database)...)
	if code := p.exitCode(); code != 0 {
		tb.Fatalf("%s: exit code %d; it wrote:\n%s", p.host.Name(), code, p.log())
	}
	return p.host.Text()
}

// unresolvedKeys is what an operator is shown as waiting for a decision.
func unresolvedKeys(tb testing.TB, database string) map[string]keyRecord {
	tb.Helper()
	text := operate(tb, database, "list", "--unresolved", "--json")
	var list struct {
		Records []keyRecord
		After   string
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil || list.After != "" {
		tb.Fatalf("keys list wrote (%v):\n%s", err, text)
	}
	found := map[string]keyRecord{}
	for _, rec := range list.Records {
		if !rec.Unresolved {
			tb.Errorf("listed as unresolved: %+v", rec)
		}
		found[rec.Key] = rec
	}
	return found
}

// unresolvedKey is the one key that waits for a decision.
func unresolvedKey(tb testing.TB, database, key string) keyRecord {
	tb.Helper()
	all := unresolvedKeys(tb, database)
	rec, ok := all[key]
	if !ok || len(all) != 1 {
		tb.Fatalf("unresolved are %v, want %s alone", all, key)
	}
	return rec
}

// resolve gives a key its answer, as an operator does.
func (rec keyRecord) resolve(tb testing.TB, database string, status int, body string) {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "answer.json")
	if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
		tb.Fatal(err)
	}
	operate(tb, database, "resolve", rec.Key, "--scope", rec.Scope, "--status", strconv.Itoa(status),
		"--body", file, "--header", "Content-Type: application/json", "--by", "carol", "--note", "it is in the ledger")
}

// release frees a key, as an operator does.
func (rec keyRecord) release(tb testing.TB, database string) {
	tb.Helper()
	operate(tb, database, "release", rec.Key, "--scope", rec.Scope, "--by", "carol", "--note", "it is not in the ledger", "--yes")
}

// show reads all that is known of a key.
func (rec keyRecord) show(tb testing.TB, database string) keyRecord {
	tb.Helper()
	text := operate(tb, database, "show", rec.Key, "--scope", rec.Scope, "--json")
	var shown keyRecord
	if err := json.Unmarshal([]byte(text), &shown); err != nil {
		tb.Fatalf("keys show wrote (%v):\n%s", err, text)
	}
	return shown
}
