// Package redis keeps stock in Redis, for package inventory: Redis decides, one Lua script for each call, by its
// own clock.
//
//	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:6379"}})
//	store := redis.New(client, redis.Config{})
//	stock := inventory.New(store.Stock(), inventory.Config{})
//
// # One arbiter
//
// Redis runs one script at a time. A script reads the clock, the levels and what is known of the ids, decides
// each ask in order, checks that available + held + sold = supply, and writes. Nobody sees the stock in between:
// that is the linearization point. A batch of inventory.Combined is one script.
//
// A script that fails is not rolled back. So each reads and decides everything, and checks the law, before its
// first write; what is off stops it there, with [ErrBroken]. What decides is then written in one command, behind
// entries of indexes that do no harm alone. An operator who takes single commands away from the user (ACL) can
// only break the tidying; the user needs @scripting, @read, @write and TIME.
//
// # What is lost
//
// What Redis acknowledges is what its settings make of it. [Store.Check] names what is off.
//
//	settings                                  a crash of the process    a crash of its host     a failover
//	appendonly yes, appendfsync always        loses nothing             loses nothing           see below
//	appendonly yes, appendfsync everysec      up to about two seconds   up to about two seconds see below
//	appendonly no                             all since the last snapshot, or everything
//
// A failover, by Sentinel, by a cluster or by hand, promotes a replica that may not have the newest writes:
// replication is asynchronous, and min-replicas-to-write only bounds it. The lost writes are whole scripts from
// the end of the log on, so the stock still adds up, but it is an older one: holds and sales that were
// acknowledged are gone, and their units are sold again. The ids of lost asks are new again; so a refusal can
// become a sale. Where that must not happen, use a store that has one durable log: Postgres, SQLite.
//
// The log holds a script's writes as one transaction. A crash in the middle of writing it loses that script as
// a whole.
//
// Eviction takes whole keys. Nothing here has a time to live, so the policies volatile-* take none of it; allkeys-*
// may. All that decides is in one key, a hash, so it can only go as a whole: then every SKU is unknown and nothing
// is sold, rather than sold twice. Use noeviction: when the memory is full, writes then fail with [ErrOutOfMemory],
// and nothing is done.
//
// # Clock
//
// Expiry is by Redis's clock, whole seconds. When that goes backwards, or a failover brings another one, holds
// last longer by as much; one that was freed stays freed. When it jumps ahead, holds expire early, and a confirm
// takes the units again if they are still there.
//
// # Memory
//
// A hold takes about 200 bytes, until Sweep removes it, Config.Keep after it was settled; at the latest twice
// that. The books are read whole by Ledger.Check, in one script, which takes Redis about 5 µs for each record in
// which it does nothing else. It refuses above Config.CheckMax; then ask a replica, which can read as well.
//
// # Cluster
//
// An order, and a batch, may name any SKUs, so all keys of a stock have one hash tag, {fifty} by default, and
// live on one node. It works on a cluster, and is as fast as that node. Stocks that never share an order can have
// a Store each, with a Prefix of its own. All keys that a script uses are passed to it as KEYS.
//
// # Buckets
//
// inventory.Buckets splits a hot SKU so that transactions which lock rows don't wait for each other. Redis runs
// one script at a time whatever the keys, so here a SKU is never split: Buckets works, as inventory.Row does.
//
// # Outcomes
//
// A script is sent once. The client library doesn't repeat it (go-redis would, silently), so an error says
// what became of that one. A connection that could not be made, and an error with which Redis refuses before the
// script begins, are definite: nothing was done. Everything else is a fifty.ErrUnknownOutcome: ask again with
// the same id, as package inventory does.
//
// # Files
//
//   - store.go: Store, Config; check.go: the server's settings; errors.go: what an error means
//   - scripts/common.lua: what is stored, and what all scripts share; alone.lua: the short way of a lone order;
//     the others are what is decided; script.go: how they are called
//   - reserve.go, stock.go: reserve, settle, supply; books.go: levels, history, audit, sweep
//   - text.go: what is stored
package redis
