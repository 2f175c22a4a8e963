package lab

import (
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/inventory"
)

func TestARunThatMustBeRightIsAFaultWhenAnythingIsOff(t *testing.T) {
	t.Parallel()
	right := counts{ledger: ledger{Taken: 1}, sold: 1, books: books{supply: 1, sold: 1}}
	twice := right
	twice.sold = 2
	off := right
	off.books.faults = []inventory.Fault{{SKU: mug, What: "sold", Level: 1}}
	for _, c := range []struct {
		name  string
		n     counts
		right bool
		want  bool
	}{
		{"as it must be", right, true, false},
		{"the story went otherwise", right, false, true},
		{"a ticket that the books don't know", twice, true, true},
		{"a fault of the ledger", off, true, true},
	} {
		c.n.off = c.n.books.off(c.n.sold)
		if v := c.n.verdict("fine", c.right); v.Fault != c.want || v.Fault == (v.Text == "fine") {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
}

func TestTimesAreForPeople(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{10 * time.Minute: "10 min", time.Second: "1 s", 90 * time.Second: "90 s", 300 * time.Millisecond: "300 ms"} {
		if got := span(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
