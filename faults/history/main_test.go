package history_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/fiftyhosts/fifty/faults/history"
)

// The test binary is also the program of the other processes: each records one operation in its output.
const childClient = "FIFTY_HISTORY_TEST_CLIENT"

func TestMain(m *testing.M) {
	if name := os.Getenv(childClient); name != "" {
		rec := history.NewRecorder[string, int](os.Stdout)
		rec.Begin(7, "key", "by "+name).End(1)
		rec.Begin(7, "key", "dropped").Drop()
		rec.Begin(7, "key", "cut off by "+name)
		if _, err := rec.History(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
