package server

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/go-jose/go-jose/v4"
)

// Bounds of a file of keys.
const (
	jwtKeysMax      = 100
	jwtKeysBytesMax = 1 << 20
	sharedSecretMin = 32 // bytes; RFC 7518 asks for at least the size of the hash
)

// algorithms are those that can be allowed, the asymmetric ones first. "none" is not among them.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512,
	jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
	jose.HS256, jose.HS384, jose.HS512,
}

func algorithmNames() []string {
	names := make([]string, len(algorithms))
	for i, a := range algorithms {
		names[i] = string(a)
	}
	return names
}

func isAlgorithm(name string) bool { return hasAlgorithm(algorithms, name) }

func hasAlgorithm(in []jose.SignatureAlgorithm, name string) bool {
	return slices.Contains(in, jose.SignatureAlgorithm(name))
}

func asymmetric(all []jose.SignatureAlgorithm) []jose.SignatureAlgorithm {
	return slices.DeleteFunc(slices.Clone(all), func(a jose.SignatureAlgorithm) bool {
		return a == jose.HS256 || a == jose.HS384 || a == jose.HS512
	})
}

// loadJWTKeys reads a JWK set, one JWK, or PEM blocks of public keys and certificates.
func loadJWTKeys(name string) ([]jose.JSONWebKey, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("can't be read: %w", err)
	}
	if info.IsDir() || info.Size() > jwtKeysBytesMax {
		return nil, fmt.Errorf("%s is no file of keys: it is a folder or larger than %s", name, formatSize(jwtKeysBytesMax))
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("can't be read: %w", err)
	}
	var keys []jose.JSONWebKey
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		keys, err = readJWKs(text)
	} else {
		keys, err = readPEM(text)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(keys) == 0 || len(keys) > jwtKeysMax {
		return nil, fmt.Errorf("%s has %d keys; from 1 to %d are allowed", name, len(keys), jwtKeysMax)
	}
	for i := range keys {
		if err := checkJWTKey(&keys[i]); err != nil {
			return nil, fmt.Errorf("%s: key %d %w", name, i+1, err)
		}
	}
	return keys, nil
}

func readJWKs(text []byte) ([]jose.JSONWebKey, error) {
	var shape struct {
		Keys json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &shape); err != nil {
		return nil, fmt.Errorf("is not JSON: %w", err)
	}
	if shape.Keys == nil {
		var one jose.JSONWebKey
		if err := json.Unmarshal(text, &one); err != nil {
			return nil, fmt.Errorf("is no JWK: %w", err)
		}
		return []jose.JSONWebKey{one}, nil
	}
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("is no JWK set: %w", err)
	}
	return set.Keys, nil
}

func readPEM(text []byte) ([]jose.JSONWebKey, error) {
	var keys []jose.JSONWebKey
	for len(keys) <= jwtKeysMax {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		text = rest
		key, err := publicKey(block)
		if err != nil {
			return nil, err
		}
		keys = append(keys, jose.JSONWebKey{Key: key})
	}
	if len(keys) == 0 {
		return nil, errors.New("holds neither a JWK set nor PEM blocks")
	}
	return keys, nil
}

func publicKey(block *pem.Block) (any, error) {
	switch block.Type {
	case "PUBLIC KEY":
		return x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		return x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		return cert.PublicKey, nil
	default:
		return nil, fmt.Errorf("has a PEM block %q; only public keys and certificates are wanted", block.Type)
	}
}

func checkJWTKey(k *jose.JSONWebKey) error {
	if k.Use != "" && k.Use != "sig" {
		return fmt.Errorf("is for use %q; only signatures are verified here", k.Use)
	}
	switch key := k.Key.(type) {
	case *rsa.PublicKey, *ecdsa.PublicKey, ed25519.PublicKey:
		return nil
	case []byte:
		if len(key) < sharedSecretMin {
			return fmt.Errorf("is a shared secret of %d bytes; at least %d are needed", len(key), sharedSecretMin)
		}
		return nil
	case *rsa.PrivateKey, *ecdsa.PrivateKey, ed25519.PrivateKey:
		return errors.New("is a private key; keep that where tokens are made, and give the public one")
	default:
		return fmt.Errorf("is of a kind (%T) that can't verify tokens", key)
	}
}

// verifies says which algorithms a key can verify.
func verifies(k jose.JSONWebKey) []jose.SignatureAlgorithm {
	if k.Algorithm != "" {
		return []jose.SignatureAlgorithm{jose.SignatureAlgorithm(k.Algorithm)}
	}
	switch key := k.Key.(type) {
	case *rsa.PublicKey:
		return []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512}
	case *ecdsa.PublicKey:
		switch key.Curve.Params().BitSize {
		case 256:
			return []jose.SignatureAlgorithm{jose.ES256}
		case 384:
			return []jose.SignatureAlgorithm{jose.ES384}
		case 521:
			return []jose.SignatureAlgorithm{jose.ES512}
		}
		return nil
	case ed25519.PublicKey:
		return []jose.SignatureAlgorithm{jose.EdDSA}
	case []byte:
		return []jose.SignatureAlgorithm{jose.HS256, jose.HS384, jose.HS512}
	default:
		return nil
	}
}
