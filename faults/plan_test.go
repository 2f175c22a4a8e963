package faults_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/fiftyhosts/fifty/faults"
)

func TestPointsWithoutFaultsListEachStateOnce(t *testing.T) {
	trace := []faults.Message{
		{Number: 1, Name: "Parse", First: true}, {Number: 2, Name: "Sync", Last: true},
	}
	var got []string
	for _, p := range faults.Points(trace) {
		got = append(got, p.String())
	}
	want := []string{
		"request-lost at 1 Parse", "zombie at 1 Parse",
		"request-lost at 2 Sync", "reply-lost at 2 Sync", "zombie at 2 Sync", "client-gone at 2 Sync",
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%q", got)
	}
	if all := faults.Points(trace, faults.RequestLost, faults.Partition); len(all) != 4 || all[3].Fault != faults.Partition || all[3].Message.Number != 2 {
		t.Fatalf("%v", all)
	}
}

func TestPlansStrikeWhereTheySay(t *testing.T) {
	messages := []faults.Message{
		{Name: "hello"},
		{Number: 1, Conn: 1, OnConn: 1, Name: "a"},
		{Number: 2, Conn: 2, OnConn: 1, Name: "b"},
		{Number: 3, Conn: 1, OnConn: 2, Name: "b"},
	}
	isB := func(m faults.Message) bool { return m.Name == "b" }
	for name, c := range map[string]struct {
		plan faults.Plan
		want []int // indexes
	}{
		"At":                    {faults.At(2, faults.Zombie), []int{2}},
		"At nothing":            {faults.At(0, faults.Zombie), nil},
		"AtConn":                {faults.AtConn(1, 2, faults.Zombie), []int{3}},
		"AtConn nothing":        {faults.AtConn(0, 0, faults.Zombie), nil},
		"Once":                  {faults.Once(isB, faults.Zombie), []int{2}},
		"a point":               {faults.Point{Fault: faults.Zombie, Message: messages[3]}.Plan(), []int{3}},
		"Random, with a budget": {faults.Random(faults.RandomConfig{OneIn: 1, Budget: 2, Faults: []faults.Fault{faults.Zombie}}), []int{1, 2}},
	} {
		var got []int
		for i, m := range messages {
			switch f := c.plan(m); f {
			case faults.Zombie:
				got = append(got, i)
			case faults.Pass:
			default:
				t.Errorf("%s: %q", name, f)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s strikes at %v, want %v", name, got, c.want)
		}
	}
}

func TestSameSeedChoosesTheSame(t *testing.T) {
	choices := func(seed uint64) string {
		plan := faults.Random(faults.RandomConfig{Seed: seed})
		var all string
		for n := range 1_000 {
			all += fmt.Sprint(plan(faults.Message{Number: n + 1}))
		}
		return all
	}
	first := choices(1)
	if again := choices(1); again != first {
		t.Fatal("one seed, two sequences")
	}
	if choices(2) == first {
		t.Fatal("two seeds, one sequence")
	}
}
