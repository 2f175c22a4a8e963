package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/fiftyhosts/fifty/inventory"
)

// sweepRoundsMax bounds the scripts of one Sweep, each of which looks at about 1,000 SKUs and holds.
const sweepRoundsMax = 1000

// Availability reads the levels; see inventory.Store. More than 1,000 SKUs are read in several scripts.
func (s Stock) Availability(ctx context.Context, skus []string) ([]inventory.Level, error) {
	levels := make([]inventory.Level, 0, len(skus))
	for len(skus) > 0 {
		part := skus[:min(len(skus), asksMax)]
		skus = skus[len(part):]
		reply, err := s.store.run(ctx, availabilityScript, part)
		if err != nil {
			return nil, err
		}
		for i, m := range reply {
			text, err := m.ToString()
			l := inventory.Level{SKU: part[min(i, len(part)-1)]}
			if err == nil {
				_, err = fmt.Sscanf(text, "%d %d %d %d", &l.Supply, &l.Available, &l.Held, &l.Sold)
			}
			if err != nil {
				return nil, garbled(availabilityScript.name, text)
			}
			levels = append(levels, l)
		}
		if len(reply) < len(part) {
			return nil, &inventory.UnknownSKUError{SKU: part[len(reply)]}
		}
	}
	return levels, nil
}

// History returns what happened to a hold; see inventory.LedgerStore.
func (s Stock) History(ctx context.Context, id string) ([]inventory.Entry, error) {
	reply, err := s.store.run(ctx, historyScript, []string{holdField + id})
	if err != nil {
		return nil, err
	}
	if len(reply) != 2 {
		return nil, garbled(historyScript.name, strconv.Itoa(len(reply)))
	}
	clock, err1 := reply[0].ToString()
	text, err2 := reply[1].ToString()
	if err1 != nil || err2 != nil {
		return nil, garbled(historyScript.name, clock)
	}
	if text == "" {
		return nil, inventory.ErrNotFound
	}
	now, ok1 := parseClock(clock)
	r, ok2 := parseRecord(id, text)
	if !ok1 || !ok2 {
		return nil, garbled(historyScript.name, text)
	}
	return r.History(now), nil
}

// Check adds up the books; see inventory.LedgerStore. Redis does nothing else meanwhile; see Config.CheckMax. A
// fault without a SKU says that an index of the records has too few or too many.
func (s Stock) Check(ctx context.Context) ([]inventory.Fault, error) {
	reply, err := s.store.run(ctx, checkScript, []string{strconv.Itoa(s.store.checkMax), strconv.Itoa(inventory.FaultsMax)})
	if err != nil {
		return nil, err
	}
	if len(reply) == 0 {
		return nil, garbled(checkScript.name, "nothing")
	}
	if many, err := reply[0].AsInt64(); err != nil || many != 0 {
		return nil, ErrTooMany
	}
	var faults []inventory.Fault
	for _, m := range reply[1:] {
		text, err := m.ToString()
		words := strings.Split(text, nul)
		if err != nil || len(words) != 5 {
			return nil, garbled(checkScript.name, text)
		}
		f := inventory.Fault{SKU: words[0], What: words[2]}
		if _, err := fmt.Sscan(words[1]+" "+words[3]+" "+words[4], &f.Bucket, &f.Level, &f.Records); err != nil {
			return nil, garbled(checkScript.name, text)
		}
		faults = append(faults, f)
	}
	return faults, nil
}

// Sweep frees what has expired and forgets what was settled longer than keep ago; see inventory.Store. A hold
// that was settled long after it was reserved may be kept for up to twice as long.
func (s Stock) Sweep(ctx context.Context, keep time.Duration, limit int) (removed int, err error) {
	keepMicros := strconv.FormatInt(keep.Microseconds(), 10)
	var looked, length int64
	for round := range sweepRoundsMax {
		left := max(limit-removed, 0)
		reply, err := s.store.run(ctx, sweepScript, []string{strconv.Itoa(left), keepMicros})
		if err != nil {
			return removed, err
		}
		said, err := numbers(reply, 5)
		if err != nil {
			return removed, err
		}
		if round == 0 {
			length = said[3]
		}
		removed += int(said[0])
		looked += said[2]
		// Each hold gets one look. Those behind one that is too young are younger.
		moreDue, moreOld := said[1] == 1, removed < limit && said[4] == 1 && said[2] > 0 && looked < length
		if !moreDue && !moreOld {
			break
		}
	}
	return removed, nil
}

// numbers reads an answer of so many.
func numbers(reply []rueidis.RedisMessage, count int) ([]int64, error) {
	if len(reply) != count {
		return nil, garbled(sweepScript.name, strconv.Itoa(len(reply)))
	}
	all := make([]int64, count)
	for i := range all {
		n, err := reply[i].AsInt64()
		if err != nil {
			return nil, garbled(sweepScript.name, err.Error())
		}
		all[i] = n
	}
	return all, nil
}
