//go:build linux || darwin

// Command findpostgres prints the folder of the Postgres programs that the
// tests would use. When there are none it says what to install, and exits 1.
package main

import (
	"fmt"
	"os"

	"github.com/fiftyhosts/fifty/faults/pgserver"
)

func main() {
	folder, err := pgserver.Find()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stdout, folder)
}
