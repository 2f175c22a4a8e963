package lab

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"
)

// arrivals are what happens at a minute of the story: the first request and its two late repeats.
var arrivals = []struct {
	minute int
	what   string
}{
	{0, "the client asks; the answer is lost on its way"},
	{retryMinute, "the client wakes up and asks again"},
	{replayMinute, "an operator replays the dead letter"},
}

// tellStory plays the arrivals, each at its minute by the database's clock and on another host. The minutes
// count from the end of the first one's work.
func tellStory(ctx context.Context, s *Stage, arrive func(ctx context.Context, nth int, h *Host) error) error {
	s.Tell("a minute of the story takes %d ms", storyMinute.Milliseconds())
	order := s.Shuffled()
	var zero time.Time
	for i, at := range arrivals {
		if i > 0 {
			if err := s.WaitUntil(ctx, zero.Add(minutes(at.minute)), fmt.Sprintf("minute %d of the story", at.minute)); err != nil {
				return err
			}
		}
		s.Tell("minute %d: %s", at.minute, at.what)
		if err := arrive(ctx, i, order[i%len(order)]); err != nil {
			return err
		}
		if i == 0 {
			var err error
			if zero, err = s.Now(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func playSeen(ctx context.Context, s *Stage) (Verdict, error) {
	err := tellStory(ctx, s, func(ctx context.Context, _ int, h *Host) error {
		_, err := Ask[reply](ctx, h, "seen", anOrder)
		return err
	})
	if err != nil {
		return Verdict{}, err
	}
	n, err := s.charges(ctx, anOrder.Order)
	return Verdict{Fault: n > 1, Text: fmt.Sprintf("%s for one order", counted(n, "charge")), Figures: map[string]int{"charges": n}}, err
}

func playWide(ctx context.Context, s *Stage) (Verdict, error) {
	w := windowed{purchase: anOrder, Retention: minutes(day), Tombstone: minutes(30 * day)}
	var first keyed
	same := 0
	err := tellStory(ctx, s, func(ctx context.Context, nth int, h *Host) error {
		if nth > 0 {
			if _, err := Ask[swept](ctx, h, "sweep", w); err != nil {
				return err
			}
		}
		out, err := Ask[keyed](ctx, h, "key", w)
		if nth == 0 {
			first = out
		}
		if out.Charge == first.Charge && out.Charge != "" {
			same++
		}
		return err
	})
	if err != nil {
		return Verdict{}, err
	}
	n, err := s.charges(ctx, anOrder.Order)
	return Verdict{
		Fault: n != 1 || same != len(arrivals), Text: fmt.Sprintf("%s, %s got the same answer", counted(n, "charge"), counted(same, "arrival")),
		Figures: map[string]int{"charges": n, "same_answer": same},
	}, err
}

func playTombstone(ctx context.Context, s *Stage) (Verdict, error) {
	w := windowed{purchase: anOrder, Retention: minutes(seenMinutes), Tombstone: minutes(30 * day)}
	return playRefused(ctx, s, w, "tombstone")
}

// playTimeOrdered is over when the tombstone is: then only the key itself can tell that it is old.
func playTimeOrdered(ctx context.Context, s *Stage) (Verdict, error) {
	w := windowed{purchase: anOrder, Retention: minutes(seenMinutes), Tombstone: minutes(30), MakeKey: true}
	return playRefused(ctx, s, w, "")
}

// freshTries bounds how often a key is made anew: one that is older than its window when it arrives, on a very
// slow machine, was never claimed.
const freshTries = 5

// playRefused tells the story with a sweep before each repeat. left is what it must find after the last one.
func playRefused(ctx context.Context, s *Stage, w windowed, left string) (Verdict, error) {
	refused, state := 0, ""
	err := tellStory(ctx, s, func(ctx context.Context, nth int, h *Host) error {
		if nth > 0 {
			after, err := Ask[swept](ctx, h, "sweep", w)
			if err != nil {
				return err
			}
			state = after.State
		}
		for range freshTries {
			out, err := Ask[keyed](ctx, h, "key", w)
			if err != nil {
				return err
			}
			if nth == 0 && out.Told == toldExpired {
				continue
			}
			if nth == 0 {
				w.Key, w.MakeKey = out.Key, false
			}
			if out.Told == toldExpired {
				refused++
			}
			return nil
		}
		return fmt.Errorf("this machine is too slow for a story whose minutes take %v", storyMinute)
	})
	if err != nil {
		return Verdict{}, err
	}
	n, err := s.charges(ctx, anOrder.Order)
	return Verdict{
		Fault:   n != 1 || refused != len(arrivals)-1 || state != left,
		Text:    fmt.Sprintf("%s, %s refused instead of run again", counted(n, "charge"), counted(refused, "late arrival")),
		Figures: map[string]int{"charges": n, "refused": refused},
	}, err
}

func playNatural(ctx context.Context, s *Stage) (Verdict, error) {
	paid := 0
	err := tellStory(ctx, s, func(ctx context.Context, nth int, h *Host) error {
		out, err := Ask[reply](ctx, h, "natural", anOrder)
		if nth > 0 && out.Replayed {
			paid++
		}
		return err
	})
	if err != nil {
		return Verdict{}, err
	}
	n, err := s.charges(ctx, anOrder.Order)
	return Verdict{
		Fault:   n != 1 || paid != len(arrivals)-1,
		Text:    fmt.Sprintf("%s, %s found it paid, however late", counted(n, "charge"), counted(paid, "arrival")),
		Figures: map[string]int{"charges": n, "found": paid},
	}, err
}

// timeOrderedKey is a UUIDv7: 48 bits of time, the rest by chance.
func timeOrderedKey(now time.Time) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	for i, ms := 5, now.UnixMilli(); i >= 0; i-- {
		b[i] = byte(ms)
		ms >>= 8
	}
	b[6] = b[6]&0x0f | 0x70
	b[8] = b[8]&0x3f | 0x80
	text := hex.EncodeToString(b[:])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}
