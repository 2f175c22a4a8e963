package canon_test

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/fiftyhosts/fifty/internal/canon"
)

func TestCanonicalForm(t *testing.T) {
	table := []struct{ name, raw, want string }{
		{"white space", " {\r\n\t\"a\" : [ 1 , 2 ] } \n", `{"a":[1,2]}`},
		{"scalars stand alone", ` null `, `null`},
		{"words", `[true,false,null]`, `[true,false,null]`},
		{"empty", `[ { } , [ ] , "" ]`, `[{},[],""]`},
		{"members in order", `{"b":1,"a":2,"":3}`, `{"":3,"a":2,"b":1}`},
		{"members in order at any depth", `[{"z":{"d":[{"y":1,"x":2}],"c":0},"a":1}]`, `[{"a":1,"z":{"c":0,"d":[{"x":2,"y":1}]}}]`},
		{"elements keep theirs", `[3,1,2]`, `[3,1,2]`},
		{"order is not numeric", `{"10":1,"9":2,"1":3}`, `{"1":3,"10":1,"9":2}`},
		{"upper case first", `{"a":1,"B":2,"A":3,"_":4}`, `{"A":3,"B":2,"_":4,"a":1}`},
		{"prefix first", `{"ab":1,"a":2,"aa":3}`, `{"a":2,"aa":3,"ab":1}`},
		{
			// U+1F600 is D83D DE00 in UTF-16: before U+E000 and U+FB33, though above both.
			"order is by UTF-16", `{"` + "\ufb33" + `":1,"` + "\U0001f600" + `":2,"` + "\ue000" + `":3,"` + "\ud7ff" + `":4,"z":5}`,
			`{"z":5,"` + "\ud7ff" + `":4,"` + "\U0001f600" + `":2,"` + "\ue000" + `":3,"` + "\ufb33" + `":1}`,
		},
		{"order is by what names say", `{"\u0062":1,"a":2,"\n":3}`, `{"\n":3,"a":2,"b":1}`},
		{"escapes that must be", `"\u0000\u0007\u001F\b\t\n\f\r\"\\"`, `"\u0000\u0007\u001f\b\t\n\f\r\"\\"`},
		{"escapes in long form", `"\u0008\u0009\u000a\u000C\u000d\u0022\u005C"`, `"\b\t\n\f\r\"\\"`},
		{"escapes that need not be", `"\/\u002F\u003c\u0026\u007f\u00e9\u20AC\u2028"`, `"//<&` + "\u007fé€\u2028" + `"`},
		{"pairs of surrogates", `"\uD83D\uDE00\udbff\udfff"`, `"` + "\U0001f600\U0010ffff" + `"`},
		{"replacement character", `"\ufffd` + "\ufffd" + `"`, `"` + "\ufffd\ufffd" + `"`},
		{"a backslash before u is no escape", `"\\ud800"`, `"\\ud800"`},
		{"no normalisation", `["` + "e\u0301" + `","é"]`, `["` + "e\u0301" + `","é"]`},
		{"names apart only by normalisation", `{"é":1,"` + "e\u0301" + `":2}`, `{"` + "e\u0301" + `":2,"é":1}`},
		{"one name in two objects", `[{"a":1},{"a":{"a":2}}]`, `[{"a":1},{"a":{"a":2}}]`},
	}
	for _, tt := range table {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := canon.JSON([]byte(tt.raw))
			if !ok || string(got) != tt.want {
				t.Errorf("JSON(%s) = %s, %v; want %s", tt.raw, got, ok, tt.want)
			}
		})
	}
}

