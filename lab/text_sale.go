package lab

import (
	"fmt"
	"strconv"
)

// numbers are what was shown of a sale.
type numbers struct {
	headed  bool // the columns have their names
	last    Tick
	any     bool // there is a last one
	printed Tick // the last one that has a line for good
}

// secondMS is when the numbers get a line for good: once in a second.
const secondMS = 1000

// Tick prints the numbers once in a second, and shows them in the live line meanwhile.
func (t *Text) Tick(k Tick) {
	n := &t.numbers
	n.last, n.any = k, true
	if newSecond(k, n.printed) {
		t.printTick()
		return
	}
	t.live(tickLine(k, n.printed))
}

// lastTick prints the last numbers, if they have no line yet.
func (t *Text) lastTick() {
	if t.numbers.any && t.numbers.printed != t.numbers.last {
		t.printTick()
	}
}

func (t *Text) printTick() {
	n := &t.numbers
	t.flush() // what led to them comes first
	if !n.headed {
		n.headed = true
		t.printf("%s\n", t.paint(faint, fmt.Sprintf("%11s  %9s  %9s  %9s  %9s  %11s", "", "tried", "sold", "refused", "left", "answers/s")))
	}
	t.printf("%s\n", tickLine(n.last, n.printed))
	n.printed = n.last
}

// tickLine is the numbers of a moment, and how many answers there were in a second since the line before.
func tickLine(k, before Tick) string {
	return fmt.Sprintf("%8.1f ms  %9s  %9s  %9s  %9s  %11s",
		k.AtMS, grouped(k.Tried), grouped(k.Sold), grouped(k.Refused), grouped(k.Left), grouped(int(k.rate(before))))
}

// newSecond says whether k is the first in its second, when before was the last that was shown.
func newSecond(k, before Tick) bool { return int(k.AtMS)/secondMS > int(before.AtMS)/secondMS }

// rate is how many answers there were in a second, since an earlier look.
func (k Tick) rate(before Tick) float64 {
	since := k.AtMS - before.AtMS
	if since <= 0 {
		return 0
	}
	return float64(k.Sold+k.Refused-before.Sold-before.Refused) / since * secondMS
}

// grouped is a number with its thousands apart: "12,500".
func grouped(n int) string {
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
