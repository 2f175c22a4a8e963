// Program bench measures what Fifty costs, against the best that a person would write by hand for the same
// work. From this folder:
//
//	go run . idempotency          measure a group; exit 1 when a goal is missed
//	go run . --list               the groups and cases, with their goals
//
// # How a case is measured
//
// A case compares two sides that do the same work: ours and, where a person could have written it in several
// ways, the fastest of theirs. Both take turns within one run, because two runs of the same code on one
// machine differ by more than what is to be measured. Throughput is taken in slices of a second, in an order
// that turns around each round; a round gives one ratio, and the median of the rounds counts. The latency of
// one caller is taken call by call, and the ratio of the medians counts. Ratios decide; figures per second
// are printed only, since they belong to one machine.
//
// # Files
//
//   - main.go, usage.go: the command.
//   - case.go, goal.go, groups.go: what is measured. Each group's cases are a slice in a file of their own.
//   - bench.go: what a case has while it runs.
//   - side.go, throughput.go, latency.go, profile.go: the measurements.
//   - histogram.go, stats.go: the numbers.
//   - report.go, raw.go: the table, the lines, the file of raw figures.
//   - postgres.go, machine.go: the server, and what it all ran on.
//   - http.go, gateway.go: clients, upstreams and gateways for the cases over HTTP.
package main
