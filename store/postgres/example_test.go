package postgres_test

import (
	"context"
	"fmt"
	"log"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/postgres"
)

// A charge and its answer are one commit: whoever asks again, on whichever host, gets that answer.
func Example() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://localhost/shop")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	store := postgres.New(pool, postgres.Config{})
	if err := store.Migrate(ctx); err != nil { // safe on fifty hosts at once
		log.Fatal(err)
	}
	warnings, err := store.Check(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, w := range warnings {
		log.Print(w)
	}

	keys := idempotency.NewTx(store.Keys(), idempotency.Config{})
	req := idempotency.Request{
		Scope:       "account-7", // the verified caller
		Key:         "8e03978e-40d5-43e8-bc93-6894a57f9324",
		Fingerprint: idempotency.FingerprintOf("POST", "/charges", 4200),
	}
	res, err := keys.InTx(ctx, req, func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
		var id int64
		err := tx.QueryRow(ctx, `insert into charges (account, amount) values ($1, $2) returning id`, "account-7", 4200).Scan(&id)
		if err != nil {
			return idempotency.Response{}, err // all is rolled back, and the key is as it was
		}
		return idempotency.JSON(http.StatusCreated, map[string]int64{"id": id})
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Status, string(res.Body), res.Replayed)
}
