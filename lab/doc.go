// Package lab shows what goes wrong between many hosts, and that Fifty prevents it: each [Scenario] is a failure
// of the catalogue, played first as a decent engineer writes it, which must show the fault, and then with Fifty,
// which must not. "fifty lab" is its command.
//
// # How it is played
//
// Hosts are processes. They tell the conductor that they have come to a point ("looked, found nothing") and
// wait there for their release, so that the conductor makes the interleaving, and the seed decides which host
// is when at which point. The effect is rows in a table, so that the database counts it.
//
// The conductor talks to a host in lines of JSON over its standard input and output. A host ends when its input
// does, and on Linux the kernel ends it with the conductor, so that none outlives it, whatever ends that one.
//
// # A new scenario
//
// It is a file of its own, with a function that returns it, in the list of catalogue.go: number, name, what goes
// wrong and what prevents it, its tables, what its hosts can be told to do ([Action], which runs in the host's
// process and has an [Actor]), and its runs ([Run], conducted by a [Stage]). The tables of Fifty are there, and
// so are the shop of shop.go and the warehouse of warehouse.go.
//
// # Shows
//
// A show is no failure of the catalogue: it has no naive run, and is played only by its name. The flash sale sells
// to one crowd on each rung of a ladder, shows its numbers as they go ([Tick]), and reads the books at the end.
//
// # Files
//
//   - scenario.go: what a scenario is; catalogue.go: which there are; scenario_….go: each of them
//   - shop.go, warehouse.go, bank.go, http.go: the work that they have in common
//   - flash_sale.go: the show; flash_sale_host.go: a host in it
//   - lab.go: Play; stage.go: what a run is conducted on; host.go: a host as the conductor has it
//   - actor.go: a host as its own process has it; wire.go: what the two tell each other
//   - place.go, folder.go, lock_….go: where tables may be, and that nothing is left there; database.go: the
//     tables of one run
//   - report.go: what came of it; fold.go: what many hosts did alike; text.go and html.go: for people;
//     text_sale.go and html_sale.go: the numbers of a sale
package lab
