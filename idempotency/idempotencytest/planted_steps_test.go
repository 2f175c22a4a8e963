package idempotencytest_test

import (
	"testing"

	"github.com/fiftyhosts/fifty/idempotency/idempotencytest"
)

// Faults of steps, of letting go, and of windows.
const (
	ageUnknown          fault = "the age is not told"
	ageOfOwner          fault = "the age is that of the owner's claim"
	stepsShared         fault = "steps shared with the caller"
	stepsByName         fault = "steps in the order of their names"
	stepsLostByTakeover fault = "a takeover forgets the steps"
	stepsLostByFree     fault = "a free key forgets its steps"
	stepsReadEarly      fault = "a taker is told of the steps that were there before it took"
	stepLostLightly     fault = "a superseded owner is told that its lease ran out"
	stepLooksFirst      fault = "a step is written after a look at the claim"
	stepWritesRow       fault = "a step writes back the record that it read"
	keyForgotten        fault = "a write does not compare the key"
	scopeForgotten      fault = "a write does not compare the scope"
	stepAnyToken        fault = "a step does not compare the token"
	stepAnyAttempt      fault = "a step does not compare the attempt"
	stepAnyState        fault = "a step does not compare the state"
	stepNeedsLease      fault = "a step of an expired claim is refused"
	stepAsText          fault = "a step's result kept as text"
	stepNameFolded      fault = "step names in lower case"
	stepSentSticks      fault = "that a step was sent is never taken back"
	stepKeptAsItWas     fault = "a step that is known is not written again"
	stepMoves           fault = "a step that is written again moves to the end"
	stepAppended        fault = "a step that is written again is there twice"
	stepUndone          fault = "what is said of a step last replaces its result"
	stepResultOnly      fault = "what is said of a step last replaces whether it was sent"
	letGoBlind          fault = "letting go compares nothing"
	letGoOnce           fault = "letting go of an expired claim is refused"
	letGoIgnored        fault = "letting go does not end the lease"
	letGoUnknown        fault = "letting go leaves the key unknown"
	letGoLater          fault = "letting go moves the expiry of an expired claim"
	windowIgnored       fault = "a time-ordered key has no window"
	windowOfNewOnly     fault = "a free key has no window"
	windowApartFromTx   fault = "a claim in a transaction has no window"
	windowOfAll         fault = "a takeover has a window"
	windowByHost        fault = "the host's clock decides about the window"
	windowFailsAll      fault = "one key outside its window fails the batch"
)

// Faults of sweeps.
const (
	floorReadEarly     fault = "a claim reads the floor before it inserts"
	floorRaisedLate    fault = "a sweep raises the floor after it removed a record"
	floorForgotten     fault = "a sweep raises no floor"
	retentionForAll    fault = "a tombstone goes by the retention"
	retentionFromClaim fault = "retention counts from the claim"
	madeIgnored        fault = "a tombstone goes although its key was made later"
	sweepCountsChosen  fault = "a sweep counts what it meant to sweep"
	limitIgnored       fault = "a sweep has no limit"
	limitOfEachKind    fault = "a sweep's limit is one of each kind"
	freeStays          fault = "free keys stay for ever"
	freeBuried         fault = "a free key leaves a tombstone"
	sweepsExpired      fault = "an expired claim is swept"
	sweepsInFlight     fault = "a claim in flight is swept"
	sweepsUnknown      fault = "an unknown key is swept"
	sweepsBlindly      fault = "a sweep does not look again before it writes"
	doneDeleted        fault = "a done key leaves no tombstone"
	stepsOutlive       fault = "steps outlive their record"
	answerBuried       fault = "a tombstone keeps the answer"
	stepsBuried        fault = "a tombstone keeps the steps"
	tombstoneAnew      fault = "a tombstone's time begins when it is made"
	intentForgotten    fault = "a tombstone forgets the fingerprint"
)

// Faults of transactions beside sweeps and windows.
const claimTxWaits fault = "a duplicate waits for the transaction, unless it opens its own"

