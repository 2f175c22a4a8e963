package redis

import (
	"context"
	"strings"
)

// WithHook makes the store call hook before each script.
func (s *Store) WithHook(hook func(ctx context.Context, point string)) *Store {
	s.step = hook
	return s
}

// Keys are the keys of the store.
func (s *Store) Keys() []string { return s.keys }

// Plant breaks the scripts of this package on purpose: in the script of that name, or in what all share for
// "common", old becomes new. It returns what repairs them, or false if old is not there exactly once. Nothing
// else may use the package meanwhile.
func Plant(name, old, replacement string) (repair func(), ok bool) {
	scripts := map[string]**script{"reserve": &reserveScript, "settle": &settleScript, "supply": &supplyScript, "sweep": &sweepScript}
	was := map[string]*script{}
	for n, s := range scripts {
		was[n] = *s
		if n != name && name != "common" {
			continue
		}
		if strings.Count((*s).text, old) != 1 {
			for n, s := range was {
				*scripts[n] = s
			}
			return nil, false
		}
		*s = named(n, strings.Replace(was[n].text, old, replacement, 1))
	}
	return func() {
		for n, s := range was {
			*scripts[n] = s
		}
	}, true
}
