package postgres

import (
	"encoding/json"
	"fmt"
)

// Headers are stored as a JSON object of lists, value by value, so that two Set-Cookie come back as two. A
// header's value may hold any bytes, and JSON can't; so each byte is written as the character of its
// number (Latin-1). Plain ASCII, which is nearly everything, reads as it is:
//
//	select convert_from(header, 'UTF8')::jsonb from fifty.keys
//
// Plain text in plain lists goes past encoding/json (header_plain.go), which does all the rest: it would be a tenth
// of what a replay costs this process.

// encodeHeader is never nil for a header that is not.
func encodeHeader(header map[string][]string) ([]byte, error) {
	if header == nil {
		return nil, nil
	}
	if text, ok := writePlain(header); ok {
		return text, nil
	}
	text := make(map[string][]string, len(header))
	for name, values := range header {
		text[widen(name)] = each(values, widen)
	}
	return json.Marshal(text)
}

func decodeHeader(stored []byte) (map[string][]string, error) {
	if stored == nil {
		return nil, nil
	}
	if header, ok := readPlain(string(stored)); ok {
		return header, nil
	}
	var text map[string][]string
	if err := json.Unmarshal(stored, &text); err != nil {
		return nil, fmt.Errorf("postgres: the stored header is damaged: %w", err)
	}
	if text == nil { // null
		return nil, nil
	}
	header := make(map[string][]string, len(text))
	for name, values := range text {
		header[narrow(name)] = each(values, narrow)
	}
	return header, nil
}

func each(values []string, fn func(string) string) []string {
	if values == nil {
		return nil
	}
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = fn(v)
	}
	return all
}

// widen makes of each byte the character of its number.
func widen(s string) string {
	ascii := true
	for i := range len(s) {
		ascii = ascii && s[i] < 0x80
	}
	if ascii {
		return s
	}
	wide := make([]rune, len(s))
	for i := range len(s) {
		wide[i] = rune(s[i])
	}
	return string(wide)
}

// narrow is the inverse of widen.
func narrow(s string) string {
	bytes := make([]byte, 0, len(s))
	for _, r := range s {
		bytes = append(bytes, byte(r))
	}
	return string(bytes)
}
