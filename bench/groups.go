package main

import "slices"

// groups is all that can be measured.
func groups() []group {
	return []group{
		{
			Name: "idempotency",
			What: "what an idempotency key costs: in a transaction, on replay, in memory, with millions of records, in the gateway, and beside other modules",
			Cases: slices.Concat(
				postgresCases,
				gatewayCases,
				gatewayMemoryCases,
				memoryCases,
				sqliteCases,
				sqliteSweepCases(),
				peerCases,
			),
		},
		{
			Name: "contention",
			What: "what a hot SKU costs: a sale on one row, several, thousands; one caller alone; from many processes; in a transaction of the caller's",
			Cases: slices.Concat(
				hotCases,
				processCases,
				zipfCases,
				redisCases,
				sqliteSaleCases,
				memorySaleCases,
				doCases,
			),
		},
		{
			Name:  "growth",
			What:  "how a sale of one SKU grows with the callers and the processes; --plot draws it",
			Cases: growthCases(),
		},
	}
}
