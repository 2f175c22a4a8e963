package redis

import (
	"strconv"
	"strings"
	"time"

	"github.com/fiftyhosts/fifty/inventory"
)

// nul ends names, which have none in them; two of them end a section.
const nul = "\x00"

// What fields of holds and deliveries begin with.
const (
	holdField     = nul + "h"
	deliveryField = nul + "d"
)

// itemsText is SKU and quantity of each, in order: equal items have equal texts.
func itemsText(items inventory.Items) string {
	if len(items) == 1 {
		for sku, quantity := range items {
			return sku + nul + strconv.FormatInt(quantity, 10)
		}
	}
	var b strings.Builder
	for i, sku := range items.SKUs() {
		if i > 0 {
			b.WriteString(nul)
		}
		b.WriteString(sku)
		b.WriteString(nul)
		b.WriteString(strconv.FormatInt(items[sku], 10))
	}
	return b.String()
}

// words reads names and numbers, one after another. An error sticks.
type words struct {
	rest string
	bad  bool
}

func (w *words) more() bool { return w.rest != "" && !w.bad }

func (w *words) name() string {
	name, rest, _ := strings.Cut(w.rest, nul)
	w.rest = rest
	w.bad = w.bad || name == ""
	return name
}

func (w *words) number() int64 {
	n, err := strconv.ParseInt(w.name(), 10, 64)
	w.bad = w.bad || err != nil
	return n
}

func (w *words) items() inventory.Items {
	items := inventory.Items{}
	for w.more() {
		sku := w.name()
		items[sku] = w.number()
	}
	return items
}

// parseItems reads an itemsText.
func parseItems(text string) (inventory.Items, bool) {
	w := words{rest: text}
	items := w.items()
	return items, !w.bad && len(items) > 0
}

// parseRecord reads a hold as the scripts store it: "state expires reserved", items, and then, if there is any
// of it, sold items that are others, what was short, and the log.
func parseRecord(id, text string) (*inventory.Record, bool) {
	head, rest, _ := strings.Cut(text, nul)
	sections := strings.SplitN(rest, nul+nul, 4)
	numbers := strings.Split(head, " ")
	if len(numbers) != 3 || len(sections) == 2 || len(sections) == 3 {
		return nil, false
	}
	state, err1 := strconv.Atoi(numbers[0])
	expires, err2 := strconv.ParseInt(numbers[1], 10, 64)
	reserved, err3 := strconv.ParseInt(numbers[2], 10, 64)
	items, ok := parseItems(sections[0])
	if err1 != nil || err2 != nil || err3 != nil || !ok {
		return nil, false
	}
	r := &inventory.Record{
		ID: id, Items: items, State: inventory.State(state), Expires: expires, Reserved: time.UnixMicro(reserved),
	}
	sold := items
	if len(sections) == 4 {
		if sections[1] != "" {
			if sold, ok = parseItems(sections[1]); !ok {
				return nil, false
			}
		}
		if !parseRest(r, sections[2], sections[3], sold) {
			return nil, false
		}
	}
	switch r.State {
	case inventory.Held:
		r.Parts = partsOf(items)
	case inventory.Confirmed:
		r.Parts = partsOf(sold)
	default: // nothing is held any more
	}
	return r, true
}

// parseRest reads what was short and the log.
func parseRest(r *inventory.Record, short, log string, sold inventory.Items) bool {
	if short != "" {
		w := words{rest: short}
		r.Short = inventory.SoldOut{SKU: w.name(), Wanted: w.number(), Available: w.number()}
		if w.bad {
			return false
		}
	}
	w := words{rest: log}
	for w.more() {
		e := inventory.Entry{What: w.name(), Items: r.Items, At: time.UnixMicro(w.number()), Times: int(w.number())}
		if e.What == "confirmed" {
			e.Items = sold
		}
		r.Log = append(r.Log, e)
	}
	return !w.bad
}

func partsOf(items inventory.Items) []inventory.Part {
	parts := make([]inventory.Part, 0, len(items))
	for _, sku := range items.SKUs() {
		parts = append(parts, inventory.Part{BucketID: inventory.BucketID{SKU: sku}, Quantity: items[sku]})
	}
	return parts
}

// parseClock reads Redis's clock: "seconds microseconds".
func parseClock(text string) (time.Time, bool) {
	seconds, micros, _ := strings.Cut(text, " ")
	s, err1 := strconv.ParseInt(seconds, 10, 64)
	u, err2 := strconv.ParseInt(micros, 10, 64)
	return time.Unix(s, u*int64(time.Microsecond)), err1 == nil && err2 == nil
}

// ttlText is a time to live in seconds and microseconds, rounded up.
func ttlText(ttl time.Duration) string {
	micros := (ttl%time.Second + time.Microsecond - 1) / time.Microsecond
	return strconv.FormatInt(int64(ttl/time.Second), 10) + " " + strconv.FormatInt(int64(micros), 10)
}
