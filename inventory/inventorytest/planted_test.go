package inventorytest_test

import (
	"context"
	"testing"

	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/inventory/inventorytest"
)

// fault is one way in which a store of stock has been written wrongly.
type fault string

const (
	none            fault = ""
	readThenWrite   fault = "a look decides, and the write trusts it"
	contextIgnored  fault = "an ended context is ignored"
	itemsShared     fault = "items are shared with the caller"
	namesFolded     fault = "names in lower case"
	linesApart      fault = "the units of an order are checked one by one instead of by their sum"
	halfHeld        fault = "what there is of a refused order is held"
	notSticky       fault = "a refusal is asked again"
	replayTakes     fault = "an order that comes again is held again"
	anyItems        fault = "an id's items are not compared"
	unknownUsesID   fault = "an unknown SKU uses the id up"
	batchLooksOnce  fault = "a batch is judged by what was there before it"
	batchTwice      fault = "an id that is twice in a batch is applied twice"
	batchReversed   fault = "a batch is answered in another order"
	refusalsStay    fault = "a sweep does not count the refusals that it forgets"
	historyForgets  fault = "a history has its first line only"
	splitLoses      fault = "a split loses what it can't share out evenly"
	looksAtLevels   fault = "availability does not count expired holds"
	supplyUnbounded fault = "a supply has no bound"

	refusalsUnbounded     fault = "the refusals have no bound"
	deliveredAgain        fault = "a delivery that comes again counts again"
	withdrawsAnyway       fault = "a withdrawal takes what is not there"
	refusedWithdrawalKept fault = "a refused withdrawal is recorded"

	confirmUnchecked fault = "a confirm does not look at the state"
	confirmsAgain    fault = "a second confirm sells again"
	anyPart          fault = "a second confirm may name another part"
	sellsMore        fault = "a confirm sells more than was held"
	restKept         fault = "the rest of a partial confirm stays held"
	releasesAgain    fault = "a second release gives back again"
	releasesSold     fault = "a release takes back what was sold"
	extendRevives    fault = "an extension revives"
	extendShortens   fault = "an extension shortens"

	expiresLate         fault = "a hold expires a second late"
	expiredNeverReturns fault = "expired holds never return"
	freedAgain          fault = "an expired hold is freed each time"
	freedThenReleased   fault = "a release gives back what was freed"
	lateUnchecked       fault = "a late confirm does not look whether the units are there"
	lapsedRevived       fault = "a lapsed hold is confirmed when there is stock again"
	sweepFreesSold      fault = "a sweep frees what was confirmed"
	sweepsEarly         fault = "a sweep forgets what is still to be kept"
	sweepsAll           fault = "a sweep has no limit"
	foldsNothing        fault = "a sweep drops what the ledger needs to add up"
)

