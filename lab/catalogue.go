package lab

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// CatalogueMax is the last number of the catalogue of failures.
const CatalogueMax = 13

// scenarios are those that can be played, in the order of the catalogue.
func scenarios() []*Scenario {
	return []*Scenario{
		checkThenAct(),
		windowTooSmall(),
		oversell(),
		longLock(),
		keyPerAttempt(),
		keysAcrossTenants(),
	}
}

// shows are what can be played besides.
func shows() []*Scenario { return []*Scenario{flashSale()} }

// playable is all that can be played.
func playable() []*Scenario { return append(scenarios(), shows()...) }

// An Entry is one line of the catalogue.
type Entry struct {
	Number int    `json:"number"` // 0 for a show
	Name   string `json:"name"`
	Title  string `json:"title"`
	ToCome bool   `json:"to_come"`        // it can't be played yet
	Show   bool   `json:"show,omitempty"` // it is no failure, and is played by its name alone
}

// toCome are the entries without a scenario. Whoever adds one takes its line away here.
var toCome = []Entry{
	{Number: 2, Name: "expired-lock", Title: "A lock that expired under its holder, without a fence"},
	{Number: 3, Name: "lost-update", Title: "Lost update: read, modify, write across services"},
	{Number: 4, Name: "retry-storm", Title: "Retry storm without jitter"},
	{Number: 6, Name: "clock-skew", Title: "Deciding by the clocks of several hosts"},
	{Number: 7, Name: "dual-write", Title: "Dual write: the state and the event apart"},
	{Number: 9, Name: "retry-livelock", Title: "Optimistic retries without a bound, under contention"},
	{Number: 10, Name: "lock-order", Title: "Rows locked in opposite orders"},
	{Number: 12, Name: "stale-read", Title: "A stale read after one's own write"},
}

// Catalogue lists all failures, and the scenarios that show them; then the shows.
func Catalogue() []Entry {
	all := slices.Clone(toCome)
	for i := range all {
		all[i].ToCome = true
	}
	for _, s := range scenarios() {
		all = append(all, Entry{Number: s.Number, Name: s.Name, Title: s.Title})
	}
	slices.SortStableFunc(all, func(a, b Entry) int { return a.Number - b.Number })
	for _, s := range shows() {
		all = append(all, Entry{Name: s.Name, Title: s.Title, Show: true})
	}
	return all
}

// UnknownError says that there is no such scenario, or not yet.
type UnknownError struct {
	Asked   string
	ToCome  bool
	Nearest string   // a name that may have been meant, or ""
	Names   []string // that can be played
}

func (e *UnknownError) Error() string {
	have := "these are there: " + strings.Join(e.Names, ", ")
	switch {
	case e.ToCome:
		return fmt.Sprintf("scenario %s is to come; %s (fifty lab --list shows all)", e.Asked, have)
	case e.Nearest != "":
		return fmt.Sprintf("there is no scenario %q; did you mean %s? Else %s", e.Asked, e.Nearest, have)
	default:
		return fmt.Sprintf("there is no scenario %q; %s (by number too: 1 to %d)", e.Asked, have, CatalogueMax)
	}
}

func byName(name string) (*Scenario, bool) {
	for _, s := range playable() {
		if s.Name == name {
			return s, true
		}
	}
	return nil, false
}

// Find returns the scenarios that are asked for by number or name, each once; all of them but the shows when none
// is. The error is an *UnknownError.
func Find(asked []string) ([]*Scenario, error) {
	if len(asked) == 0 {
		return scenarios(), nil
	}
	all := playable()
	var found []*Scenario
	for _, word := range asked {
		known := false
		for _, s := range all {
			if s.Name != word && (s.Show || strconv.Itoa(s.Number) != word) {
				continue
			}
			known = true
			if !slices.ContainsFunc(found, func(f *Scenario) bool { return f.Name == s.Name }) {
				found = append(found, s)
			}
		}
		if !known {
			return nil, unknown(word, all)
		}
	}
	return found, nil
}

func unknown(word string, all []*Scenario) error {
	e := &UnknownError{Asked: word}
	for _, s := range all {
		e.Names = append(e.Names, s.Name)
	}
	for _, c := range toCome {
		if c.Name == word || strconv.Itoa(c.Number) == word {
			e.Asked, e.ToCome = fmt.Sprintf("%d (%s)", c.Number, c.Name), true
			return e
		}
	}
	least := 4 // further away it is another word
	for _, name := range e.Names {
		if d := distance(word, name); d < least {
			least, e.Nearest = d, name
		}
	}
	return e
}

// distance is how many letters must be changed, added or taken away to make b of a (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(row[j+1]+1, row[j]+1, cost)
		}
	}
	return row[len(b)]
}