// plantedSteps is each of these faults, and the case that must catch it in every run.
var plantedSteps = []struct {
	fault fault
	by    string
}{
	{keyForgotten, "a renewal moves no key beside it"},
	{keyForgotten, "a completion ends no key beside it"},
	{keyForgotten, "a takeover takes no key beside it"},
	{keyForgotten, "a claim on a free key takes no key beside it"},
	{keyForgotten, "a step is kept with no key beside it"},
	{scopeForgotten, "a renewal moves no key beside it"},
	{scopeForgotten, "a completion ends no key beside it"},
	{scopeForgotten, "a takeover takes no key beside it"},
	{scopeForgotten, "a claim on a free key takes no key beside it"},
	{scopeForgotten, "a step is kept with no key beside it"},

	{ageUnknown, "a record's age counts from the first claim of its key"},
	{ageOfOwner, "a record's age counts from the first claim of its key"},
	{stepsShared, "a step is a copy, in and out"},
	{stepsByName, "steps come back as they were saved, in the order in which they were first saved"},
	{stepsLostByTakeover, "steps survive a takeover, and the taker is told of them"},
	{stepsLostByTakeover, "DoSteps finishes what a killed owner began, without the steps that it had finished"},
	{stepsLostByTakeover, "in every order one of two DoSteps finishes what a killed owner began"},
	{stepsLostByTakeover, "DoSteps that failed goes on behind the finished step when the next one arrives"},
	{stepsLostByFree, "steps survive a free key, and stay with its next owner"},
	{stepsReadEarly, "in every order a step is there for the taker, or its owner is told that it was superseded"},
	{stepLostLightly, "an owner that was taken over saves no step"},
	{stepLooksFirst, "in every order a step is there for the taker, or its owner is told that it was superseded"},
	{stepWritesRow, "in every order a step is there for the taker, or its owner is told that it was superseded"},
	{stepWritesRow, "in every order a step is kept with what its key became, or refused"},
	{stepWritesRow, "in every order a step and a renewal of its owner both count"},
	{stepWritesRow, "in every order two steps of one owner are both kept, and one that is saved twice is there once"},
	{stepWritesRow, "in every order a step of a claim that is being let go is kept"},
	{stepAnyToken, "a claim with another token is not the owner's"},
	{stepAnyAttempt, "a claim of another attempt is not the owner's, even with its token"},
	{stepAnyState, "a key that is no longer in flight takes no step"},
	{stepNeedsLease, "an owner whose lease ran out saves its step while nobody took over"},
	{stepAsText, "steps come back as they were saved, in the order in which they were first saved"},
	{stepNameFolded, "steps are told apart byte by byte"},
	{stepSentSticks, "a step that is saved again replaces what was known, and keeps its place"},
	{stepKeptAsItWas, "a step that is saved again replaces what was known, and keeps its place"},
	{stepMoves, "a step that is saved again replaces what was known, and keeps its place"},
	{stepAppended, "a step that is saved again replaces what was known, and keeps its place"},
	{stepAppended, "in every order two steps of one owner are both kept, and one that is saved twice is there once"},
	{stepUndone, "what was held up of a step's beginning takes no result away"},
	{stepResultOnly, "what was held up of a step's beginning takes no result away"},
	{contextIgnored, "a step that was called off before it began changed nothing"},

	{letGoBlind, "in every order letting go a second time leaves the taker alone"},
	{letGoBlind, "letting go takes no answer back"},
	{letGoOnce, "letting go twice is fine, and moves no expiry into the future"},
	{letGoIgnored, "a claim that is let go has expired, and keeps its owner and its steps"},
	{letGoIgnored, "a claim that was let go is taken at once by the next that can resume, and by no other"},
	{letGoIgnored, "DoSteps that failed goes on behind the finished step when the next one arrives"},
	{letGoUnknown, "a claim that is let go has expired, and keeps its owner and its steps"},
	{letGoLater, "letting go twice is fine, and moves no expiry into the future"},
	{unresumableTaken, "a claim that can't be resumed and was let go is taken by nobody"},
	{lateRefused, "an owner that let go may still tell its result, and is not revived by a renewal"},
	{renewRevives, "an owner that let go may still tell its result, and is not revived by a renewal"},
	{renewWritesRow, "in every order a claim that is let go is not revived by its renewal"},
	{completesBlindly, "in every order letting go a second time leaves the taker alone"},
	{readThenInsert, "in every order one of two DoSteps runs, and each step once"},
	{takesBlindly, "in every order one of two DoSteps finishes what a killed owner began"},
}

