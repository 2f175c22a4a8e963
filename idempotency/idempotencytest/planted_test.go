package idempotencytest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/idempotency/idempotencytest"
)

// fault is one way in which a store of keys has been written wrongly.
type fault string

// Faults of claims.
const (
	none               fault = ""
	readThenInsert     fault = "a look decides, and the write trusts it"
	claimAfterWork     fault = "the claim writes nothing, and the completion inserts"
	scopeIgnored       fault = "scope ignored"
	looksInAnyScope    fault = "a look takes the record of any scope"
	scopeFolded        fault = "scope in lower case"
	keyFolded          fault = "key in lower case"
	keyTrimmed         fault = "key without trailing spaces"
	runTogether        fault = "scope and key run together"
	inFlightAbsent     fault = "in flight treated as absent"
	unknownAbsent      fault = "unknown treated as absent"
	expiredTaken       fault = "whatever has expired is taken over"
	unresumableTaken   fault = "taken over although the owner can't be resumed"
	unresumableTakes   fault = "taken over by an attempt that can't resume"
	freeClosed         fault = "a free key is never claimed again"
	mineForgotten      fault = "an attempt's own claim is not recognised"
	ownExpiredTaken    fault = "an attempt takes its own expired or unknown claim again"
	ownFreeTaken       fault = "an attempt takes a key again that it freed"
	ownAnyIntent       fault = "an attempt's own claim is its own with any fingerprint"
	fingerprintIgnored fault = "fingerprint ignored"
	takesAnyToken      fault = "a takeover does not compare the token"
	takesAnyState      fault = "a takeover does not compare the state"
	takesBlindly       fault = "a takeover compares nothing"
	tokenKept          fault = "a new owner keeps the token"
	tokenRestarts      fault = "a free key's token does not grow"
	oldFingerprintKept fault = "a new owner keeps the fingerprint"
	oldAttemptKept     fault = "a new owner keeps the old one's attempt"
	oldLeaseKept       fault = "a new owner keeps the old one's expiry"
	loserToldNothing   fault = "a duplicate is not told what is there"
	contextIgnored     fault = "an ended context is ignored"
)

// Faults of time.
const (
	leaseInSeconds fault = "a lease is cut to whole seconds"
	zeroIsForEver  fault = "a lease of zero milliseconds never ends"
	leaseTooLong   fault = "milliseconds taken for seconds"
	zeroIsLive     fault = "zero time left is still live"
	hostsClock     fault = "the host's clock decides"
)

// Faults of renewals and completions.
const (
	renewsAnyToken      fault = "a renewal does not compare the token"
	renewsAnyAttempt    fault = "a renewal does not compare the attempt"
	renewsAnyState      fault = "a renewal does not compare the state"
	renewRevives        fault = "a renewal does not compare the expiry"
	renewWritesRow      fault = "a renewal writes back what it read"
	renewAdds           fault = "a renewal adds the lease to the expiry"
	renewDoesNothing    fault = "a renewal moves nothing"
	expiredIsSuperseded fault = "an expired owner is told that it was superseded"
	completesBlindly    fault = "a completion compares nothing"
	completesAnyToken   fault = "a completion does not compare the token"
	completesAnyAttempt fault = "a completion does not compare the attempt"
	completesAnyState   fault = "a completion does not compare the state"
	completeWritesRow   fault = "a completion writes over what it read"
	answersAgain        fault = "a second completion replaces the answer"
	secondRefused       fault = "a completion that is there already is refused"
	lateRefused         fault = "a late result is refused although nobody took over"
	unknownIsFinal      fault = "a result after unknown is refused"
)

// Faults of answers and batches.
const (
	statusLost        fault = "201 replayed as 200"
	headersJoined     fault = "header values joined by commas"
	headersSplit      fault = "header values split at commas"
	headersRenamed    fault = "header names rewritten"
	bodyAsText        fault = "the body kept as text"
	bodyCutAtNUL      fault = "the body cut at a NUL"
	bodyCut           fault = "the body cut at 64 KiB"
	bodyTrimmed       fault = "white space trimmed from the body"
	notReplayableLost fault = "NotReplayable not kept"
	answerShared      fault = "the answer shared with the caller"
	batchReversed     fault = "a batch answered in another order"
	batchLooksOnce    fault = "a batch judged by what was there before it"
	locksInGivenOrder fault = "a batch locks in the order of its members"
	batchFirstTells   fault = "all attempts on one key in a batch are told what the first one found"
	batchAllWin       fault = "all attempts on one key in a batch win with the first"
	batchErrShared    fault = "one attempt's own error is everybody's in its batch"
	batchOneWindow    fault = "a batch has the window of its first member"
	batchEndsOnce     fault = "of what an owner says twice in a batch the first is done, and all is acknowledged"
)

