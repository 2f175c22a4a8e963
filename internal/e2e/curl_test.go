package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/fiftyhosts/fifty/server/sandbox"
)

// TestCurlRetryChargesOnce: curl's own retries, with a key that was made once, over a network that fails
// in three ways before it works.
func TestCurlRetryChargesOnce(t *testing.T) {
	t.Parallel()
	gateway := startServe(t, sqliteURL(t))
	wire := newRelay(t, gateway.url, scripted(pass, loseRequest, dropReply, cutReply))
	got := filepath.Join(t.TempDir(), "answer")
	out, err := exec.CommandContext(t.Context(), curlBinary(t),
		"--silent", "--show-error", "--fail-with-body", "--max-time", "20",
		"--retry", "5", "--retry-all-errors", "--output", got,
		"-H", "Authorization: "+credential, "-H", "Idempotency-Key: order-1",
		"-H", "Content-Type: application/json", "-d", `{"account":"alice","amount":1200,"currency":"EUR"}`,
		wire.url+"/charges").CombinedOutput()
	if err != nil {
		t.Fatalf("curl: %v\n%s", err, out)
	}
	text, err := os.ReadFile(got)
	if err != nil {
		t.Fatal(err)
	}
	var answered sandbox.Charge
	if err := json.Unmarshal(text, &answered); err != nil {
		t.Fatalf("curl got %q: %v", text, err)
	}
	booked := ledger(t, gateway.url, "alice")
	if len(booked) != 1 || booked[0] != answered {
		t.Errorf("booked are %+v, curl got %+v", booked, answered)
	}
	if did := wire.counts(); did[loseRequest] != 1 || did[dropReply] != 1 || did[cutReply] != 1 || did[pass] == 0 {
		t.Errorf("the network did %v, want one fault of each kind and then no more", did)
	}
}
