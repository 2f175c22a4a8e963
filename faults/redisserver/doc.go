// Package redisserver starts real Redis servers for tests, which may kill them, freeze them and move their
// clocks.
//
//	server := redisserver.New(t, "appendfsync everysec")
//	client, err := rueidis.NewClient(rueidis.MustParseURL(server.URL()))
//	…
//	server.Kill()  // a crash: kill -9
//	server.Start() // it reads its log, at the same address
//
// [Shared] is one server for all tests of a test binary, which keep apart by their keys; [New] is a server for
// one test, which may break it; [NewSkewed] is one whose clock can be wrong. All listen on a free loopback port,
// ask for a password and live in a temporary folder. Nothing needs to be set up or running: redis-server has to
// be installed, and libfaketime for NewSkewed. What is missing fails the test and says what to install. Nothing
// in this package ever skips a test.
//
// Unless a setting says otherwise, each write is in the append-only file, on the disk, before its answer goes
// out (appendonly yes, appendfsync always), and there are no snapshots.
//
// A server ends with the test process, whatever ends that process. Another process sees to it, the keeper: a
// second copy of the test binary that runs the server as its child. So a program that imports this package is a
// keeper, and nothing else, when it is started with the environment variable FIFTY_KEEPER.
//
// The package is for tests on Linux and macOS.
package redisserver
