package server

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// text reads a text that is not empty.
func (r *configReader) text(at place, example string) (string, bool) {
	var value string
	switch n := at.node.(type) {
	case *ast.StringNode:
		value = n.Value
	case *ast.LiteralNode:
		value = n.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		r.fault(at, "must be text and is %s; put it in quotes", kind(at.node))
		return "", false
	default:
		r.fault(at, "must be text, such as %q, and is %s", example, kind(at.node))
		return "", false
	}
	if strings.TrimSpace(value) == "" {
		r.fault(at, "is empty; give it a value, such as %q", example)
		return "", false
	}
	return value, true
}

// texts reads a list of texts, or one text alone.
func (r *configReader) texts(at place, example string) ([]string, []place) {
	list, ok := at.node.(*ast.SequenceNode)
	if !ok {
		value, ok := r.text(at, example)
		if !ok {
			return nil, nil
		}
		return []string{value}, []place{at}
	}
	if len(list.Values) == 0 {
		r.fault(at, "is empty; name at least one, such as %q", example)
	}
	var values []string
	var places []place
	for i, n := range list.Values {
		here := place{path: fmt.Sprintf("%s[%d]", at.path, i), node: n}
		if value, ok := r.text(here, example); ok {
			values, places = append(values, value), append(places, here)
		}
	}
	return values, places
}

// choice reads one of the allowed words.
func (r *configReader) choice(at place, allowed []string) (string, bool) {
	value, ok := r.text(at, allowed[0])
	if !ok {
		return "", false
	}
	for _, a := range allowed {
		if value == a {
			return value, true
		}
	}
	last := len(allowed) - 1
	r.fault(at, "%q is not known; only %s and %s are", value, strings.Join(allowed[:last], ", "), allowed[last])
	return "", false
}

func (r *configReader) boolean(at place, into *bool) {
	n, ok := at.node.(*ast.BoolNode)
	if !ok {
		r.fault(at, "must be true or false, and is %s", kind(at.node))
		return
	}
	*into = n.Value
}

// duration reads a span within bounds, both included.
func (r *configReader) duration(at place, low, high time.Duration, into *time.Duration) {
	if n, ok := at.node.(*ast.IntegerNode); ok {
		r.fault(at, "has no unit; write %ss or %sms", n.GetToken().Value, n.GetToken().Value)
		return
	}
	value, ok := r.text(at, "30s")
	if !ok {
		return
	}
	d, err := time.ParseDuration(value)
	switch {
	case err != nil:
		r.fault(at, "%q is not a duration; write 300ms, 30s, 5m or 1h30m", value)
	case d < low || d > high:
		r.fault(at, "%v is out of bounds; from %v to %v is allowed", d, low, high)
	default:
		*into = d
	}
}

// size reads a number of bytes of at least one.
func (r *configReader) size(at place, high int64, into *int64) {
	var value string
	if n, ok := at.node.(*ast.IntegerNode); ok {
		value = n.GetToken().Value
	} else if value, ok = r.text(at, "1MiB"); !ok {
		return
	}
	n, err := ParseSize(value)
	switch {
	case err != nil:
		r.fault(at, "%v", err)
	case n < 1 || n > high:
		r.fault(at, "%s is out of bounds; from 1B to %s is allowed", value, formatSize(high))
	default:
		*into = n
	}
}

// sizeUnits has the longer names first, since a shorter one ends some of them.
var sizeUnits = []struct {
	name  string
	bytes int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}, {"", 1}}

// ParseSize reads a number of bytes with a unit: B, KiB, MiB, GiB, or none for bytes.
func ParseSize(text string) (int64, error) {
	for _, u := range sizeUnits {
		digits, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimRight(digits, " "), 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/u.bytes {
			break
		}
		return n * u.bytes, nil
	}
	return 0, fmt.Errorf("%q is not a size; write 65536, 64KiB, 1MiB or 1GiB", text)
}

func formatSize(n int64) string {
	for _, u := range sizeUnits {
		if u.bytes > 1 && n >= u.bytes && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

// nearest is the known name that a misspelt one was most likely meant to be, or "".
func nearest(name string, known []string) string {
	const lengthMax = 40 // nothing known is near to more
	if len(name) > lengthMax {
		return ""
	}
	best, least := "", 1+max(1, len(name)/3)
	for _, k := range known {
		if d := editDistance(strings.ToLower(name), k); d < least {
			best, least = k, d
		}
	}
	return best
}

// editDistance counts the insertions, deletions and replacements that lead from a to b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
