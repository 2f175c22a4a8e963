package lab

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// same says whether two events are one thing that two hosts did.
func same(a, b Event) bool { return a.Step == b.Step && a.Host != "" && b.Host != "" }

// fold puts events together that are the same and follow each other.
func fold(events []Event) (moments [][]Event) {
	for _, e := range events {
		last := len(moments) - 1
		if last >= 0 && same(moments[last][0], e) {
			moments[last] = append(moments[last], e)
			continue
		}
		moments = append(moments, []Event{e})
	}
	return moments
}

// lanesOf names the hosts of some events in few words: "hosts 1–2, 4–8", "client".
func lanesOf(events []Event) string {
	var numbers []int
	var names []string
	for _, e := range events {
		if n, ok := numberOf(e.Host); ok {
			numbers = append(numbers, n)
		} else if !slices.Contains(names, e.Host) {
			names = append(names, e.Host)
		}
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	if len(numbers) > 0 {
		word := "hosts "
		if len(numbers) == 1 {
			word = "host "
		}
		names = append([]string{word + ranges(numbers)}, names...)
	}
	return strings.Join(names, ", ")
}

// numberOf is the number of a host: 3 of "host 3".
func numberOf(lane string) (int, bool) {
	text, ok := strings.CutPrefix(lane, "host ")
	n, err := strconv.Atoi(text)
	return n, ok && err == nil
}

// ranges writes sorted numbers as "1–2, 4–8".
func ranges(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		part := strconv.Itoa(numbers[i])
		if j > i {
			part = fmt.Sprintf("%d–%d", numbers[i], numbers[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ", ")
}
