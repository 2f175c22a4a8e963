package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/server/sandbox"
)

// reservedPort is an address that nobody listens on and nobody else can take, until serve is called.
type reservedPort struct {
	tb     testing.TB
	url    string
	socket int
}

func newReservedPort(tb testing.TB) *reservedPort {
	tb.Helper()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		tb.Fatal(err)
	}
	syscall.CloseOnExec(socket)
	p := &reservedPort{tb: tb, socket: socket}
	tb.Cleanup(func() {
		if p.socket >= 0 {
			_ = syscall.Close(p.socket)
		}
	})
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		tb.Fatal(err)
	}
	name, err := syscall.Getsockname(socket)
	if err != nil {
		tb.Fatal(err)
	}
	p.url = fmt.Sprintf("http://127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	return p
}

// serve puts a sandbox there, until the test ends.
func (p *reservedPort) serve() {
	p.tb.Helper()
	if err := syscall.Listen(p.socket, 128); err != nil {
		p.tb.Fatal(err)
	}
	file := os.NewFile(uintptr(p.socket), "reserved port")
	p.socket = -1 // the file closes it
	listener, err := net.FileListener(file)
	_ = file.Close() // the listener has a copy
	if err != nil {
		p.tb.Fatal(err)
	}
	server := &http.Server{Handler: sandbox.New(sandbox.NewMemory(), sandbox.Config{}), ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	p.tb.Cleanup(func() {
		_ = server.Close()
		<-done
	})
}
