package canon

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// text reads a string and returns what it says.
func (s *scanner) text() (text []byte, ok bool) {
	for s.at++; s.raw[s.at] != '"'; {
		c := s.raw[s.at]
		s.at++
		if c != '\\' {
			text = append(text, c)
			continue
		}
		r, ok := s.escape()
		if !ok {
			return nil, false
		}
		text = utf8.AppendRune(text, r)
	}
	s.at++
	return text, true
}

// escape reads what follows a backslash.
func (s *scanner) escape() (r rune, ok bool) {
	c := s.raw[s.at]
	s.at++
	if c != 'u' {
		if i := strings.IndexByte("bfnrt", c); i >= 0 {
			c = "\b\f\n\r\t"[i]
		}
		return rune(c), true
	}
	r = s.hex()
	if !utf16.IsSurrogate(r) {
		return r, true
	}
	if !bytes.HasPrefix(s.raw[s.at:], []byte(`\u`)) {
		return 0, false
	}
	s.at += len(`\u`)
	r = utf16.DecodeRune(r, s.hex())
	return r, r != utf8.RuneError // which no pair stands for
}

func (s *scanner) hex() rune {
	unit, _ := strconv.ParseUint(string(s.raw[s.at:s.at+4]), 16, 16) // raw is valid
	s.at += 4
	return rune(unit)
}

// quote appends text as a string: only what must be escaped is, in the shortest way there is.
func (s *scanner) quote(text []byte) {
	s.out = append(s.out, '"')
	for _, c := range text {
		switch i := strings.IndexByte("\"\\\b\f\n\r\t", c); {
		case i >= 0:
			s.out = append(s.out, '\\', `"\bfnrt`[i])
		case c < ' ':
			s.out = append(s.out, `\u00`...)
			s.out = append(s.out, "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
		default:
			s.out = append(s.out, c)
		}
	}
	s.out = append(s.out, '"')
}

// number returns a JSON number as ECMAScript prints its float64: with the fewest digits that give it back,
// and with an exponent below 1e-6 and from 1e21 on. ok is false if that is not the number that was written.
func number(written string) (printed string, ok bool) {
	f, err := strconv.ParseFloat(written, 64)
	switch size := math.Abs(f); {
	case err != nil:
		return "", false // beyond every float64
	case f == 0:
		printed = "0"
	case size >= 1e-6 && size < 1e21:
		printed = strconv.FormatFloat(f, 'f', -1, 64)
	default:
		printed = strings.Replace(strconv.FormatFloat(f, 'e', -1, 64), "e-0", "e-", 1) // Go prints 1e-07
	}
	return printed, sameSize(written, printed)
}

// sameSize reports whether two numbers, however written, are equal but for their signs. (A float64 other
// than zero has the sign that was written, and zero has none.)
func sameSize(a, b string) bool {
	digitsA, exponentA := decimal(a)
	digitsB, exponentB := decimal(b)
	return digitsA == digitsB && exponentA == exponentB
}

// decimal splits a number's size into digits · 10^exponent, with a zero on neither end of the digits. An
// exponent that no int holds comes back as one that no float64 has.
func decimal(number string) (digits string, exponent int) {
	mantissa, power, _ := strings.Cut(strings.ToLower(strings.TrimPrefix(number, "-")), "e")
	exponent, _ = strconv.Atoi(power) // zero if there is none; the largest int if it is larger
	whole, fraction, _ := strings.Cut(mantissa, ".")
	padded := strings.TrimLeft(whole+fraction, "0")
	digits = strings.TrimRight(padded, "0")
	if digits == "" {
		return "", 0
	}
	return digits, exponent - len(fraction) + len(padded) - len(digits)
}
