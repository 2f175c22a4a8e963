// Package canon writes JSON in one canonical form, that of RFC 8785: no white space, members ordered by
// the UTF-16 code units of their names, numbers as ECMAScript prints them, the shortest escapes. Two
// texts of one value then have equal bytes, which is what a fingerprint needs.
//
// Unlike the RFC it never merges two values: text whose value is ambiguous, or that a float64 would
// change, has no canonical form, and its caller hashes the bytes as they came.
package canon

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// DepthMax bounds how deep arrays and objects may nest.
const DepthMax = 128

// JSON returns the canonical form of raw, in memory of its own. ok is false, and canonical nil, when raw
// has none: it is not valid JSON in UTF-8, has trailing data, names a member twice in one object, escapes
// a lone surrogate, nests deeper than DepthMax, or holds a number that is not exactly the one that its
// float64 prints as (2⁵³+1, 1e400, 0.1000000000000000055; but 0.1 and 1.50 are fine). -0 is the number 0.
//
// The canonical form is its own canonical form. The time is that of sorting raw's members, and of
// copying raw once for each level that it nests. JSON is safe for concurrent use.
func JSON(raw []byte) (canonical []byte, ok bool) {
	if !utf8.Valid(raw) || !json.Valid(raw) {
		return nil, false
	}
	s := scanner{raw: raw, out: make([]byte, 0, len(raw))}
	if !s.value(DepthMax) {
		return nil, false
	}
	return s.out, true
}

// scanner reads raw, which is valid JSON in valid UTF-8, once, and appends to out. Its methods report
// false when raw has no canonical form.
type scanner struct {
	raw []byte
	at  int // the next byte of raw
	out []byte
}

// next passes over white space and returns the byte after it, without passing over that one.
func (s *scanner) next() byte {
	for strings.IndexByte(" \t\r\n", s.raw[s.at]) >= 0 {
		s.at++
	}
	return s.raw[s.at]
}

// value reads one value, which may hold depth levels of arrays and objects.
func (s *scanner) value(depth int) bool {
	switch s.next() {
	case '{':
		return depth > 0 && s.object(depth-1)
	case '[':
		return depth > 0 && s.array(depth-1)
	case '"':
		text, ok := s.text()
		s.quote(text)
		return ok
	}
	from := s.at
	for s.at < len(s.raw) && strings.IndexByte(" \t\r\n,]}", s.raw[s.at]) < 0 {
		s.at++
	}
	word, ok := string(s.raw[from:s.at]), true
	if c := word[0]; c == '-' || c >= '0' && c <= '9' {
		word, ok = number(word)
	}
	s.out = append(s.out, word...) // or true, false, null
	return ok
}

func (s *scanner) array(depth int) bool {
	s.at++
	s.out = append(s.out, '[')
	for s.next() != ']' {
		if s.next() == ',' {
			s.at++
			s.out = append(s.out, ',')
		}
		if !s.value(depth) {
			return false
		}
	}
	s.at++
	s.out = append(s.out, ']')
	return true
}

// member is a name, and where its canonical text "name":value is in out.
type member struct {
	name     []uint16
	from, to int
}

func (s *scanner) object(depth int) bool {
	s.at++
	start := len(s.out)
	var members []member
	for s.next() != '}' {
		if s.next() == ',' {
			s.at++
			s.next()
		}
		from := len(s.out)
		name, ok := s.text()
		s.quote(name)
		s.next()
		s.at++ // the colon
		s.out = append(s.out, ':')
		if !ok || !s.value(depth) {
			return false
		}
		members = append(members, member{utf16.Encode([]rune(string(name))), from, len(s.out)})
	}
	s.at++
	return s.order(start, members)
}

// order rewrites what out holds from start on, the given members, as an object.
func (s *scanner) order(start int, members []member) bool {
	slices.SortFunc(members, func(a, b member) int { return slices.Compare(a.name, b.name) })
	found := slices.Clone(s.out[start:])
	s.out = append(s.out[:start], '{')
	for i, m := range members {
		if i > 0 && slices.Equal(m.name, members[i-1].name) {
			return false // readers differ in which of the two counts
		}
		if i > 0 {
			s.out = append(s.out, ',')
		}
		s.out = append(s.out, found[m.from-start:m.to-start]...)
	}
	s.out = append(s.out, '}')
	return true
}
