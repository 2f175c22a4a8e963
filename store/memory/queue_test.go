package memory

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A queue must give the turns back in the order of their times, those of one time in the order in which they
// came, whatever the order in which they were put in and however many stand in it.
func TestQueueGivesTurnsInTheOrderOfTheirTimes(t *testing.T) {
	order := rand.New(rand.NewPCG(1, 2))
	for name, at := range map[string]func(i int) int{
		"as they come":       func(i int) int { return i },
		"all at once":        func(int) int { return 0 },
		"backwards":          func(i int) int { return -i },
		"some much later":    func(i int) int { return i + i%7*1000 },
		"in no order at all": func(int) int { return order.IntN(3000) },
	} {
		var q queue
		var want []turn
		take := func(n int) {
			t.Helper()
			var taken []turn
			for range n {
				got, ok := q.first()
				if !ok || got != want[0] {
					t.Fatalf("%s: got %v, %v, want %v", name, got.at, ok, want[0].at)
				}
				q.drop()
				taken, want = append(taken, got), want[1:]
			}
			if half := len(taken) / 2; n%2 == 0 { // a transaction was at work on some
				q.putBack(taken[half:])
				want = slices.Concat(taken[half:], want)
			}
		}
		for i := range 5 * chunkTurns {
			next := turn{e: &entry{}, at: moment(at(i))}
			q.add(next)
			place := len(want)
			for place > 0 && want[place-1].at > next.at {
				place--
			}
			want = slices.Insert(want, place, next)
			if i%1000 == 999 {
				take(300 + i/1000)
			}
		}
		for len(want) > 0 {
			take(1)
		}
		if _, ok := q.first(); ok {
			t.Errorf("%s: more came out than was put in", name)
		}
	}
}
