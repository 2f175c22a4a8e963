// Command fifty is the gateway, its sandbox and its tools. "fifty help" lists the commands.
package main

import "os"

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }
