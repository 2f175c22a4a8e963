package lab

import (
	"context"
	"fmt"
	"net"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// The test binary is also what the tests start: a host, and a conductor that can be killed.
const (
	hostArg      = "lab-host"
	conductorArg = "lab-conductor"
	lineEnv      = "FIFTY_LAB_TEST_LINE" // an address that a host keeps a connection to, so that its end shows
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == hostArg {
		os.Exit(beHost())
	}
	if len(os.Args) > 2 && os.Args[1] == conductorArg {
		os.Exit(beConductor(os.Args[2]))
	}
	goleak.VerifyTestMain(m)
}

func beHost() int {
	if addr := os.Getenv(lineEnv); addr != "" {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer conn.Close()
	}
	if err := ServeHost(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// beConductor comes to the middle of a run and stays there.
func beConductor(db string) int {
	cfg := testConfig("check-then-act")
	cfg.DB = db
	cfg.staged = func(*Stage) {
		fmt.Println("staged")
		select {}
	}
	_, err := Play(context.Background(), cfg)
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// testConfig is a small session of this binary.
func testConfig(scenarios ...string) Config {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return Config{Scenarios: scenarios, Hosts: 3, Seed: 7, HostCommand: []string{self, hostArg}}
}
