package lab

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// periodMax is the longest sequence of steps whose repeats are put together.
const periodMax = 4

// A moment is a short sequence of events, and those behind it that are the same by other hosts.
type moment struct {
	first []Event
	more  []Event
}

// fold puts repeats together, so that fifty hosts that do alike are told in few lines.
func fold(events []Event) (moments []moment) {
	for i := 0; i < len(events); {
		period, repeats := 1, 1
		for p := 1; p <= periodMax; p++ {
			if r := repeatsAt(events[i:], p); r > 1 && p*r > period*repeats {
				period, repeats = p, r
			}
		}
		end := i + period*repeats
		moments = append(moments, moment{first: events[i : i+period], more: events[i+period : end]})
		i = end
	}
	return moments
}

// repeatsAt counts how often the first p events come, one sequence behind the other.
func repeatsAt(events []Event, p int) (n int) {
	for at := 0; at+p <= len(events); at += p {
		for j := range p {
			if !same(events[j], events[at+j]) {
				return n
			}
		}
		n++
	}
	return n
}

// same says whether two events are one thing that two hosts did, or that one client did twice.
func same(a, b Event) bool {
	if a.Step != b.Step || a.Host == "" {
		return false
	}
	_, isHost := numberOf(a.Host)
	_, too := numberOf(b.Host)
	return isHost && too || a.Host == b.Host
}

// others names who did the same: the hosts in few words, or else the client and how often.
func (m moment) others() string {
	var numbers []int
	for _, e := range m.more {
		if n, ok := numberOf(e.Host); ok {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	switch len(numbers) {
	case 0:
		return fmt.Sprintf("%s, %s more", m.more[0].Host, counted(len(m.more)/len(m.first), "time"))
	case 1:
		return "host " + ranges(numbers)
	default:
		return "hosts " + ranges(numbers)
	}
}

// again says what they did.
func (m moment) again() string {
	if len(m.first) == 1 {
		return "the same"
	}
	return fmt.Sprintf("the same %d lines", len(m.first))
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
