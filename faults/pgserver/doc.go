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
// A server must end with the test process, whatever ends that process: the last test, a panic, os.Exit,
// -timeout, kill -9. A handler inside the process can't promise this, so another process does, the keeper: a
// second copy of the test binary, started in its own session, that runs the server as its child. The test
// process holds the write end of the keeper's standard input and nothing else does. When the process is gone,
// the kernel closes that pipe; the keeper reads end of file, kills the server with all its children and removes
// the folder. So a program that imports this package is a keeper, and nothing else, when it is started with the
// environment variable FIFTY_PGSERVER_KEEPER.
//
// # Files
//
//   - server.go: the servers, and what a test can do to them
//   - start.go: ports, start and readiness
//   - clock.go: a server's clock
//   - template.go: initdb, once for each version and user
//   - pidfile.go: what a running server says about itself
//   - find.go: where Postgres is looked for, and what to install
//   - owner.go: the user whom a server runs as
//   - keeper.go: what the keeper process does; kept.go: how the test process talks to it
//   - process_linux.go, process_darwin.go: processes below the keeper
//
// The package is for tests on Linux and macOS.
package pgserver
