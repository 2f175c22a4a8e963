package inventorytest

import "testing"

func TestNamesOfCasesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	all := append(cases(nil, Features{}, nil), txCases[struct{}](nil, Features{}, nil)...)
	for _, c := range all {
		if seen[c.Name] {
			t.Errorf("two cases are called %q", c.Name)
		}
		seen[c.Name] = true
	}
	if len(all) < 90 {
		t.Errorf("there are %d cases", len(all))
	}
}
