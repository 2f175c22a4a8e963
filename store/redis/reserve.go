package redis

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/fiftyhosts/fifty/inventory"
)

// Reserve decides the asks in order, in one script; see inventory.Store.
func (s Stock) Reserve(ctx context.Context, asks []inventory.Ask) ([]inventory.Answer, error) {
	return inParts(ctx, asks, s.reserve)
}

func (s Stock) reserve(ctx context.Context, asks []inventory.Ask) ([]inventory.Answer, error) {
	args, kinds := reserveArgs(asks)
	reply, err := s.store.run(ctx, reserveScript, args)
	if err != nil {
		return nil, err
	}
	answers, ok := readReserves(asks, kinds, reply)
	if !ok {
		return nil, garbled(reserveScript.name, fmt.Sprintf("%d parts for %d asks", len(reply), len(asks)))
	}
	return answers, nil
}

// kind is what asks of one call have in common, most of the time.
type kind struct{ items, options string }

// reserveArgs are the arguments of reserve.lua, and the kind of each ask, from 0.
func reserveArgs(asks []inventory.Ask) (args []string, kinds []int) {
	known := map[kind]int{}
	kinds = make([]int, len(asks))
	args = make([]string, 1, 4+len(asks))
	for i, a := range asks {
		if i > 0 && alike(a, asks[i-1]) {
			kinds[i] = kinds[i-1]
			continue
		}
		k := kind{itemsText(a.Items), ttlText(a.TTL) + " " + strconv.FormatInt(a.RefusalsMax, 10)}
		n, ok := known[k]
		if !ok {
			n = len(known)
			known[k] = n
			args = append(args, k.items, k.options)
		}
		kinds[i] = n
	}
	args[0] = strconv.Itoa(len(known))
	var row []byte
	if len(known) > 1 {
		for _, n := range kinds {
			row = append(strconv.AppendInt(row, int64(n+1), 10), ' ')
		}
	}
	args = append(args, string(row))
	for _, a := range asks {
		args = append(args, holdField+a.ID)
	}
	return args, kinds
}

// alike says that two asks differ in nothing but their id.
func alike(a, b inventory.Ask) bool {
	return a.TTL == b.TTL && a.RefusalsMax == b.RefusalsMax && maps.Equal(a.Items, b.Items)
}

// readReserves reads the answers of reserve.lua: those that say more than that there is a hold now stand in
// pairs, the number of the ask and the answer.
func readReserves(asks []inventory.Ask, kinds []int, reply []rueidis.RedisMessage) ([]inventory.Answer, bool) {
	if len(reply) < 2 || len(reply)%2 != 0 {
		return nil, false
	}
	clock, err1 := reply[0].ToString()
	row, err2 := reply[1].ToString()
	now, ok := parseClock(clock)
	if err1 != nil || err2 != nil || !ok {
		return nil, false
	}
	var last []time.Duration // of the holds of each kind
	for _, word := range strings.Fields(row) {
		second, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return nil, false
		}
		last = append(last, time.Unix(second, 0).Sub(now))
	}
	answers := make([]inventory.Answer, len(asks))
	for i, a := range asks {
		if kinds[i] >= len(last) {
			return nil, false
		}
		answers[i].Hold = inventory.Hold{ID: a.ID, Items: a.Items, State: inventory.Held, ExpiresIn: last[kinds[i]]}
	}
	for rest := reply[2:]; len(rest) > 0; rest = rest[2:] {
		number, err1 := rest[0].AsInt64()
		text, err2 := rest[1].ToString()
		if err1 != nil || err2 != nil || number < 1 || number > int64(len(asks)) || text == "" {
			return nil, false
		}
		answer, ok := readReserve(asks[number-1], now, text[0], text[1:])
		if !ok {
			return nil, false
		}
		answers[number-1] = answer
	}
	return answers, true
}

func readReserve(a inventory.Ask, now time.Time, code byte, text string) (inventory.Answer, bool) {
	switch code {
	case 'U':
		return inventory.Answer{Err: &inventory.UnknownSKUError{SKU: text}}, true
	case 'B':
		return inventory.Answer{Err: inventory.ErrBusy}, true
	}
	r, ok := parseRecord(a.ID, text)
	if !ok {
		return inventory.Answer{}, false
	}
	h := r.Hold(now)
	h.Replayed = code != 'S'
	switch {
	case code == 'M':
		return inventory.Answer{Hold: h, Err: &inventory.MismatchError{ID: a.ID, First: r.Items}}, true
	case code == 'S' || code == 'A' && r.State == inventory.Refused:
		return inventory.Answer{Hold: h, Err: &inventory.SoldOutError{SoldOut: r.Short, Replayed: h.Replayed}}, true
	default:
		return inventory.Answer{Hold: h}, code == 'A'
	}
}
