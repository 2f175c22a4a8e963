package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/fiftyhosts/fifty/inventory"
)

// quick decides the common case of one order in three statements: a new id, one SKU that is not split, nothing
// expired, and enough. It says whether it was that; if not, nothing has changed, and the Batch decides.
func (k Stock) quick(ctx context.Context, tx *sql.Tx, a inventory.Ask) (answer inventory.Answer, done bool, err error) {
	if len(a.Items) != 1 {
		return answer, false, nil
	}
	st := &k.store.sql.stock
	x := k.store.session(tx, "reserve")
	now := k.store.clock.now(0)
	r := inventory.Record{
		ID: a.ID, Items: a.Items, State: inventory.Held, Reserved: at(now),
		Expires: inventory.ExpirySecond(at(now), a.TTL, 0),
	}
	for sku, q := range a.Items {
		n, err := x.exec(ctx, st.quick, sku, q, r.Expires, a.ID, now, now/int64(time.Second/time.Microsecond))
		if err != nil || n == 0 {
			return answer, false, err
		}
		r.Parts = []inventory.Part{{BucketID: inventory.BucketID{SKU: sku}, Quantity: q}}
		if _, err := x.exec(ctx, st.moveIn, sku, 0, r.Expires, q); err != nil {
			return answer, false, err
		}
	}
	items, err := encode(a.Items)
	if err != nil {
		return answer, false, err
	}
	parts, err := encode(partsOf(r.Parts))
	if err != nil {
		return answer, false, err
	}
	// Linearization point: the COMMIT behind this insert, whose unique index has the last word on the id.
	if _, err := x.exec(ctx, st.hold, a.ID, items, parts, r.Expires, now); err != nil {
		return answer, false, err
	}
	return inventory.Answer{Hold: r.Hold(at(now))}, true, nil
}