func TestNumbersAreThoseOfECMAScript(t *testing.T) {
	for want, ways := range map[string][]string{
		"0":                       {"0", "-0", "0.0", "-0.000", "0e7", "0E-99999999999999999999", "-0e+400"},
		"1":                       {"1", "1.0", "1e0", "10e-1", "0.1E+1", "100e-0002"},
		"-1.5":                    {"-1.5", "-1.50", "-15e-1", "-0.0015e3"},
		"0.1":                     {"0.1", "0.10", "1e-1", "1E-1"},
		"1000000":                 {"1e6", "1000000", "0.000001e12"},
		"0.000001":                {"0.000001", "1e-6", "1E-06"},
		"1e-7":                    {"0.0000001", "1e-7", "0.1e-6"},
		"-1.25e-10":               {"-0.000000000125", "-125e-12"},
		"100000000000000000000":   {"1e20", "100000000000000000000"},
		"1e+21":                   {"1e21", "1000000000000000000000", "1E+21", "0.1e22"},
		"1.5e+300":                {"1.5e300", "15e+299"},
		"9007199254740991":        {"9007199254740991"},
		"9007199254740992":        {"9007199254740992", "9007199254740992.0"},
		"9007199254740994":        {"9007199254740994"},
		"1.7976931348623157e+308": {"1.7976931348623157e308"},
		"5e-324":                  {"5e-324", "0.5e-323"},
		"2.2250738585072014e-308": {"2.2250738585072014e-308"},
		"1e+23":                   {"1e23"}, // not a float64, but the shortest name of one
		"123456.789":              {"123456.789", "123456789e-3"},
		"1e-10":                   {"1e-10", "1" + "e-0000000000000000000000010", "0." + strings.Repeat("0", 9) + "1" + strings.Repeat("0", 2000)},
	} {
		for _, written := range ways {
			if got, ok := canon.JSON([]byte(written)); !ok || string(got) != want {
				t.Errorf("JSON(%.60s) = %s, %v; want %s", written, got, ok, want)
			}
		}
	}
}

func TestEveryFloatThatIsPrintedShortestIsKept(t *testing.T) {
	for _, f := range []float64{math.Pi, -math.E, math.MaxFloat64, math.SmallestNonzeroFloat64, 1.0 / 3, 1 << 53, 1e21 - 1<<17, 1 - 1.0/(1<<53)} {
		for power := -300; power < 300; power += 7 {
			scaled := f * math.Pow(10, float64(power))
			if math.IsInf(scaled, 0) {
				continue
			}
			got, ok := canon.JSON(strconv.AppendFloat(nil, scaled, 'e', -1, 64))
			if !ok {
				t.Fatalf("%g has no canonical form", scaled)
			}
			if back, err := strconv.ParseFloat(string(got), 64); err != nil || back != scaled {
				t.Errorf("%g became %s", scaled, got)
			}
			viaGo, err := json.Marshal(scaled) // prints as ECMAScript does, but for -0
			if err != nil || scaled != 0 && string(viaGo) != string(got) {
				t.Errorf("%g is printed %s, encoding/json prints %s", scaled, got, viaGo)
			}
		}
	}
}

func TestWhatHasNoCanonicalForm(t *testing.T) {
	deep := func(levels int) string {
		return strings.Repeat(`[{"a":`, levels/2) + "1" + strings.Repeat("}]", levels/2)
	}
	if _, ok := canon.JSON([]byte(deep(canon.DepthMax))); !ok {
		t.Errorf("%d levels are refused", canon.DepthMax)
	}
	for name, raws := range map[string][]string{
		"not JSON": {
			"", " ", "{", "[1,]", "[,1]", `{"a"}`, `{"a":1,}`, `{a:1}`, `{1:1}`, "[1 2]", `{"a":1 "b":2}`, "tru", "nul", "TRUE",
			"01", "-01", "+1", ".5", "5.", "1e", "1e+", "-", "0x1", "NaN", "Infinity", "1_0", "'a'", `"a`, `"\x"`, `"\u12"`, `"\u12g4"`,
			"\"\n\"", "\"\x00\"", "\x00", "[1]\x00", "\u00a01", "/**/1", "]", "[}",
		},
		"data behind it":    {"1 2", "{}{}", "[]]", "null,", `"a" "b"`, "1\n\n2"},
		"a byte order mark": {"\ufeff{}"},
		"a name twice":      {`{"a":1,"a":1}`, `{"a":1,"b":2,"a":3}`, `{"":1,"":2}`, `{"a":1,"\u0061":2}`, `[[{"x":{"k":1,"k":2}}]]`, `{"é":1,"\u00e9":2}`},
		"invalid UTF-8":     {"\"\xff\"", "\"\xc3\"", "{\"\x80\":1}", "\"\xc0\xaf\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", "\xff"},
		"a lone surrogate":  {`"\ud800"`, `"\udc00"`, `"\ud800a"`, `"\ud800\u0061"`, `"\udc00\ud800"`, `"\ud800\\udc00"`, `"\ud800\ud800\udc00"`, `{"\udfff":1}`, `["\uD83D","\uDE00"]`},
		"a float64 would change it": {
			"9007199254740993", "-9007199254740993", "123456789012345678901", "1e400", "-1e400", "1e-400", "-1e-400", "0.1000000000000000055",
			"0.10000000000000001", "1.7976931348623159e308", "4.9e-324", "2e-324", "1e99999999999999999999", "1e-99999999999999999999",
			"1" + strings.Repeat("0", 92233) + "e-9223372036854775808", "0." + strings.Repeat("0", 400) + "1", "1" + strings.Repeat("0", 400),
			"1." + strings.Repeat("0", 1000) + "1", `{"id":[9007199254740993]}`,
		},
		"nested too deep": {"[" + deep(canon.DepthMax) + "]", `{"a":` + deep(canon.DepthMax) + "}", strings.Repeat("[", 1000) + strings.Repeat("]", 1000), strings.Repeat("[", 1_000_000)},
	} {
		for _, raw := range raws {
			if got, ok := canon.JSON([]byte(raw)); ok || got != nil {
				t.Errorf("%s: JSON(%.60q) = %s, %v; want none", name, raw, got, ok)
			}
		}
	}
}

