// Package e2e is a set of tests and nothing else: real fifty processes on real sockets, ended by signals,
// with clients that know nothing of Fifty. Each test reads as a promise of the README.
//
// Tests whose names have Postgres, Redis or Stripe in them need that server; the others need only Go, curl and a
// folder. Nothing is skipped: what is missing fails and says what to install.
//
// # Files
//
//   - main_test.go: the binary under test; process_test.go, hosts_test.go: its processes
//   - client_test.go: a client that asks until it is answered
//   - operator_test.go: what an operator does with fifty keys
//   - relay_test.go: a network that goes wrong, and a count of what reaches a service
//   - bank_test.go: a service that tells a repeat by its key, and goes wrong too
//   - once_test.go: many duplicates, one or two gateways
//   - dedup_test.go, hold_test.go: what is sent again, and what never is, when replies are lost
//   - crash_test.go: gateways, services and databases that die at work; reserved_test.go: one that is down
//   - frozen_test.go: gateways that stop without dying, and who goes on in their place
//   - skew_test.go: hosts whose clocks are wrong; clocks_test.go, clocks_sqlite_test.go: what that changes;
//     testdata/onesweep is a program for them
//   - steps_test.go: a service built on the library that dies between its steps
//   - soak_test.go: rounds of kills, stops and restarts under load; soak_round_test.go, soak_load_test.go: what a
//     round breaks, and what it checks; soak_fleet_test.go, soak_host_test.go, soak_bank_test.go: who takes part
//   - linear_test.go, linear_host_test.go, linear_outlasted_test.go: recorded calls of processes, checked for
//     linearizability
//   - sale_soak_test.go: rounds of kills and stops in a sale; sale_round_test.go, sale_load_test.go: what a round
//     breaks, what is ordered, and what is checked; sale_host_test.go, sale_store_test.go, sale_till_test.go: who
//     takes part
//   - sale_linear_test.go, sale_linear_host_test.go: recorded calls of a sale, checked for linearizability
//   - store_test.go: a database that is read-only, newer, or away for long
//   - stripe_test.go, curl_test.go: clients that we did not write; stripeclient is a module of its own
//   - badinput_test.go, badstart_test.go: what is refused, and how it is said
//   - tenants_test.go: whose a status URL and a sealed answer are
//   - readme_test.go, consumer_test.go: what a new user does first; modproxy_test.go: this module, published
package e2e
