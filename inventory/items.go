package inventory

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fiftyhosts/fifty"
)

// Bounds of what a caller may ask for.
const (
	NameMax     = 255     // bytes of an id or a SKU
	ItemsMax    = 100     // SKUs of one order
	QuantityMax = 1 << 31 // units of a SKU in one order
	SupplyMax   = 1 << 50 // units of a SKU in all
)

// Items are quantities by SKU. An order can't name a SKU twice: add the lines up first, since two lines that
// are checked one by one may each pass where their sum does not.
type Items map[string]int64

// Add counts quantity more units of a SKU, so that lines which share one are one item. It is for building
// Items, which must not be nil.
func (i Items) Add(sku string, quantity int64) { i[sku] += quantity }

// SKUs returns the SKUs in order: the order in which stores lock them.
func (i Items) SKUs() []string { return slices.Sorted(maps.Keys(i)) }

// Validate returns a *fifty.InvalidError that names what is wrong, or nil.
func (i Items) Validate() error {
	switch {
	case len(i) == 0:
		return &fifty.InvalidError{Field: "items", Problem: "is empty; name at least one SKU"}
	case len(i) > ItemsMax:
		return &fifty.InvalidError{Field: "items", Problem: fmt.Sprintf("has %d SKUs; the most is %d", len(i), ItemsMax)}
	}
	for sku, q := range i {
		if validateItem(sku, q) != nil {
			return i.firstInvalid()
		}
	}
	return nil
}

// firstInvalid names what is wrong with the first SKU in order, so that the same items have the same error.
func (i Items) firstInvalid() error {
	for _, sku := range i.SKUs() {
		if err := validateItem(sku, i[sku]); err != nil {
			return err
		}
	}
	return nil
}

func validateItem(sku string, quantity int64) error {
	if err := validateName("items", sku); err != nil {
		return err
	}
	if quantity <= 0 || quantity > QuantityMax {
		return &fifty.InvalidError{
			Field:   fmt.Sprintf("items[%q]", sku),
			Problem: fmt.Sprintf("is %d; a quantity is from 1 to %d", quantity, int64(QuantityMax)),
		}
	}
	return nil
}

// validateName says whether an id or a SKU is one: some text of up to NameMax bytes, without NUL.
func validateName(field, name string) error {
	switch {
	case name == "":
		return &fifty.InvalidError{Field: field, Problem: "has an empty name; name what you mean"}
	case len(name) > NameMax:
		return &fifty.InvalidError{Field: field, Problem: fmt.Sprintf("has a name of %d bytes; the most is %d", len(name), NameMax)}
	case !utf8.ValidString(name) || strings.ContainsRune(name, 0):
		return &fifty.InvalidError{Field: field, Problem: fmt.Sprintf("has a name %q that is not plain text (UTF-8 without NUL)", name)}
	}
	return nil
}

// within says whether every quantity of i is one of at most all's.
func (i Items) within(all Items) bool {
	for sku, q := range i {
		if q > all[sku] {
			return false
		}
	}
	return true
}

// sameItems says whether two orders are the same.
func sameItems(a, b Items) bool { return maps.Equal(a, b) }

// unitsOf is how many units of a SKU the parts have.
func unitsOf(parts []Part, sku string) (units int64) {
	for _, p := range parts {
		if p.SKU == sku {
			units += p.Quantity
		}
	}
	return units
}

// firstOf takes the wanted units from the parts, as far as they go.
func firstOf(parts []Part, wanted Items) (taken []Part) {
	left := maps.Clone(wanted)
	for _, p := range parts {
		if p.Quantity = min(p.Quantity, left[p.SKU]); p.Quantity > 0 {
			left[p.SKU] -= p.Quantity
			taken = append(taken, p)
		}
	}
	return taken
}
