package postgres

import (
	"slices"
	"strings"
)

// writePlain writes what json.Marshal would, if no text needs an escape and no list is nil.
func writePlain(header map[string][]string) (text []byte, ok bool) {
	names, size := make([]string, 0, len(header)), len("{}")
	for name, values := range header {
		if values == nil || !isVerbatim(name) {
			return nil, false
		}
		names = append(names, name)
		size += len(name) + len(`"":[],`)
		for _, v := range values {
			if !isVerbatim(v) {
				return nil, false
			}
			size += len(v) + len(`"",`)
		}
	}
	slices.Sort(names)
	text = append(make([]byte, 0, size), '{')
	for i, name := range names {
		text = append(appendText(text, i, name), ":["...)
		for j, v := range header[name] {
			text = appendText(text, j, v)
		}
		text = append(text, ']')
	}
	return append(text, '}'), true
}

// appendText appends the text at place i of a list.
func appendText(to []byte, i int, s string) []byte {
	if i > 0 {
		to = append(to, ',')
	}
	return append(append(append(to, '"'), s...), '"')
}

// isVerbatim says that json.Marshal writes s as it is.
func isVerbatim(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ' || c > '~':
			return false
		case c == '"' || c == '\\' || c == '<' || c == '>' || c == '&':
			return false
		}
	}
	return true
}

// readPlain reads what writePlain wrote, and knows nothing else. The texts are parts of stored.
func readPlain(stored string) (header map[string][]string, ok bool) {
	header = make(map[string][]string, strings.Count(stored, `":[`))
	if stored == "{}" {
		return header, true
	}
	for before := byte('{'); ; before = ',' {
		var name string
		if name, stored, ok = cutText(stored, before); !ok {
			return nil, false
		}
		values, rest, ok := cutList(stored)
		if !ok {
			return nil, false
		}
		header[name] = values
		if rest == "}" {
			return header, true
		}
		stored = rest
	}
}

// cutList takes ":" and a list from the beginning of s.
func cutList(s string) (values []string, rest string, ok bool) {
	if rest, ok = strings.CutPrefix(s, ":[]"); ok {
		return []string{}, rest, true
	}
	if s, ok = strings.CutPrefix(s, ":"); !ok {
		return nil, "", false
	}
	for before := byte('['); ; before = ',' {
		var v string
		if v, s, ok = cutText(s, before); !ok {
			return nil, "", false
		}
		values = append(values, v)
		if rest, ok = strings.CutPrefix(s, "]"); ok {
			return values, rest, true
		}
	}
}

// cutText takes the byte before and a text behind it from the beginning of s.
func cutText(s string, before byte) (text, rest string, ok bool) {
	if len(s) < 2 || s[0] != before || s[1] != '"' {
		return "", "", false
	}
	text, rest, ok = strings.Cut(s[2:], `"`)
	return text, rest, ok && isVerbatim(text)
}
