package postgres

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/fiftyhosts/fifty/inventory"
)

// holdRow is a row of holds as holdColumns read it. Empty text stands for null.
type holdRow struct {
	id, sku      string
	quantity     int64
	items, parts string
	state        int64
	expires      int64
	short        string
	reserved     time.Time
	log          string
}

func (h *holdRow) columns() []any {
	return []any{&h.id, &h.sku, &h.quantity, &h.items, &h.parts, &h.state, &h.expires, &h.short, &h.reserved, &h.log}
}

// record makes the record of a row.
func (h *holdRow) record() (inventory.Record, error) {
	r := inventory.Record{ID: h.id, State: inventory.State(h.state), Expires: h.expires, Reserved: h.reserved}
	if h.items == "" {
		r.Items = inventory.Items{h.sku: h.quantity}
	} else if err := json.Unmarshal([]byte(h.items), &r.Items); err != nil {
		return r, unreadable(h.id, err)
	}
	var err error
	if r.Parts, err = h.readParts(r); err != nil {
		return r, unreadable(h.id, err)
	}
	if h.short != "" {
		if err := unmarshalRow(h.short, &r.Short.SKU, &r.Short.Wanted, &r.Short.Available); err != nil {
			return r, unreadable(h.id, err)
		}
	}
	if h.log != "" {
		if r.Log, err = readLog(h.log); err != nil {
			return r, unreadable(h.id, err)
		}
	}
	return r, nil
}

func unreadable(id string, err error) error {
	return fmt.Errorf("postgres: hold %q can't be read: %w", id, err)
}

func hasParts(s inventory.State) bool { return s == inventory.Held || s == inventory.Confirmed }

// plainParts are those of a hold of which everything is in bucket 0.
func plainParts(items inventory.Items) []inventory.Part {
	parts := make([]inventory.Part, 0, len(items))
	for _, sku := range items.SKUs() {
		parts = append(parts, inventory.Part{BucketID: inventory.BucketID{SKU: sku}, Quantity: items[sku]})
	}
	return parts
}

func (h *holdRow) readParts(r inventory.Record) ([]inventory.Part, error) {
	switch {
	case !hasParts(r.State):
		return nil, nil
	case h.parts == "":
		return plainParts(r.Items), nil
	}
	var rows []json.RawMessage
	if err := json.Unmarshal([]byte(h.parts), &rows); err != nil {
		return nil, err
	}
	parts := make([]inventory.Part, len(rows))
	for i, row := range rows {
		if err := unmarshalRow(string(row), &parts[i].SKU, &parts[i].Number, &parts[i].Quantity); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

func readLog(text string) ([]inventory.Entry, error) {
	var rows []json.RawMessage
	if err := json.Unmarshal([]byte(text), &rows); err != nil {
		return nil, err
	}
	log := make([]inventory.Entry, len(rows))
	for i, row := range rows {
		var micros int64
		if err := unmarshalRow(string(row), &log[i].What, &log[i].Items, &micros, &log[i].Times); err != nil {
			return nil, err
		}
		log[i].At = time.UnixMicro(micros)
	}
	return log, nil
}

// unmarshalRow reads a JSON list of as many values.
func unmarshalRow(text string, into ...any) error {
	var values []json.RawMessage
	if err := json.Unmarshal([]byte(text), &values); err != nil {
		return err
	}
	if len(values) != len(into) {
		return fmt.Errorf("%d values where %d are expected", len(values), len(into))
	}
	for i, v := range values {
		if err := json.Unmarshal(v, into[i]); err != nil {
			return err
		}
	}
	return nil
}

// marshal is the JSON of what can't fail: names that were validated, and numbers.
func marshal(v any) (string, error) {
	text, err := json.Marshal(v)
	return string(text), err
}

// rowOf makes the row of a record.
func rowOf(r *inventory.Record) (h holdRow, err error) {
	h = holdRow{id: r.ID, state: int64(r.State), expires: r.Expires, reserved: r.Reserved}
	if len(r.Items) == 1 {
		for sku, q := range r.Items {
			h.sku, h.quantity = sku, q
		}
	} else if h.items, err = marshal(r.Items); err != nil {
		return h, err
	}
	if hasParts(r.State) && !slices.Equal(r.Parts, plainParts(r.Items)) {
		rows := make([][3]any, len(r.Parts))
		for i, p := range r.Parts {
			rows[i] = [3]any{p.SKU, p.Number, p.Quantity}
		}
		if h.parts, err = marshal(rows); err != nil {
			return h, err
		}
	}
	if r.Short != (inventory.SoldOut{}) {
		if h.short, err = marshal([3]any{r.Short.SKU, r.Short.Wanted, r.Short.Available}); err != nil {
			return h, err
		}
	}
	if len(r.Log) > 0 {
		rows := make([][4]any, len(r.Log))
		for i, e := range r.Log {
			rows[i] = [4]any{e.What, e.Items, e.At.UnixMicro(), e.Times}
		}
		if h.log, err = marshal(rows); err != nil {
			return h, err
		}
	}
	return h, nil
}
