// Package testenv gives tests what they need from outside: real servers and tools.
//
// [Postgres], [NewPostgres] and [NewSkewedPostgres] are servers of package faults/pgserver. [Tool] is the path of
// a program built from internal/tools.
//
// What is missing fails the test and says what to install. Nothing in this package ever skips a test.
//
// # Files
//
//   - postgres.go: servers.
//   - tool.go: programs built from source.
//   - variable.go: what make check leaves out.
//   - findpostgres: a program that prints where Postgres is; findfaketime: the same for libfaketime.
//
// The package is for tests on Linux and macOS.
package testenv