// strconv.ParseFloat reads an integer of more than 800 digits with an exponent as too small: this one as
// 0.1. It must not merge with that.
func TestMisreadNumberIsNotMerged(t *testing.T) {
	for _, zeros := range []int{700, 799, 800, 900, 20_000} {
		raw := "1" + strings.Repeat("0", zeros) + "e-" + strconv.Itoa(zeros)
		if got, ok := canon.JSON([]byte(raw)); ok && string(got) != "1" {
			t.Errorf("1 with %d zeros more and as many less became %s", zeros, got)
		}
	}
}

func TestRawIsLeftAlone(t *testing.T) {
	const text = ` {"b":[1.0],"a":"\u0061"} `
	raw := []byte(text)
	got, ok := canon.JSON(raw)
	if string(raw) != text {
		t.Errorf("raw became %s", raw)
	}
	clear(raw)
	if want := `{"a":"a","b":[1]}`; !ok || string(got) != want {
		t.Errorf("the canonical form shares raw's memory: %s", got)
	}
}

// value decodes text for comparison, with numbers as exact fractions.
func value(t rapid.TB, text []byte) any {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return exact(t, v)
}

// number keeps the number 1 apart from the string "1".
type number struct{ fraction string }

func exact(t rapid.TB, v any) any {
	switch v := v.(type) {
	case json.Number:
		// Of zero any exponent is zero, also one that is too large for a fraction.
		digits := v.String()
		if mantissa, _, _ := strings.Cut(strings.ToLower(digits), "e"); strings.Trim(mantissa, "-0.") == "" {
			digits = "0"
		}
		fraction, ok := new(big.Rat).SetString(digits)
		if !ok {
			t.Fatalf("%s is no number", v)
		}
		return number{fraction.RatString()}
	case []any:
		for i := range v {
			v[i] = exact(t, v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = exact(t, v[name])
		}
	}
	return v
}

func FuzzCanon(f *testing.F) {
	for _, seed := range []string{
		`{"b":1,"a":[true,null,{"z":-0,"y":1e21}]}`, `"\ud83d\ude00\u2028"`, `"\ud800"`, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`,
		`9007199254740993`, `0.1000000000000000055`, `1E-7`, `-0.0`, `1e400`, `[[[[]]]]`, "\"\xff\"", `{"` + "\U0001f600" + `":1,"` + "\ue000" + `":2}`,
		`0E88800880000000000008`, ` [ 1 , "\/" ] `, `{"":{"":{}}}`, `1 2`, `"\u0000\u001f"`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		canonical, ok := canon.JSON(raw)
		if !ok {
			return
		}
		again, ok := canon.JSON(canonical)
		if !ok || string(again) != string(canonical) {
			t.Errorf("%q becomes %q, and that %q, %v", raw, canonical, again, ok)
		}
		if got, want := value(t, canonical), value(t, raw); !reflect.DeepEqual(got, want) {
			t.Errorf("%q becomes %q, another value", raw, canonical)
		}
	})
}
