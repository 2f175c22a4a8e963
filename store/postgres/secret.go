package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/fiftyhosts/fifty"
)

const (
	secretSize    = 32  // bytes
	secretNameMax = 255 // bytes
)

// Secret returns 32 random bytes, made once per name and then the same for every host. After an error the
// secret may have been made; ask again. Whoever can read the table can read it.
func (s *Store[Tx]) Secret(ctx context.Context, name string) ([]byte, error) {
	if name == "" || len(name) > secretNameMax {
		return nil, &fifty.InvalidError{Field: "name", Problem: fmt.Sprintf("has %d bytes; 1 to %d are allowed", len(name), secretNameMax)}
	}
	var secret []byte
	find := s.statements.secretFind.with(name).into(&secret)
	if err := s.run(ctx, find); err != nil || find.rows == 1 {
		return secret, err
	}
	fresh := make([]byte, secretSize)
	rand.Read(fresh) // never fails: it ends the program instead
	if err := s.run(ctx, s.statements.secretInsert.with(name, fresh)); err != nil {
		return nil, err
	}
	if err := s.run(ctx, find); err != nil {
		return nil, err
	}
	if find.rows == 0 {
		return nil, errors.New("postgres: the secret was deleted as soon as it was made")
	}
	return secret, nil
}
