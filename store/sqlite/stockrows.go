package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"time"

	"github.com/fiftyhosts/fifty/inventory"
)

// encode writes a value as JSON text.
func encode(v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("sqlite: %w", err)
	}
	return string(text), nil
}

func decode(text []byte, v any) error {
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("sqlite: a stored hold or delivery can't be read: %w", err)
	}
	return nil
}

func decodeItems(text []byte) (items inventory.Items, err error) {
	return items, decode(text, &items)
}

// partsOf is how parts are stored: SKU, bucket and units of each.
func partsOf(parts []inventory.Part) [][3]any {
	rows := make([][3]any, len(parts))
	for i, p := range parts {
		rows[i] = [3]any{p.SKU, p.Number, p.Quantity}
	}
	return rows
}

// part reads one of them.
type part inventory.Part

func (p *part) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[3]any{&p.SKU, &p.Number, &p.Quantity})
}

// shortOf is how a SoldOut is stored, or NULL.
func shortOf(s inventory.SoldOut) (any, error) {
	if s == (inventory.SoldOut{}) {
		return nil, nil
	}
	return encode([3]any{s.SKU, s.Wanted, s.Available})
}

// entry is a line of a log as it is stored.
type entry struct {
	What  string
	Items inventory.Items
	At    int64
	Times int
}

// logOf is how a log is stored, or NULL.
func logOf(log []inventory.Entry) (any, error) {
	if len(log) == 0 {
		return nil, nil
	}
	lines := make([]entry, len(log))
	for i, e := range log {
		lines[i] = entry{e.What, e.Items, e.At.UnixMicro(), e.Times}
	}
	return encode(lines)
}

// notesOf are what there was not enough of, and the log.
func notesOf(r *inventory.Record) (short, log any, err error) {
	if short, err = shortOf(r.Short); err != nil {
		return nil, nil, err
	}
	log, err = logOf(r.Log)
	return short, log, err
}

// scanHold reads the columns of a hold, and what stands behind them into more.
func scanHold(from row, more ...any) (inventory.Record, error) {
	var r inventory.Record
	var items, parts, short, log []byte
	var reserved int64
	err := from.Scan(append([]any{&r.ID, &items, &r.State, &parts, &r.Expires, &short, &log, &reserved}, more...)...)
	if err != nil {
		return r, err
	}
	r.Reserved = at(reserved)
	if r.Items, err = decodeItems(items); err != nil {
		return r, err
	}
	var stored []part
	if err := decode(parts, &stored); err != nil {
		return r, err
	}
	for _, p := range stored {
		r.Parts = append(r.Parts, inventory.Part(p))
	}
	if short != nil {
		if err := decode(short, &[3]any{&r.Short.SKU, &r.Short.Wanted, &r.Short.Available}); err != nil {
			return r, err
		}
	}
	if log != nil {
		var lines []entry
		if err := decode(log, &lines); err != nil {
			return r, err
		}
		for _, e := range lines {
			r.Log = append(r.Log, inventory.Entry{What: e.What, Items: e.Items, At: at(e.At), Times: e.Times})
		}
	}
	return r, nil
}

// known reads the holds of asks that are there already.
func (t *instant) known(ctx context.Context, asks []inventory.Ask) (known []inventory.Record, err error) {
	ids := make([]string, len(asks))
	for i, a := range asks {
		ids[i] = a.ID
	}
	list, err := encode(ids)
	if err != nil {
		return nil, err
	}
	err = t.each(ctx, func(r row) error {
		rec, err := scanHold(r)
		known = append(known, rec)
		return err
	}, t.store.sql.stock.known, list)
	return known, err
}

// batch reads all buckets of SKUs, with what is due in them.
func (t *instant) batch(ctx context.Context, skus []string, known []inventory.Record) (*inventory.Batch, error) {
	buckets, err := t.buckets(ctx, skus, t.now/int64(time.Second/time.Microsecond))
	if err != nil {
		return nil, err
	}
	return inventory.NewBatch(at(t.now), buckets, known), nil
}

func (t *instant) buckets(ctx context.Context, skus []string, second int64) (buckets []inventory.Bucket, err error) {
	list, err := encode(skus)
	if err != nil {
		return nil, err
	}
	err = t.each(ctx, func(r row) error {
		var b inventory.Bucket
		err := r.Scan(&b.SKU, &b.Number, &b.Count, &b.Supply, &b.Available, &b.Held, &b.Sold, &b.FreedTo, &b.Refusals, &b.Due)
		buckets = append(buckets, b)
		return err
	}, t.store.sql.stock.buckets, list, second)
	return buckets, err
}