// planted is each fault, and the case that must catch it in every run.
var planted = []struct {
	fault fault
	by    string
}{
	{readThenInsert, "in every order one of two claims wins"},
	{readThenInsert, "in every order one of two Do runs"},
	{claimAfterWork, "in every order one of two claims wins"},
	{claimAfterWork, "in every order one of two Do runs"},
	{claimAfterWork, "Do runs once however many arrive at once, and all get its answer"},
	{scopeIgnored, "one key in two scopes is two keys"},
	{looksInAnyScope, "one key in two scopes is two keys"},
	{scopeFolded, "scopes are compared byte by byte"},
	{keyFolded, "keys are compared byte by byte"},
	{keyTrimmed, "keys are compared byte by byte"},
	{runTogether, "scope and key are not run together"},
	{inFlightAbsent, "a duplicate sees the claim in flight and changes nothing"},
	{inFlightAbsent, "in every order one of two claims wins"},
	{inFlightAbsent, "Do does not run while another owner is at work, and not when it vanished"},
	{unknownAbsent, "an unknown key is claimed by nobody"},
	{expiredTaken, "an expired claim is never won by anybody else"},
	{expiredTaken, "Do does not run while another owner is at work, and not when it vanished"},
	{unresumableTaken, "an expired claim is never won by anybody else"},
	{unresumableTakes, "an expired claim on resumable work is not won by an attempt that can't resume"},
	{freeClosed, "a free key is claimed again by any fingerprint, with a higher token"},
	{mineForgotten, "an attempt that asks again has won, with the same token"},
	{mineForgotten, "in every order an attempt that is sent twice has one claim"},
	{ownExpiredTaken, "an attempt is told of its own claim that has expired, and takes nothing"},
	{ownExpiredTaken, "an attempt is told of its own claim that is unknown, and takes nothing"},
	{ownExpiredTaken, "in every order a claim that was held up takes nothing"},
	{ownExpiredTaken, "in every order an attempt's own expired claim goes to the one who takes it over"},
	{ownFreeTaken, "an attempt never takes again the key that it freed"},
	{ownFreeTaken, "in every order a claim that was held up takes nothing"},
	{ownAnyIntent, "the owner's own attempt with another fingerprint owns nothing"},
	{fingerprintIgnored, "another fingerprint gets the record and changes nothing"},
	{takesAnyToken, "in every order a takeover takes what it saw, and not what became of it"},
	{takesAnyState, "in every order a takeover and the old owner's late result exclude each other"},
	{takesBlindly, "in every order one of two takeovers wins"},
	{takesBlindly, "in every order one of two claims on a free key wins"},
	{tokenKept, "an expired claim on resumable work is taken over once, with a higher token"},
	{tokenRestarts, "a free key is claimed again by any fingerprint, with a higher token"},
	{oldFingerprintKept, "a free key is claimed again by any fingerprint, with a higher token"},
	{oldAttemptKept, "an owner that was taken over can't renew or complete"},
	{oldLeaseKept, "an expired claim on resumable work is taken over once, with a higher token"},
	{loserToldNothing, "a duplicate sees the claim in flight and changes nothing"},
	{contextIgnored, "what was called off before it began changed nothing"},

	{leaseInSeconds, "a lease is not cut to whole seconds"},
	{zeroIsForEver, "a lease of almost nothing is one, and runs out"},
	{leaseTooLong, "a first claim wins and is recorded as it was made"},
	{zeroIsLive, "a lease ends at the instant that the store's clock says"},
	{hostsClock, "a lease ends at the instant that the store's clock says"},

	{renewsAnyToken, "a claim with another token is not the owner's"},
	{renewsAnyAttempt, "a claim of another attempt is not the owner's, even with its token"},
	{renewsAnyState, "a renewal of an ended claim is refused"},
	{renewRevives, "a renewal never revives a claim that has expired"},
	{renewWritesRow, "in every order an answer outlives its owner's renewal"},
	{renewAdds, "a renewal moves the expiry to a lease from now"},
	{renewDoesNothing, "a renewal moves the expiry to a lease from now"},
	{expiredIsSuperseded, "a renewal never revives a claim that has expired"},
	{completesBlindly, "an owner that was taken over can't renew or complete"},
	{completesAnyToken, "a claim with another token is not the owner's"},
	{completesAnyAttempt, "a claim of another attempt is not the owner's, even with its token"},
	{completesAnyState, "an answer that was given is never taken back"},
	{completeWritesRow, "in every order a takeover and the old owner's late result exclude each other"},
	{answersAgain, "a completion that is there already counts, and the first answer stays"},
	{secondRefused, "a completion that is there already counts, and the first answer stays"},
	{lateRefused, "a late result counts while nobody took over"},
	{unknownIsFinal, "a result that comes after unknown counts"},

	{statusLost, "an answer comes back as it was given"},
	{headersJoined, "an answer comes back as it was given"},
	{headersSplit, "an answer comes back as it was given"},
	{headersRenamed, "an answer comes back as it was given"},
	{bodyAsText, "an answer comes back as it was given"},
	{bodyCutAtNUL, "an answer comes back as it was given"},
	{bodyCut, "an answer comes back as it was given"},
	{bodyTrimmed, "an answer comes back as it was given"},
	{notReplayableLost, "an answer comes back as it was given"},
	{answerShared, "an answer is a copy, in and out"},
	{batchReversed, "a batch of claims is answered one by one, in order"},
	{batchLooksOnce, "of two attempts on one key in a batch one wins"},
	{locksInGivenOrder, "in every order two batches that cross have one winner a key"},
	{batchFirstTells, "in a batch an attempt is judged by what the one before it left"},
	{batchAllWin, "of two attempts on one key in a batch one wins"},
	{batchAllWin, "in a batch an attempt is judged by what the one before it left"},
	{batchErrShared, "in a batch an attempt is told what it would be told by itself"},
	{batchOneWindow, "in a batch an attempt is told what it would be told by itself"},
	{batchEndsOnce, "in a batch a claim may come twice, and what its owner said first counts"},
}

