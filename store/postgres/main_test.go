package postgres_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// These tests wait for their server and for each other's locks, most of the time, and not for a processor.
	if err := flag.Set("test.parallel", "6"); err != nil { // go test's own -parallel comes later, and counts
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
