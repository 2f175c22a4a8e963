//go:build !unix

package hosts

import (
	"errors"
	"fmt"
)

func pause(*run) error {
	return fmt.Errorf("this system has no SIGSTOP: %w", errors.ErrUnsupported)
}

func resume(*run) error {
	return fmt.Errorf("this system has no SIGCONT: %w", errors.ErrUnsupported)
}
