// Package pgserver starts real Postgres servers for tests, which may kill them, freeze them and move their
// clocks.
//
//	server := pgserver.New(t, "wal_level=logical")
//	url := server.Database(t)
//	…
//	server.Kill()  // a crash: kill -9 of all its processes
//	server.Start() // recovery, at the same address
//
// [Shared] is one server for all tests of a test binary; [New] is a server for one test, which may break it;
// [NewSkewed] is one whose clock is wrong. All listen on a free loopback port and live in a temporary folder.
// Nothing needs to be set up or running: Postgres's programs (initdb, postgres) have to be installed, and
// libfaketime for NewSkewed. What is missing fails the test and says what to install. Nothing in this package
// ever skips a test.
//
// fsync stays on, so that a commit takes the time that it really takes, and what was acknowledged outlives a
// kill. A server starts from a copy of what initdb once made, kept in the user's cache folder.
//
// # How a server ends
//
// A server ends with the test process, whatever ends that process: the last test, a panic, os.Exit, -timeout,
// kill -9. Another process sees to it, the keeper: a second copy of the test binary that runs the server as its
// child, and ends it when the pipe from the test process is closed. So a program that imports this package is a
// keeper, and nothing else, when it is started with the environment variable FIFTY_KEEPER.
//
// # Files
//
//   - server.go: the servers, and what a test can do to them
//   - start.go: start and readiness
//   - clock.go: a server's clock
//   - template.go: initdb, once for each version and user
//   - pidfile.go: what a running server says about itself
//   - find.go: where Postgres is looked for, and what to install
//   - kind.go: the keeper, which is faults/internal/keeper
//
// The package is for tests on Linux and macOS.
package pgserver
