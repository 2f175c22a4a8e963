package retry_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/retry"
)

func TestAfterIsTransparent(t *testing.T) {
	if retry.After(time.Second, nil) != nil {
		t.Error("After(1s, nil) is an error")
	}
	err := retry.After(time.Second, fmt.Errorf("429: %w", fifty.ErrUnknownOutcome))
	wantIs(t, err, fifty.ErrUnknownOutcome)
	if err.Error() != errors.Unwrap(err).Error() {
		t.Errorf("After changed the message to %q", err)
	}
}

func TestPushBackIsFoundWhereverItIsWrapped(t *testing.T) {
	for name, err := range map[string]error{
		"wrapped": fmt.Errorf("charge: %w", retry.After(9*time.Second, errDown)),
		"joined":  errors.Join(errDown, retry.After(9*time.Second, errDown)),
		"nested":  retry.After(9*time.Second, retry.After(time.Second, errDown)),
	} {
		clock := &manualClock{}
		fn, _ := failing(err)
		if err := retry.Do(t.Context(), retry.Policy{Base: 1, Clock: clock, Jitter: most}, fn); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if want := []time.Duration{9*time.Second + 1}; !slices.Equal(clock.waits, want) {
			t.Errorf("%s: waited %v, want %v", name, clock.waits, want)
		}
	}
}

func TestPastPushBackIsNone(t *testing.T) {
	for _, past := range []time.Duration{0, -1, math.MinInt64} {
		clock := &manualClock{}
		fn, _ := failing(retry.After(past, errDown))
		err := retry.Do(t.Context(), retry.Policy{Base: time.Second, Clock: clock, Jitter: most}, fn)
		if err != nil || !slices.Equal(clock.waits, []time.Duration{time.Second}) {
			t.Errorf("After(%v) waited %v (%v), want 1s", past, clock.waits, err)
		}
	}
}

func TestParseAfter(t *testing.T) {
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.FixedZone("", 3600)) // 11:00 in UTC
	table := []struct {
		header string
		want   time.Duration
		ok     bool
	}{
		{"0", 0, true},
		{"120", 2 * time.Minute, true},
		{" 120\t", 2 * time.Minute, true},
		{"007", 7 * time.Second, true},
		{"9223372036", 9223372036 * time.Second, true},
		{"9223372037", forever, true}, // one second more than a Duration holds
		{"18446744073709551616", forever, true},
		{"99999999999999999999999999999999", forever, true},
		{"Sun, 01 Mar 2026 11:00:30 GMT", 30 * time.Second, true},
		{"Sunday, 01-Mar-26 11:00:30 GMT", 30 * time.Second, true},
		{"Sun Mar  1 11:00:30 2026", 30 * time.Second, true},
		{"Sun, 01 Mar 2026 11:00:00 GMT", 0, true},
		{"Sun, 01 Mar 2026 10:59:59 GMT", 0, true},
		{"Mon, 01 Jan 0001 00:00:00 GMT", 0, true},
		{"Fri, 31 Dec 9999 23:59:59 GMT", forever, true},
		{"", 0, false},
		{" ", 0, false},
		{"-1", 0, false},
		{"+1", 0, false},
		{"1.5", 0, false},
		{"1e3", 0, false},
		{"1_000", 0, false},
		{"0x10", 0, false},
		{"10s", 0, false},
		{"1, 2", 0, false},
		{"soon", 0, false},
		{"١٢", 0, false}, // digits, but not of ASCII
		{"Sun, 01 Mar 2026 11:00:30 EST", 0, false},
		{"Sun, 32 Mar 2026 11:00:30 GMT", 0, false},
		{"2026-03-01T11:00:30Z", 0, false},
	}
	for _, tt := range table {
		if got, ok := retry.ParseAfter(tt.header, now); got != tt.want || ok != tt.ok {
			t.Errorf("ParseAfter(%q) = %v, %v; want %v, %v", tt.header, got, ok, tt.want, tt.ok)
		}
	}
}
