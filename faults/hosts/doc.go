// Package hosts starts programs as the hosts of a system, and makes them fail: killed, frozen, started
// again, or with a wrong clock.
//
// A host that crashes says nothing, rolls nothing back and runs no deferred call. A cancelled context is a
// poor copy of that, so a test that asks "what if the host dies here?" needs a process and a signal:
//
//	host, err := hosts.Start(hosts.Config{Path: fifty, Args: []string{"serve", "--listen", "127.0.0.1:0"}})
//	…
//	found, err := host.WaitFor(ctx, `listening on (http://\S+)`)
//	…
//	err = host.Kill()    // a crash: kill -9; nothing of it is left when this returns
//	err = host.Restart() // the same program again
//	err = host.Pause()   // a frozen host: SIGSTOP; nothing of it runs when this returns
//	err = host.Resume()
//
// # How a host ends
//
// A host ends with the process that started it, whatever ends that process: on Linux the kernel kills it
// (PR_SET_PDEATHSIG), also after kill -9 of the parent and also when the host is paused. Elsewhere a program
// has to notice it: its standard input, a pipe that only the parent holds, reaches its end. What a host
// starts by itself is its own business.
//
// # Clocks
//
// [Config].Clock sets a host's clock forward or back. Go programs read the time without libc, so that
// libfaketime can't do it; fifty does it itself in a build with the tag faultclock, and in no other. Such a
// test first asserts that the clocks do differ: a program that doesn't know the variable ignores it.
//
// # Files
//
//   - config.go: what to start
//   - host.go: one host, what can be done to it
//   - run.go: one run of a host, from its start to its end
//   - output.go: what a run writes
//   - all.go: several at once
//   - pause_linux.go, pause_unix.go, pause_other.go: SIGSTOP, and when it holds
//   - parent_linux.go, parent_other.go: how a host ends with its parent
//
// The package is for Linux and macOS. It compiles elsewhere, where [Host.Pause] says that it can't.
package hosts
