package history_test

import (
	"errors"
	"fmt"
	"os"

	"github.com/anishathalye/porcupine"

	"github.com/fiftyhosts/fifty/faults/history"
)

// A lock that two callers hold at once.
func ExampleCheck() {
	rec := history.NewRecorder[string, bool](nil)
	rec.Begin(1, "lock", "acquire").End(true)
	rec.Begin(2, "lock", "acquire").End(true)

	lock := porcupine.Model{
		Init: func() any { return false },
		Step: func(held, input, output any) (bool, any) {
			won, known := output.(bool)
			return !known || won != held.(bool), true
		},
	}
	dir, err := os.MkdirTemp("", "histories-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	h, err := rec.History()
	if err != nil {
		panic(err)
	}
	_, err = history.Check(h, history.Config{Model: lock, Dir: dir})
	failure, _ := errors.AsType[*history.CheckError](err)
	fmt.Println(failure.Key, "is illegal:", errors.Is(err, history.ErrIllegal))
	// Output: lock is illegal: true
}
