package server

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/goccy/go-yaml/ast"

	"github.com/fiftyhosts/fifty/idempotency"
)

// sealKeySize is that of a sealing key, and sealFileMax bounds its file, in bytes.
const (
	sealKeySize = 32
	sealFileMax = 1 << 10
)

// seal reads the ring that seals what is kept. Its first key seals, all of them open.
func (r *configReader) seal(at place) *idempotency.Ring {
	var keys []idempotency.SealingKey
	before := len(r.faults)
	seen := r.mapping(at, "keys", []field{
		{"keys", func(at place) { keys = r.sealKeys(at) }},
	})
	if seen != nil && !seen["keys"] {
		r.fault(at, "has no keys; give a list of id and file, the one that seals first")
	}
	if len(r.faults) > before || len(keys) == 0 {
		return nil
	}
	ring, err := idempotency.NewRing(keys...)
	if err != nil {
		r.fault(at, "%v", err)
	}
	return ring
}

func (r *configReader) sealKeys(at place) []idempotency.SealingKey {
	list, ok := at.node.(*ast.SequenceNode)
	switch {
	case !ok:
		r.fault(at, "must be a list, each entry like \"- {id: \"2026\", file: 2026.key}\", and is %s", kind(at.node))
		return nil
	case len(list.Values) == 0:
		r.fault(at, "is empty; give at least the key that seals, or remove seal")
		return nil
	case len(list.Values) > sealKeysMax:
		r.fault(at, "has %d entries; at most %d are allowed", len(list.Values), sealKeysMax)
		return nil
	}
	keys := make([]idempotency.SealingKey, 0, len(list.Values))
	for i, n := range list.Values {
		here := place{path: fmt.Sprintf("%s[%d]", at.path, i), key: at.key, node: n}
		if key, ok := r.sealKey(here, keys); ok {
			keys = append(keys, key)
		}
	}
	return keys
}

// sealKey reads one key of the ring; before are those in front of it.
func (r *configReader) sealKey(at place, before []idempotency.SealingKey) (key idempotency.SealingKey, ok bool) {
	faults := len(r.faults)
	var name string
	seen := r.mapping(at, "id", []field{
		{"id", func(at place) {
			key.ID, _ = r.text(at, "2026")
			for _, b := range before {
				if b.ID == key.ID && key.ID != "" {
					r.fault(at, "%q names a key before; each key has an id of its own", key.ID)
				}
			}
		}},
		{"file", func(at place) {
			if name, ok = r.text(at, "2026.key"); !ok {
				return
			}
			if !filepath.IsAbs(name) {
				name = filepath.Join(r.dir, name)
			}
			var err error
			if key.Key, err = readSealKey(name); err != nil {
				r.fault(at, "%v", err)
			}
		}},
	})
	if seen == nil {
		return key, false
	}
	for _, need := range []struct{ name, why string }{
		{"id", "such as \"2026\"; it is stored with each answer that the key seals"},
		{"file", "with 32 random bytes, as they are or in base64"},
	} {
		if !seen[need.name] {
			r.fault(at, "has no %s, %s", need.name, need.why)
		}
	}
	return key, len(r.faults) == faults
}

// readSealKey reads 32 bytes from a file, as they are or in base64. Nothing of the file is in its errors.
func readSealKey(name string) ([]byte, error) {
	const right = "make one with: head -c 32 /dev/urandom > FILE"
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("can't be read: %w", err)
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, sealFileMax+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("can't be read: %w", err)
	case len(text) == sealKeySize:
		return text, nil
	case len(text) > sealFileMax:
		return nil, errors.New("is too large for a key of 32 bytes; " + right)
	}
	trimmed := bytes.TrimRight(bytes.TrimSpace(text), "=")
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if key, err := encoding.DecodeString(string(trimmed)); err == nil && len(key) == sealKeySize {
			return key, nil
		}
	}
	return nil, fmt.Errorf("%s has %d bytes, which are neither 32 bytes nor 32 bytes in base64; %s", name, len(text), right)
}