// writeStock writes what was decided.
func (t *instant) writeStock(ctx context.Context, c inventory.Changes) error {
	sql := &t.store.sql.stock
	for _, b := range c.Created {
		_, err := t.exec(ctx, sql.make, b.SKU, b.Number, b.Count, b.Supply, b.Available, b.Held, b.Sold, b.FreedTo, b.Refusals)
		if err != nil {
			return err
		}
	}
	for _, b := range c.Buckets {
		if _, err := t.exec(ctx, sql.level, b.SKU, b.Number, b.Supply, b.Available, b.Held, b.Sold, b.FreedTo, b.Refusals); err != nil {
			return err
		}
	}
	for _, f := range c.Freed {
		t.see(t.now) // what was freed by this time stays expired
		if _, err := t.exec(ctx, sql.free, f.SKU, f.Number, f.Second); err != nil {
			return err
		}
	}
	for _, m := range c.Moves {
		if err := t.move(ctx, m); err != nil {
			return err
		}
	}
	if err := t.addHolds(ctx, c.Added); err != nil {
		return err
	}
	return t.changeHolds(ctx, c.Changed)
}

// move changes how many units expire in one second.
func (t *instant) move(ctx context.Context, m inventory.Move) error {
	if m.Quantity > 0 {
		_, err := t.exec(ctx, t.store.sql.stock.moveIn, m.SKU, m.Number, m.Second, m.Quantity)
		return err
	}
	var left int64
	if err := t.row(ctx, t.store.sql.stock.moveOut, m.SKU, m.Number, m.Second, m.Quantity).Scan(&left); err != nil {
		return err
	}
	if left > 0 {
		return nil
	}
	_, err := t.exec(ctx, t.store.sql.stock.empty, m.SKU, m.Number, m.Second)
	return err
}

// addHolds writes new holds by as few statements as there are powers of two in their number.
func (t *instant) addHolds(ctx context.Context, holds []*inventory.Record) error {
	var texts holdTexts
	var args []any
	for len(holds) > 0 {
		size := bits.Len(uint(min(len(holds), rowsMax))) - 1
		args = args[:0]
		for _, r := range holds[:1<<size] {
			if err := texts.read(r); err != nil {
				return err
			}
			args = append(args, r.ID, texts.items, int64(r.State), texts.parts, r.Expires, texts.short, texts.log, t.now, t.now)
		}
		if _, err := t.exec(ctx, t.store.addHolds[size], args...); err != nil {
			return err
		}
		holds = holds[1<<size:]
	}
	return nil
}

// holdTexts are the columns of a hold that are JSON. Orders of the same are mostly many, and are written once.
type holdTexts struct {
	last         *inventory.Record
	items, parts string
	short, log   any
}

func (h *holdTexts) read(r *inventory.Record) (err error) {
	if h.last == nil || !maps.Equal(h.last.Items, r.Items) {
		if h.items, err = encode(r.Items); err != nil {
			return err
		}
	}
	if h.last == nil || !slices.Equal(h.last.Parts, r.Parts) {
		if h.parts, err = encode(partsOf(r.Parts)); err != nil {
			return err
		}
	}
	h.last = r
	h.short, h.log, err = notesOf(r)
	return err
}

func (t *instant) changeHolds(ctx context.Context, holds []*inventory.Record) error {
	if len(holds) == 0 {
		return nil
	}
	rows := make([][6]any, len(holds))
	for i, r := range holds {
		short, log, err := notesOf(r)
		if err != nil {
			return err
		}
		rows[i] = [6]any{r.ID, r.State, partsOf(r.Parts), r.Expires, short, log}
	}
	list, err := encode(rows)
	if err != nil {
		return err
	}
	n, err := t.exec(ctx, t.store.sql.stock.change, list, t.now)
	if err == nil && n != int64(len(holds)) {
		err = fmt.Errorf("sqlite: %s: %d of %d holds were no longer held; nothing changed", t.op, int64(len(holds))-n, len(holds))
	}
	return err
}

// sums adds up numbers by SKU, which a statement returns.
func sums(ctx context.Context, on querier, op string, st statement, n int) (map[string][]int64, error) {
	all := map[string][]int64{}
	err := each(ctx, on, op, func(r row) error {
		var sku string
		numbers := make([]int64, n)
		dest := []any{&sku}
		for i := range numbers {
			dest = append(dest, &numbers[i])
		}
		err := r.Scan(dest...)
		all[sku] = numbers
		return err
	}, st)
	return all, err
}

var _ querier = (*sql.Tx)(nil)
