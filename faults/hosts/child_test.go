//go:build unix

package hosts_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/fiftyhosts/fifty/faults/hosts"
)

// asChild, as the first argument, makes this test binary a host of the tests; the second says what it does.
const asChild = "be-a-host"

// spun is what the busy threads of a host write.
var spun atomic.Uint64

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == asChild {
		os.Exit(child(os.Args[2], os.Args[3:]))
	}
	goleak.VerifyTestMain(m)
}

// child returns the exit code.
func child(what string, args []string) int {
	switch what {
	case "echo": // each line, until there is no more
		fmt.Println("ready", os.Getpid())
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			fmt.Println("got", lines.Text())
		}
		return 3
	case "obey": // ends properly
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, syscall.SIGTERM)
		fmt.Println("ready")
		<-asked
		fmt.Println("bye")
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ready")
		select {}
	case "spin": // on several threads
		for range 3 {
			go func() {
				runtime.LockOSThread()
				for n := uint64(0); ; n++ {
					spun.Store(n)
				}
			}()
		}
		fmt.Println("ready")
		_, _ = io.Copy(os.Stdout, os.Stdin)
	case "flood":
		line := strings.Repeat("x", 1023) + "\n"
		for range 2 * hosts.OutputMax / len(line) {
			fmt.Print(line)
		}
		fmt.Println("the end")
	case "env":
		fmt.Printf("clock %q\n", os.Getenv("FIFTY_FAULT_CLOCK"))
	case "heir": // leaves a process behind, which holds the output open
		cmd := exec.Command(os.Args[0], asChild, "heritage", args[0])
		cmd.Stdout = os.Stdout
		if err := cmd.Start(); err != nil {
			return 1
		}
		fmt.Println("the last words")
	case "heritage": // stays until it is told
		conn, err := net.Dial("tcp", args[0])
		if err != nil {
			return 1
		}
		_, _ = conn.Read(make([]byte, len("end")))
	case "call": // holds a connection as long as it lives
		return call(args[0])
	case "parent":
		return parent(args[0], args[1])
	}
	return 0
}

// call holds a connection to addr until its standard input ends. When the process is gone, however it went,
// the kernel closes the connection.
func call(addr string) int {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return 1
	}
	defer conn.Close()
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// parent starts two hosts that call addr, freezes one where the kernel can end a frozen one, and ends.
func parent(how, addr string) int {
	all, err := hosts.StartAll(2, func(int) hosts.Config { return hosts.Config{Path: os.Args[0], Args: []string{asChild, "call", addr}} })
	if err != nil {
		fmt.Println(err)
		return 1
	}
	var line string
	_, _ = fmt.Scanln(&line) // both have called
	if runtime.GOOS == "linux" {
		if err := all[1].Pause(); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	fmt.Println("paused")
	switch how {
	case "os.Exit":
		return 0
	case "panic":
		panic("as a test does that goes wrong")
	}
	select {} // until a signal comes
}

// config is for a child of this test binary.
func config(what string, args ...string) hosts.Config {
	return hosts.Config{Path: os.Args[0], Args: append([]string{asChild, what}, args...), Name: what}
}

// start starts one, which ends with the test at the latest.
func start(t *testing.T, c hosts.Config) *hosts.Host {
	t.Helper()
	h, err := hosts.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Kill(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func waitFor(t *testing.T, h *hosts.Host, pattern string) []string {
	t.Helper()
	found, err := h.WaitFor(t.Context(), pattern)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// line is an open line to each process that calls.
type line struct{ net.Listener }

func newLine(t *testing.T) line {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return line{listener}
}

func (l line) addr() string { return l.Addr().String() }

// accept waits for n calls.
func (l line) accept(t *testing.T, n int) (calls []net.Conn) {
	t.Helper()
	for range n {
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		calls = append(calls, conn)
	}
	return calls
}

// wait returns when all callers are gone.
func wait(t *testing.T, calls []net.Conn) {
	t.Helper()
	for _, conn := range calls {
		if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("read %d, %v from a host that says nothing", n, err)
		}
	}
}
