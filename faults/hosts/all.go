package hosts

import (
	"errors"
	"fmt"
)

// AllMax bounds how many hosts [StartAll] starts.
const AllMax = 256

// StartAll starts n hosts, each with what config gives for its index, or none: after an error all that had
// started are gone again. n is 1 to [AllMax].
func StartAll(n int, config func(i int) Config) ([]*Host, error) {
	if n < 1 || n > AllMax {
		return nil, fmt.Errorf("hosts: can't start %d hosts: from 1 to %d are possible", n, AllMax)
	}
	all := make([]*Host, 0, n)
	for i := range n {
		h, err := Start(config(i))
		if err != nil {
			return nil, errors.Join(err, KillAll(all))
		}
		all = append(all, h)
	}
	return all, nil
}

// KillAll kills the hosts, one after the other, and returns when all are gone.
func KillAll(all []*Host) error {
	var failed []error
	for _, h := range all {
		failed = append(failed, h.Kill())
	}
	return errors.Join(failed...)
}
