package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
)

// profiled runs measure, one slice. With --profile, a slice of ours leaves a file that says where its time
// went; go tool pprof takes all files of a case at once and adds them up.
func (b *bench) profiled(ours bool, round int, measure func() error) error {
	if b.profiles == "" || !ours {
		return measure()
	}
	name := fmt.Sprintf("%s-%d.pprof", strings.ReplaceAll(b.name, "/", "-"), round)
	file, err := os.Create(filepath.Join(b.profiles, name))
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return errors.Join(err, file.Close())
	}
	err = measure()
	pprof.StopCPUProfile()
	return errors.Join(err, file.Close())
}
