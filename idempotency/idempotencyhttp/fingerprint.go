package idempotencyhttp

import (
	"crypto/sha256"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/fiftyhosts/fifty/idempotency"
)

// jsonMax is the largest body, in bytes, that is compared as JSON; a larger one is compared byte for byte.
// It is part of what a fingerprint is: the choice must come out the same on every host and for every
// retry, so it depends on the body's size alone and is not configurable.
const jsonMax = 1 << 20

// fingerprint digests what a request asks for: method, path as it is escaped, query as it is written,
// media type, and body. The media type is type and subtype in lower case; its parameters don't count,
// since clients change the spelling of a charset without meaning another request. No other header counts.
func fingerprint(r *http.Request, b *body) (idempotency.Fingerprint, error) {
	media := mediaType(r.Header.Get("Content-Type"))
	path, query := r.URL.EscapedPath(), r.URL.RawQuery
	if isJSON(media) && b.size <= jsonMax {
		text, err := io.ReadAll(b.open())
		if err != nil {
			return "", err
		}
		return idempotency.FingerprintOf(r.Method, path, query, media, json.RawMessage(text)), nil
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, b.open()); err != nil {
		return "", err
	}
	return idempotency.FingerprintOf(r.Method, path, query, media, "sha256", sum.Sum(nil)), nil
}

// mediaType is type and subtype of a Content-Type, or what stands before its parameters if it is malformed.
func mediaType(contentType string) string {
	if media, _, err := mime.ParseMediaType(contentType); err == nil {
		return media
	}
	media, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(media))
}

func isJSON(media string) bool {
	return media == "application/json" || strings.HasSuffix(media, "+json")
}