// with returns a maker of stores that have a fault.
func with(f fault) (func(testing.TB, idempotencytest.Hook) idempotency.Store, idempotencytest.Features) {
	b := newBench(impatient)
	newStore := func(_ testing.TB, hook idempotencytest.Hook) idempotency.Store { return newReference(hook, b, f) }
	return newStore, b.features()
}

func TestTheReferenceKeepsTheContract(t *testing.T) {
	newStore, f := with(none)
	idempotencytest.Run(t, newStore, f)
}

func TestEachPlantedFaultIsCaught(t *testing.T) {
	for _, tc := range planted {
		t.Run(string(tc.fault)+"/"+tc.by, func(t *testing.T) {
			newStore, f := with(tc.fault)
			if caught := idempotencytest.Catch(t, newStore, f, tc.by); len(caught) != 1 || caught[0] != tc.by {
				t.Errorf("the fault went unnoticed; caught by %q", caught)
			}
		})
	}
}

func TestNothingIsCaughtOnARightStore(t *testing.T) {
	newStore, f := with(none)
	if caught := idempotencytest.Catch(t, newStore, f); len(caught) != 0 {
		t.Errorf("caught: %q", caught)
	}
}

func TestAStoreThatLostItsHookIsCaught(t *testing.T) {
	newStore, f := with(none)
	caught := idempotencytest.Catch(t, func(tb testing.TB, _ idempotencytest.Hook) idempotency.Store {
		return newStore(tb, func(context.Context, string) {})
	}, f, "in every order one of two claims wins")
	if len(caught) != 1 {
		t.Error("a store that never calls its hook passed a race")
	}
}

func TestAPanicOfAStoreIsAFailureOfTheCase(t *testing.T) {
	_, f := with(none)
	caught := idempotencytest.Catch(t, func(testing.TB, idempotencytest.Hook) idempotency.Store {
		return panicking{}
	}, f, "a key that nobody claimed is not found", "in every order one of two claims wins")
	if len(caught) != 2 {
		t.Errorf("caught by %q, want both", caught)
	}
}

// panicking is a store that is not even there.
type panicking struct{ idempotency.Store }

func TestAStoreThatAnswersErrorsFailsEveryCase(t *testing.T) {
	_, f := with(none)
	if caught := idempotencytest.Catch(t, func(testing.TB, idempotencytest.Hook) idempotency.Store {
		return broken{}
	}, f, "a first claim wins and is recorded as it was made", "an empty batch is answered with nothing"); len(caught) != 2 {
		t.Errorf("caught by %q, want both", caught)
	}
}

// broken is a store whose database is gone.
type broken struct{}

var errGone = errors.New("the database is gone")

func (broken) Claim(context.Context, []idempotency.Attempt) ([]idempotency.Claimed, error) {
	return nil, errGone
}

func (broken) Renew(context.Context, []idempotency.Claim, time.Duration) ([]error, error) {
	return nil, errGone
}

func (broken) SaveStep(context.Context, idempotency.Claim, idempotency.StepRecord) error {
	return errGone
}

func (broken) Sweep(context.Context, time.Duration, time.Duration, int) (int, error) {
	return 0, errGone
}

func (broken) Complete(context.Context, []idempotency.Completion) ([]error, error) {
	return nil, errGone
}

func (broken) Find(context.Context, string, string) (idempotency.Record, error) {
	return idempotency.Record{}, errGone
}
