package idempotencytest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/idempotency/idempotencytest"
)

// Faults of transactions.
const (
	effectApart        fault = "the effect is not in the transaction"
	claimApart         fault = "the claim and the answer are not in the transaction"
	answerForgotten    fault = "the answer is not written"
	errorCommits       fault = "an error is committed"
	errorSwallowed     fault = "an error is rolled back and not returned"
	panicCommits       fault = "a panic is committed"
	commitsAnyway      fault = "an ended context does not stop the commit"
	txLocksNothing     fault = "a transaction's claim is a look"
	duplicateWaits     fault = "a duplicate waits for the transaction"
	toldAsExpired      fault = "a duplicate is told that the transaction has expired"
	freeForgotten      fault = "a sweep that met a transaction's key never comes back to it"
	locksIgnored       fault = "a completion does not heed the transaction that took over"
	rollbackDeletes    fault = "a rollback deletes the record that was there"
	undoIgnored        fault = "what a refusal or an error did is not undone"
	undoTooFar         fault = "the caller's work before the claim is undone too"
	freeIgnored        fault = "a key is not freed after an error"
	savepointKeeps     fault = "a failed savepoint is not undone"
	savepointUndoesAll fault = "a failed savepoint undoes the whole transaction"
	savepointBreaks    fault = "a failed savepoint ends the transaction"
	allRetryable       fault = "every error is retryable"
	duplicateWorks     fault = "the function of a duplicate is run, and committed"
)

var plantedTx = []struct {
	fault fault
	by    string
}{
	{effectApart, "a transaction is rolled back when its function returns an error, which is returned"},
	{effectApart, "InTx whose function fails leaves nothing"},
	{claimApart, "InTx whose function fails leaves nothing"},
	{claimApart, "InTx that is rolled back leaves the key as it was"},
	{claimApart, "DoTx leaves nothing when the caller rolls back"},
	{answerForgotten, "InTx commits effect and answer together, and shows neither before"},
	{errorCommits, "InTx whose function fails leaves nothing"},
	{errorSwallowed, "a transaction is rolled back when its function returns an error, which is returned"},
	{panicCommits, "InTx whose function panics or ends its goroutine leaves nothing"},
	{panicCommits, "a transaction is rolled back when its function panics or ends its goroutine, which goes on"},
	{contextIgnored, "InTx whose context ends leaves effect and answer or neither"},
	{commitsAnyway, "a transaction under an ended context changes nothing"},
	{contextIgnored, "a transaction under an ended context changes nothing"},
	{duplicateWorks, "an InTx whose key is not its own leaves nothing, whatever its function does"},
	{txLocksNothing, "in every order two InTx leave one effect and one answer"},
	{txLocksNothing, "in every order two DoTx leave one effect and one answer"},
	{txLocksNothing, "in every order InTx and Do run once and have one answer"},
	{txLocksNothing, "in every order an InTx that is sent twice leaves one effect and one answer"},
	{inFlightAbsent, "in every order InTx and Do run once and have one answer"},
	{inFlightAbsent, "InTx leaves alone what another owner holds or has decided"},
	{fingerprintIgnored, "InTx leaves alone what another owner holds or has decided"},
	{duplicateWaits, "a duplicate of an InTx at work is told at once, or waits and gets the answer"},
	{toldAsExpired, "a duplicate of an InTx at work is told at once, or waits and gets the answer"},
	{duplicateWaits, "a DoTx during an InTx is told at once, or waits and gets the answer"},
	{toldAsExpired, "a Do during an InTx is told at once, or waits and gets the answer"},
	{txLocksNothing, "a Do during an InTx is told at once, or waits and gets the answer"},
	{claimTxWaits, "a DoTx during an InTx is told at once, or waits and gets the answer"},
	{windowIgnored, "InTx does not run for a key outside its window, and ClaimTx refuses it"},
	{windowApartFromTx, "InTx does not run for a key outside its window, and ClaimTx refuses it"},
	{windowApartFromTx, "InTx and DoTx run a time-ordered key within its window only"},
	{windowOfNewOnly, "InTx does not run for a key outside its window, and ClaimTx refuses it"},
	{windowFailsAll, "InTx does not run for a key outside its window, and ClaimTx refuses it"},
	{answerBuried, "a key that expired is not run in a transaction"},
	{sweepsBlindly, "in every order an InTx on a free key and a sweep leave its effect, its answer and a higher token"},
	{floorReadEarly, "in every order an InTx on a free key and a sweep leave its effect, its answer and a higher token"},
	{floorRaisedLate, "in every order an InTx on a free key and a sweep leave its effect, its answer and a higher token"},
	{freeForgotten, "in every order an InTx that fails leaves a free key to the sweep"},
	{locksIgnored, "in every order a takeover by InTx and the old owner's late result exclude each other"},
	{locksIgnored, "in every order a takeover by InTx and the old owner's late step exclude each other"},
	{locksIgnored, "in every order a takeover by InTx and a decision exclude each other"},
	{resolvesDone, "in every order a takeover by InTx and a decision exclude each other"},
	{stepLooksFirst, "in every order a takeover by InTx and the old owner's late step exclude each other"},
	{rollbackDeletes, "InTx that is rolled back leaves the key as it was"},
	{rollbackDeletes, "DoTx leaves the key as it was when the caller rolls back"},
	{tokenKept, "InTx that is rolled back leaves the key as it was"},
	{undoIgnored, "DoTx that failed leaves no effect and no poisoned key, even when the caller commits"},
	{undoIgnored, "DoTx undoes a refused work and keeps the refusal"},
	{undoIgnored, "DoTx whose function panicked leaves no effect and no poisoned key, even when the caller commits"},
	{undoTooFar, "DoTx undoes a refused work and keeps the refusal"},
	{undoTooFar, "several keys in one transaction do not undo each other"},
	{freeIgnored, "DoTx that failed leaves no effect and no poisoned key, even when the caller commits"},
	{freeIgnored, "a DoTx that failed may run again in the same transaction"},
	{completesAnyToken, "CompleteTx takes nobody's word but the owner's"},
	{completesAnyAttempt, "CompleteTx takes nobody's word but the owner's"},
	{headersJoined, "InTx keeps an answer as it was given"},
	{savepointKeeps, "a savepoint that fails is undone, and the rest of the transaction stays usable"},
	{savepointKeeps, "savepoints nest and come one after another"},
	{savepointUndoesAll, "a savepoint that fails is undone, and the rest of the transaction stays usable"},
	{savepointBreaks, "a savepoint repairs a transaction that a failed statement broke"},
	{allRetryable, "an error that is not the store's is permanent"},
}

