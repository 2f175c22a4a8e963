package faults_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"github.com/fiftyhosts/fifty/faults"
)

// A payment is made although its answer is lost; a client that asks again without a key pays twice.
func Example() {
	var payments atomic.Int64
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, "payment %d", payments.Add(1))
	}))
	defer service.Close()

	proxy, err := faults.Start(faults.Config{
		Upstream: service.Listener.Addr().String(),
		Plan:     faults.At(1, faults.ReplyLost),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer proxy.Close()
	pay := func() {
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		res, err := client.Post("http://"+proxy.Addr(), "text/plain", nil)
		if err != nil {
			fmt.Println("no answer")
			return
		}
		defer res.Body.Close()
		answer, _ := io.ReadAll(res.Body)
		fmt.Printf("%s\n", answer)
	}

	pay()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	strike, err := proxy.WaitStrike(ctx, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(strike.Fault, strike.Wait(ctx))
	pay()
	// Output:
	// no answer
	// reply-lost <nil>
	// payment 2
}

// A sweep runs an operation once to learn its messages, and then once per cut point.
func ExamplePoints() {
	server, addr := echo()
	defer server.Close()
	proxy, err := faults.Start(faults.Config{Upstream: addr})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer proxy.Close()
	operation := func() error {
		conn, err := net.Dial("tcp", proxy.Addr())
		if err != nil {
			return err
		}
		defer conn.Close()
		if _, err = conn.Write([]byte("hello")); err == nil {
			_, err = conn.Read(make([]byte, 10))
		}
		return err
	}

	proxy.Arm(nil)
	if err := operation(); err != nil {
		fmt.Println(err)
		return
	}
	points := faults.Points(proxy.Trace(), faults.RequestLost, faults.ReplyLost)
	for _, point := range points {
		proxy.Arm(point.Plan())
		fmt.Printf("%s: the client fails: %v\n", point, operation() != nil)
	}
	// Output:
	// request-lost at 1 chunk 5 bytes: the client fails: true
	// reply-lost at 1 chunk 5 bytes: the client fails: true
}

// echo is a server that sends back what it gets.
func echo() (io.Closer, string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return listener, listener.Addr().String()
}
