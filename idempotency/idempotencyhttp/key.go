package idempotencyhttp

import (
	"net/http"
	"strings"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
)

// KeyHeader is the request header with the key, ReplayedHeader the one that marks a replay.
const (
	KeyHeader      = "Idempotency-Key"
	ReplayedHeader = "Idempotency-Replayed"
)

// keyOf reads the key of a request. It is a *Problem, key-missing or key-invalid, when there is none.
func keyOf(h http.Header) (string, *Problem) {
	lines := h.Values(KeyHeader)
	switch len(lines) {
	case 0:
		return "", problem(keyMissing)
	case 1:
	default:
		return "", invalidKey("is there more than once; send one line with one key")
	}
	return parseKey(lines[0])
}

// parseKey reads a header value: a structured-field string (RFC 9651), which is quoted, or the same key
// bare. The two spellings are one key. A bare key can't hold what gives the quoted form its shape.
func parseKey(value string) (string, *Problem) {
	value = strings.Trim(value, " \t")
	key, why := value, ""
	switch {
	case strings.HasPrefix(value, `"`):
		key, why = unquote(value)
	case strings.Contains(value, `"`):
		why = `has a quote in its middle; put the whole key in quotes, and a backslash before each quote within`
	case strings.Contains(value, ","):
		why = "looks like a list, because of its comma; send one key, and quote it if the comma belongs to it"
	case strings.Contains(value, ";"):
		why = "has a semicolon; quote the key if it belongs to it, parameters are not allowed"
	}
	if why != "" {
		return "", invalidKey(why)
	}
	if err := idempotency.ValidateKey(key); err != nil {
		return "", invalidKey(err.(*fifty.InvalidError).Problem) //nolint:errorlint // ValidateKey's only error
	}
	return key, nil
}

// unquote reads a structured-field string and says what is wrong with it, if anything.
func unquote(value string) (key, why string) {
	var b strings.Builder
	for i := 1; i < len(value); i++ {
		switch c := value[i]; c {
		case '"':
			switch rest := strings.TrimLeft(value[i+1:], " \t"); {
			case rest == "":
				return b.String(), ""
			case rest[0] == ',':
				return "", "is a list; send one key"
			case rest[0] == ';':
				return "", "has parameters after it; send the key alone"
			default:
				return "", "goes on after its closing quote; put a backslash before a quote within"
			}
		case '\\':
			i++
			if i == len(value) || value[i] != '"' && value[i] != '\\' {
				return "", `has a backslash before something else than a quote or a backslash; double it`
			}
			b.WriteByte(value[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", "has no closing quote"
}

func invalidKey(why string) *Problem {
	p := problem(keyInvalid)
	p.Detail = "The " + KeyHeader + " " + why + ". " + p.Detail
	return p
}
