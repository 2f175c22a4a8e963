package hosts

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fiftyhosts/fifty/internal/wall"
)

// A Config says what a host runs.
type Config struct {
	// Path is the program. It is looked up in PATH when it has no slash. Required.
	Path string

	// Args are its arguments, without its name. Defaults to none.
	Args []string

	// Env is its whole environment, each "NAME=value". Defaults to this process's own, without
	// FIFTY_FAULT_CLOCK.
	Env []string

	// Dir is the folder that it runs in. Defaults to this process's.
	Dir string

	// Name is what errors call it. Defaults to the last part of Path.
	Name string

	// Output gets all that the host writes to standard output and standard error, as it comes, beside
	// what the Host keeps. It is written to by one goroutine per host, and a slow one slows the host
	// down. After its first error it gets nothing more. Defaults to nothing.
	Output io.Writer

	// Clock is how far the host's clock is ahead of the real one; negative is behind. It reaches the
	// program as FIFTY_FAULT_CLOCK, which fifty heeds only in a build with the tag faultclock.
	// Defaults to no skew: Env as it is.
	Clock time.Duration
}

func (c Config) name() string { return cmp.Or(c.Name, filepath.Base(c.Path)) }

func (c Config) command() (*exec.Cmd, error) {
	if c.Path == "" {
		return nil, errors.New("Config.Path is empty: name the program to start")
	}
	if c.Dir != "" { // or the error would be about Path
		if _, err := os.Stat(c.Dir); err != nil {
			return nil, fmt.Errorf("its folder: %w", err)
		}
	}
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Dir = c.Dir
	cmd.Env = c.environment()
	cmd.SysProcAttr = endWithParent()
	cmd.WaitDelay = drainMax
	return cmd, nil
}

func (c Config) environment() []string {
	const clock = wall.Variable + "="
	isClock := func(v string) bool { return strings.HasPrefix(v, clock) }
	env := slices.Clone(c.Env)
	if c.Env == nil {
		env = slices.DeleteFunc(os.Environ(), isClock)
	}
	if c.Clock != 0 {
		env = append(slices.DeleteFunc(env, isClock), clock+c.Clock.String())
	}
	return env
}
