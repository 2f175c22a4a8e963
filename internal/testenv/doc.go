// Package testenv gives tests real servers of their own.
//
// [Postgres] is one server for all tests of a test binary; [NewPostgres] is a
// server for one test, which may kill it, pause it and start it again. Both
// listen on a free loopback port and live in a temporary folder. [Tool] is the
// path of a program built from internal/tools.
//
// A server that is missing fails the test and says what to install. Nothing in
// this package ever skips a test.
//
// # How a server ends
//
// A server must end with the test process, whatever ends that process: the last
// test, a panic, os.Exit, -timeout, kill -9. A handler inside the process can't
// promise this, so another process does, the keeper: a second copy of the test
// binary, started in its own session, that runs the server as its child. The
// test process holds the write end of the keeper's standard input and nothing
// else does. When the process is gone, the kernel closes that pipe; the keeper
// reads end of file, kills the server with all its children and removes the
// folder.
//
// # Files
//
//   - keeper.go: what the keeper process does.
//   - kept.go: how the test process talks to it.
//   - process_linux.go, process_darwin.go: processes below the keeper.
//   - postgres.go: the servers, and what a test can do to them.
//   - postgres_start.go: ports, start and readiness.
//   - postgres_template.go: initdb, once for each version and user.
//   - postgres_pid.go: what a running server says about itself.
//   - postgres_find.go: where Postgres is looked for, and what to install.
//   - owner.go: the user whom a server runs as.
//   - tool.go: programs built from source.
//   - variable.go: what make check leaves out.
//
// The package is for tests on Linux and macOS.
package testenv
