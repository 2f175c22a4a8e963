package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"

	"github.com/fiftyhosts/fifty"
)

// secretSize is the length of a secret in bytes.
const secretSize = 32

// Secret returns 32 random bytes that are made once for each name and kept in the file: the same for every
// process and after every restart. An empty name is a *fifty.InvalidError. It may be called again after
// any error. It is safe for concurrent use.
func (s *Store) Secret(ctx context.Context, name string) ([]byte, error) {
	if name == "" {
		return nil, &fifty.InvalidError{Field: "name", Problem: "is empty; name what the secret is for"}
	}
	made := make([]byte, secretSize)
	rand.Read(made) // never fails: it ends the program instead
	var kept []byte
	err := s.write(ctx, "secret", func(ctx context.Context, tx *sql.Tx) error {
		on := s.session(tx, "secret")
		// Linearization point: the unique name. Whoever comes later keeps nothing, and reads the first one's.
		if _, err := on.exec(ctx, s.sql.keepSecret, name, made); err != nil {
			return err
		}
		return on.row(ctx, s.sql.readSecret, name).Scan(&kept)
	})
	if err != nil {
		return nil, err
	}
	return kept, nil
}