// withTx is with for transactions.
func withTx(f fault, lockWait time.Duration) (func(testing.TB, idempotencytest.Hook) idempotencytest.TxHarness[*refTx], idempotencytest.Features) {
	b := newBench(lockWait)
	newTx := func(_ testing.TB, hook idempotencytest.Hook) idempotencytest.TxHarness[*refTx] {
		s := newReference(hook, b, f)
		return idempotencytest.TxHarness[*refTx]{
			Store: s,
			Txns:  s,
			Effect: func(_ context.Context, tx *refTx, name string) error {
				if tx.done {
					return errTxDone
				}
				tx.effect(name)
				return nil
			},
			Effects: func(_ context.Context, name string) (int, error) {
				s.mu.Lock()
				defer s.mu.Unlock()
				return s.effects[name], nil
			},
			Break: func(context.Context, *refTx) error { return errors.New("reference: no such table") },
		}
	}
	return newTx, b.features()
}

func TestTheReferenceKeepsTheContractInTransactions(t *testing.T) {
	newTx, f := withTx(none, patient)
	idempotencytest.RunTx(t, newTx, f)
}

func TestAReferenceWhoseDuplicatesWaitKeepsTheContractInTransactions(t *testing.T) {
	newTx, f := withTx(duplicateWaits, patient)
	f.DuplicateWaits = "rows are locked until the commit"
	idempotencytest.RunTx(t, newTx, f)
}

func TestEachPlantedFaultOfTransactionsIsCaught(t *testing.T) {
	for _, tc := range plantedTx {
		t.Run(string(tc.fault)+"/"+tc.by, func(t *testing.T) {
			newTx, f := withTx(tc.fault, impatient)
			if caught := idempotencytest.CatchTx(t, newTx, f, tc.by); len(caught) != 1 || caught[0] != tc.by {
				t.Errorf("the fault went unnoticed; caught by %q", caught)
			}
		})
	}
}

func TestNothingIsCaughtOnARightStoreWithTransactions(t *testing.T) {
	newTx, f := withTx(none, patient)
	if caught := idempotencytest.CatchTx(t, newTx, f); len(caught) != 0 {
		t.Errorf("caught: %q", caught)
	}
}