// planted is each fault, and the case that must catch it in every run.
var planted = []struct {
	fault fault
	by    string
}{
	{readThenWrite, "in every order one of two reservations gets the last unit"},
	{readThenWrite, "in every order two of three reservations get the last two units"},
	{readThenWrite, "in every order an order that is sent twice is held once"},
	{readThenWrite, "in every order one id with two SKUs is one hold and one mismatch"},
	{readThenWrite, "in every order orders that cross are held as a whole, one of them"},
	{readThenWrite, "in every order one of confirm and release wins"},
	{readThenWrite, "in every order two releases give back once"},
	{readThenWrite, "in every order two confirms sell once"},
	{readThenWrite, "in every order one of two confirms of different parts wins"},
	{readThenWrite, "in every order a delivery that is sent twice counts once"},
	{readThenWrite, "in every order one of a withdrawal and a reservation gets the last unit"},
	{readThenWrite, "in every order one of a late confirm and the next reservation gets the units"},
	{readThenWrite, "in every order units of an expired hold are given to one of two"},
	{readThenWrite, "in every order units of an expired hold are freed once, whoever does it"},
	{readThenWrite, "in every order one of two late confirms gets the only unit that is left"},
	{readThenWrite, "in every order a late confirm and a release exclude each other"},
	{contextIgnored, "what was called off before it began changed nothing"},
	{itemsShared, "what a caller does with its items or with an answer changes nothing"},
	{namesFolded, "names are compared byte by byte"},

	{linesApart, "lines of one order that share an item are checked by their sum"},
	{halfHeld, "an order of several SKUs is held as a whole or not at all"},
	{notSticky, "a refused id stays refused, also when there is stock again"},
	{replayTakes, "an id gets its yes again, with what has become of it, and nothing changes"},
	{replayTakes, "a hold does not stand in its own way"},
	{anyItems, "an id with other items is a mismatch and changes nothing"},
	{anyItems, "a delivery's id with other items is a mismatch and changes nothing"},
	{unknownUsesID, "an order with an unknown SKU changes nothing, and its id is not used up"},
	{refusalsUnbounded, "the refusals of a SKU are bounded, and at the bound none is forgotten"},
	{refusalsStay, "a sweep makes room for refusals, and only for those that it forgets"},
	{batchLooksOnce, "a batch is answered as its asks would be one by one, in order"},
	{batchLooksOnce, "a large batch is answered in order"},
	{batchTwice, "a batch is answered as its asks would be one by one, in order"},
	{batchReversed, "a large batch is answered in order"},

	{deliveredAgain, "a delivery counts once, however often it arrives"},
	{withdrawsAnyway, "what is withdrawn comes from what is available, and no more"},
	{refusedWithdrawalKept, "what is withdrawn comes from what is available, and no more"},
	{supplyUnbounded, "a supply above the bound is refused as a whole"},

	{confirmUnchecked, "what was confirmed is not released, and what was released is not confirmed"},
	{confirmUnchecked, "what was refused can't be settled"},
	{confirmUnchecked, "in every order one of confirm and release wins"},
	{confirmsAgain, "a confirm sells what is held, once"},
	{anyPart, "a confirm of a part sells it and gives the rest back"},
	{sellsMore, "a confirm of more than is held is refused and changes nothing"},
	{restKept, "a confirm of a part sells it and gives the rest back"},
	{releasesAgain, "a release gives units back, once"},
	{releasesAgain, "in every order two releases give back once"},
	{releasesSold, "what was confirmed is not released, and what was released is not confirmed"},
	{extendRevives, "an extension never revives"},
	{extendRevives, "in every order an extension of an expired hold revives nothing"},
	{extendShortens, "an extension moves the expiry, and never back"},

	{expiresLate, "a hold expires at the second that the store's clock says"},
	{expiredNeverReturns, "units of an expired hold are free for the next order, without a sweep"},
	{looksAtLevels, "units of an expired hold are free for the next order, without a sweep"},
	{freedAgain, "units of an expired hold are freed once"},
	{freedThenReleased, "units of an expired hold are freed once"},
	{freedThenReleased, "in every order units of an expired hold are freed once, whoever does it"},
	{lateUnchecked, "an expired hold whose units are gone lapses for good"},
	{lateUnchecked, "in every order one of a late confirm and the next reservation gets the units"},
	{lapsedRevived, "an expired hold whose units are gone lapses for good"},

	{sweepFreesSold, "a sweep never frees what is held or sold"},
	{sweepFreesSold, "a sweep forgets what is over, and the levels stay"},
	{readThenWrite, "in every order a sweep frees nothing that is confirmed, and forgets it at most"},
	{sweepsEarly, "a sweep forgets nothing that is younger than it keeps"},
	{sweepsAll, "a sweep works on at most as many records as it is told"},
	{foldsNothing, "a sweep forgets what is over, and the levels stay"},
	{foldsNothing, "in every order two sweeps forget everything once"},
	{historyForgets, "a hold's history says what happened, oldest first"},
	{splitLoses, "a SKU is split and joined without losing anything"},
}

func TestTheReferenceKeepsTheContract(t *testing.T) {
	newStore, f := with(none)
	inventorytest.Run(t, newStore, f)
}

func TestEachPlantedFaultIsCaught(t *testing.T) {
	for _, tc := range planted {
		t.Run(string(tc.fault)+"/"+tc.by, func(t *testing.T) {
			newStore, f := with(tc.fault)
			if caught := inventorytest.Catch(t, newStore, f, tc.by); len(caught) != 1 || caught[0] != tc.by {
				t.Errorf("the fault went unnoticed; caught by %q", caught)
			}
		})
	}
}

func TestNothingIsCaughtOnARightStore(t *testing.T) {
	newStore, f := with(none)
	if caught := inventorytest.Catch(t, newStore, f); len(caught) != 0 {
		t.Errorf("caught: %q", caught)
	}
}

func TestAStoreThatLostItsHookIsCaught(t *testing.T) {
	newStore, f := with(none)
	const race = "in every order one of two reservations gets the last unit"
	caught := inventorytest.Catch(t, func(tb testing.TB, _ inventorytest.Hook) inventory.Store {
		return newStore(tb, func(context.Context, string) {})
	}, f, race)
	if len(caught) != 1 {
		t.Error("a store that never calls its hook passed a race")
	}
}

// bare is a store that can do less.
type bare struct{ inventory.Store }

func TestAStoreThatCanDoLessMustSaySo(t *testing.T) {
	newStore, f := with(none)
	newBare := func(tb testing.TB, hook inventorytest.Hook) inventory.Store { return bare{newStore(tb, hook)} }
	for _, name := range []string{"a hold's history says what happened, oldest first", "a SKU is split and joined without losing anything"} {
		if caught := inventorytest.Catch(t, newBare, f, name); len(caught) != 1 {
			t.Errorf("%q passed", name)
		}
	}
	f.NoLedger, f.NoSplit = "it keeps no books", "it has no rows"
	inventorytest.Run(t, newBare, f)
}
