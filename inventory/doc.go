// Package inventory sells what there is and no more: reserve, then confirm or release, or let it expire.
//
// # In one process
//
// A mutex over a map from SKU to level: an order looks and takes under one lock, all its SKUs or none. The
// linearization point is that critical section. Package store/memory is this form.
//
// # On fifty hosts
//
// There is no shared mutex, so the row of the SKU is the lock: one arbiter for each SKU. Whoever holds the
// row reads what is there, by the store's clock, decides, and writes. Levels, hold and answer are one commit,
// which is the linearization point.
//
// available + held + sold = supply, and none is negative, in every transaction. The database checks it too.
//
// # Three outcomes
//
// Every ask carries an id made by the client, and the first answer stays: a yes is given again, and so is a
// no. A reply that was lost is asked for again with the same id.
//
// # Holds
//
// A hold lasts for its time, by the store's clock. When it is over its units are free for the next order that
// needs them, without a sweeper; Sweep only tidies. A confirm that comes late takes the units again if they
// are there, and otherwise says ErrHoldExpired, for good.
//
// # Files
//
//   - items.go, hold.go: what is asked for, and what it becomes
//   - store.go: what a store must do; batch.go, changes.go, spread.go: what it decides, behind its locks
//   - stock.go: Stock; tx.go: with your transaction, and the Ledger
//   - errors.go: what callers get
//
// # Events
//
// An Observer in Config sees: inventory.reserved, .confirmed, .released, .extended, .replayed, .sold_out,
// .hold_expired, .mismatch, .busy, .failed, .sweep_failed.
package inventory