func TestEachPlantedFaultOfStepsIsCaught(t *testing.T) {
	for _, tc := range plantedSteps {
		t.Run(string(tc.fault)+"/"+tc.by, func(t *testing.T) {
			newStore, f := with(tc.fault)
			if caught := idempotencytest.Catch(t, newStore, f, tc.by); len(caught) != 1 || caught[0] != tc.by {
				t.Errorf("the fault went unnoticed; caught by %q", caught)
			}
		})
	}
}

// plantedSweeps is likewise for windows and sweeps.
var plantedSweeps = []struct {
	fault fault
	by    string
}{
	{floorReadEarly, "in every order a key whose tombstone is being removed keeps it, or gets a higher token"},
	{floorReadEarly, "in every order a free key that is claimed is not swept away"},
	{floorRaisedLate, "in every order a key whose tombstone is being removed keeps it, or gets a higher token"},
	{floorRaisedLate, "in every order a free key that is claimed is not swept away"},
	{floorForgotten, "a key whose record was removed is new, without steps, and has a higher token"},
	{floorForgotten, "in every order a key whose tombstone is being removed keeps it, or gets a higher token"},
	{retentionForAll, "what is not old enough is not swept"},
	{retentionFromClaim, "a record is swept at the instant that the store's clock says, counted from its end"},
	{tombstoneAnew, "a record is swept at the instant that the store's clock says, counted from its end"},
	{madeIgnored, "the tombstone of a key that was made ahead stays until its window covers it"},
	{sweepCountsChosen, "in every order two sweeps count nothing twice"},
	{limitIgnored, "a sweep works on no more records than it may, and counts what it did"},
	{limitOfEachKind, "a sweep works on no more records than it may, and counts what it did"},
	{windowIgnored, "a new key outside its window is refused, and leaves nothing"},
	{windowIgnored, "Do runs a time-ordered key within its window only, and replays it whatever the window"},
	{windowOfNewOnly, "a free key outside its window is refused, and stays free"},
	{windowOfAll, "a record answers whatever the window says"},
	{windowByHost, "a new key within its window is claimed"},
	{windowByHost, "a window is as wide as the store's clock says"},
	{windowFailsAll, "one key outside its window fails no other of its batch"},
	{windowFailsAll, "a new key outside its window is refused, and leaves nothing"},
	{freeStays, "a record is swept at the instant that the store's clock says, counted from its end"},
	{freeBuried, "what is not old enough is not swept"},
	{sweepsExpired, "what is in flight or unknown is never swept"},
	{sweepsInFlight, "what is in flight or unknown is never swept"},
	{sweepsUnknown, "what is in flight or unknown is never swept"},
	{sweepsBlindly, "in every order a free key that is claimed is not swept away"},
	{doneDeleted, "an answer that is kept no longer leaves a tombstone, without answer and steps"},
	{stepsOutlive, "a key whose record was removed is new, without steps, and has a higher token"},
	{answerBuried, "an answer that is kept no longer leaves a tombstone, without answer and steps"},
	{stepsBuried, "an answer that is kept no longer leaves a tombstone, without answer and steps"},
	{intentForgotten, "a tombstone answers every arrival that its key has expired"},
	{completesBlindly, "a tombstone is claimed by nobody, and nothing brings its answer back"},
	{stepAnyState, "a tombstone is claimed by nobody, and nothing brings its answer back"},
	{contextIgnored, "a sweep that was called off before it began changed nothing"},
}

func TestEachPlantedFaultOfWindowsAndSweepsIsCaught(t *testing.T) {
	for _, tc := range plantedSweeps {
		t.Run(string(tc.fault)+"/"+tc.by, func(t *testing.T) {
			newStore, f := with(tc.fault)
			if caught := idempotencytest.Catch(t, newStore, f, tc.by); len(caught) != 1 || caught[0] != tc.by {
				t.Errorf("the fault went unnoticed; caught by %q", caught)
			}
		})
	}
}
