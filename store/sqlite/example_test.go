package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/sqlite"
)

// A charge and the answer to its request are committed together, in one file.
func Example() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "fifty")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)

	store, err := sqlite.Open(ctx, filepath.Join(folder, "shop.db"), sqlite.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	if err := store.Migrate(ctx); err != nil {
		log.Fatal(err)
	}
	// Tables of your own live in the same file.
	if _, err := store.DB().ExecContext(ctx, `CREATE TABLE charges (account TEXT, cents INTEGER)`); err != nil {
		log.Fatal(err)
	}

	keys := idempotency.NewTx(store.Keys(), idempotency.Config{})
	req := idempotency.Request{
		Scope:       "acme",
		Key:         "order-1001",
		Fingerprint: idempotency.FingerprintOf("POST", "/charges", `{"cents":4200}`),
	}
	charge := func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
		if _, err := tx.ExecContext(ctx, `INSERT INTO charges VALUES ('acme', 4200)`); err != nil {
			return idempotency.Response{}, err
		}
		return idempotency.JSON(201, map[string]int{"charged": 4200})
	}
	for range 2 { // the request, and its retry
		res, err := keys.InTx(ctx, req, charge)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(res.Status, string(res.Body), "replayed:", res.Replayed)
	}
	var charges int
	if err := store.DB().QueryRowContext(ctx, `SELECT count(*) FROM charges`).Scan(&charges); err != nil {
		log.Fatal(err)
	}
	fmt.Println("charges:", charges)
	// Output:
	// 201 {"charged":4200} replayed: false
	// 201 {"charged":4200} replayed: true
	// charges: 1
}
