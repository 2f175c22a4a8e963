//go:build linux || darwin

// Command findfaketime prints the path of the libfaketime that the tests would
// use. When there is none it says what to install, and exits 1.
package main

import (
	"fmt"
	"os"

	"github.com/fiftyhosts/fifty/faults/pgserver"
)

func main() {
	library, err := pgserver.FindFaketime()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stdout, library)
}
