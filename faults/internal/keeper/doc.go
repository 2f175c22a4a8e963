// Package keeper runs a server that ends with the test process, whatever ends that process: the last test, a
// panic, os.Exit, -timeout, kill -9. It is what the packages that start servers for tests share.
//
// A handler inside the process can't promise this, so another process does, the keeper: a second copy of the
// test binary, started in its own session, that runs the server as its child. The test process holds the write
// end of the keeper's standard input and nothing else does. When the process is gone, the kernel closes that
// pipe; the keeper reads end of file, kills the server with all its children and removes the folder. So a
// program that imports such a package is a keeper, and nothing else, when it is started with the environment
// variable FIFTY_KEEPER.
//
//   - keeper.go: what the keeper process does; kept.go: how the test process talks to it
//   - owner.go: the user whom a server runs as; ports.go: where it listens; faketime.go: its clock
//   - process_linux.go, process_darwin.go: processes below the keeper
package keeper
