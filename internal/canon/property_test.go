package canon_test

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"

	"github.com/fiftyhosts/fifty/internal/canon"
)

// object is a JSON object whose members have an order, so that it can be shuffled.
type object []entry

type entry struct {
	name  string
	value any
}

var (
	anyNumber = rapid.OneOf(rapid.Float64(), rapid.Map(rapid.IntRange(-1000, 1000), func(n int) float64 { return float64(n) }))
	anyText   = rapid.OneOf(rapid.String(), rapid.StringOf(rapid.RuneFrom([]rune("a\u0000\n\"\\/<\u00e9\ud7ff\ue000\ufffd\uffff\U00010000\U0001f600\U0010ffff"))))
)

// drawValue draws a JSON value: nil, bool, float64, string, []any or object.
func drawValue(t *rapid.T, depth int) any {
	kinds := 6
	if depth == 0 {
		kinds = 4
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(t, "bool")
	case 2:
		return anyNumber.Draw(t, "number")
	case 3:
		return anyText.Draw(t, "text")
	case 4:
		array := make([]any, rapid.IntRange(0, 4).Draw(t, "elements"))
		for i := range array {
			array[i] = drawValue(t, depth-1)
		}
		return array
	}
	names := rapid.SliceOfNDistinct(anyText, 0, 5, rapid.ID).Draw(t, "names")
	members := make(object, len(names))
	for i, name := range names {
		members[i] = entry{name, drawValue(t, depth-1)}
	}
	return members
}

// write writes v in a way that it draws: order of members, white space, escapes, forms of numbers.
func write(t *rapid.T, v any) string {
	space := rapid.SampledFrom([]string{"", "", " ", "\n\t", "\r\n"}).Draw(t, "space")
	var text string
	switch v := v.(type) {
	case float64:
		form := rapid.SampledFrom([]byte("efgEG")).Draw(t, "form")
		text = strconv.FormatFloat(v, form, -1, 64)
	case string:
		text = writeText(t, v)
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = write(t, v[i])
		}
		text = "[" + space + strings.Join(parts, ",") + "]"
	case object:
		parts := make([]string, len(v))
		for i, m := range rapid.Permutation(v).Draw(t, "order") {
			parts[i] = writeText(t, m.name) + space + ":" + write(t, m.value)
		}
		text = "{" + space + strings.Join(parts, ","+space) + "}"
	case bool:
		text = strconv.FormatBool(v)
	default:
		text = "null"
	}
	return space + text + space
}

func writeText(t *rapid.T, text string) string {
	escapeAll := rapid.Bool().Draw(t, "escape all")
	var b strings.Builder
	for _, r := range text {
		if !escapeAll && r >= ' ' && r != '"' && r != '\\' {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04X`, unit)
		}
	}
	return `"` + b.String() + `"`
}

func TestEveryWayToWriteAValueHasOneCanonicalForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawValue(t, 3)
		one, other := write(t, v), write(t, v)
		first, ok := canon.JSON([]byte(one))
		if !ok {
			t.Fatalf("%s has no canonical form", one)
		}
		second, ok := canon.JSON([]byte(other))
		if !ok || string(first) != string(second) {
			t.Fatalf("%s becomes %s, but\n%s becomes %s, %v", one, first, other, second, ok)
		}
		again, ok := canon.JSON(first)
		if !ok || string(again) != string(first) {
			t.Fatalf("%s is not its own canonical form, but %s, %v", first, again, ok)
		}
		if !reflect.DeepEqual(value(t, first), value(t, []byte(one))) {
			t.Fatalf("%s becomes %s, another value", one, first)
		}
	})
}

// Texts of a tiny alphabet are often nearly equal: what has one canonical form must be one value.
func TestTwoValuesNeverHaveOneCanonicalForm(t *testing.T) {
	alphabet := rapid.SampledFrom([]string{"0", "-0", "1", "1.0", "10e-1", "9007199254740992", "9007199254740993", `""`, `"1"`, `"\u0031"`, "null", `"null"`, "[]", "{}", "[1]", "[[1]]", "[1,1]", `{"a":1}`, `{"a":[1]}`, `{"\u0061":1.0}`, `{"a":1,"b":0}`, `{"b":0,"a":1}`, `{"b":1,"a":0}`})
	pairs := rapid.SliceOfN(alphabet, 1, 3)
	rapid.Check(t, func(t *rapid.T) {
		one := "[" + strings.Join(pairs.Draw(t, "one"), ",") + "]"
		other := "[" + strings.Join(pairs.Draw(t, "other"), ",") + "]"
		first, ok := canon.JSON([]byte(one))
		second, okOther := canon.JSON([]byte(other))
		if !ok || !okOther {
			return // hashed as they came
		}
		merged := string(first) == string(second)
		if same := reflect.DeepEqual(value(t, []byte(one)), value(t, []byte(other))); merged != same {
			t.Fatalf("%s becomes %s and %s becomes %s; same value: %v", one, first, other, second, same)
		}
	})
}
