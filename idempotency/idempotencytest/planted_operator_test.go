package idempotencytest_test

import (
	"testing"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/idempotency/idempotencytest"
)

// Faults of what operators see and decide.
const (
	listWithoutSteps    fault = "a list leaves out the steps"
	listFolded          fault = "a list in the order of a language"
	listUnlimited       fault = "a list has no limit"
	listAfterScope      fault = "a page begins behind the last one's scope"
	listAfterEach       fault = "a page compares scope and key each by itself"
	listFromLast        fault = "a page begins with the last one of the page before"
	listAnyScope        fault = "a list of one scope has all"
	listAnyAge          fault = "a list has records of any age"
	listOmitsExpired    fault = "an owner that vanished is not listed as unresolved"
	listCallsLiveOpen   fault = "a live claim is listed as unresolved"
	resolvesLive        fault = "a live claim is decided"
	resolvesDone        fault = "a done key is decided"
	resolvesUnknownOnly fault = "an owner that vanished can't be decided"
	resolvesAnyToken    fault = "a decision does not compare the token"
	resolvesWhatItSaw   fault = "a decision is written after a look"
	resolveKeepsToken   fault = "a decision keeps the token"
	resolveKeepsAttempt fault = "a decision keeps the attempt"
	freedKeepsSteps     fault = "a key that an operator freed keeps its steps"
	auditForgotten      fault = "a decision is not kept"
	auditsRefused       fault = "a decision that was refused is kept"
	auditByKey          fault = "decisions belong to their key in all scopes"
	auditReversed       fault = "decisions are kept newest first"
	erasesBelow         fault = "scopes that begin alike are erased too"
	erasesOpen          fault = "what is open is erased"
	erasesAll           fault = "erasing has no limit"
	erasesAgain         fault = "what was erased is erased again"
	eraseByAnswer       fault = "steps are not erased where the answer was not kept"
	eraseLeavesSteps    fault = "erasing leaves the steps"
	eraseDeletes        fault = "erasing deletes the record"
	erasedReplays       fault = "what was erased is replayed, empty"
)

// plantedOperators is each of these faults, and the case that must catch it in every run.
var plantedOperators = []struct {
	fault fault
	by    string
}{
	{listWithoutSteps, "records of every state are listed whole, and those that are unresolved by themselves"},
	{listFolded, "records are listed page by page in the order of scope and key, byte by byte"},
	{listUnlimited, "records are listed page by page in the order of scope and key, byte by byte"},
	{listAfterScope, "records are listed page by page in the order of scope and key, byte by byte"},
	{listAfterEach, "records are listed page by page in the order of scope and key, byte by byte"},
	{listFromLast, "records are listed page by page in the order of scope and key, byte by byte"},
	{listAnyScope, "records are listed page by page in the order of scope and key, byte by byte"},
	{listAnyAge, "records are listed by the time since their first claim"},
	{ageOfOwner, "records are listed by the time since their first claim"},
	{listOmitsExpired, "records of every state are listed whole, and those that are unresolved by themselves"},
	{listOmitsExpired, "an operator sees a claim that nobody may take over as unknown"},
	{listCallsLiveOpen, "records of every state are listed whole, and those that are unresolved by themselves"},
	{contextIgnored, "a list that was called off is none"},

	{resolvesLive, "a key that is not unresolved is not decided, and nothing is kept of it"},
	{resolvesLive, "in every order a decision and a takeover exclude each other"},
	{resolvesDone, "a key that is not unresolved is not decided, and nothing is kept of it"},
	{resolvesDone, "a key that is unresolved is decided once, and the decision is kept"},
	{resolvesUnknownOnly, "a key that is unresolved is decided once, and the decision is kept"},
	{resolvesAnyToken, "a decision about another token is refused"},
	{resolvesWhatItSaw, "in every order a decision and the owner's late result exclude each other"},
	{resolvesWhatItSaw, "in every order a decision and a takeover exclude each other"},
	{resolvesWhatItSaw, "in every order of two decisions one counts, and is kept"},
	{resolvesWhatItSaw, "in every order a decision and the owner's late step exclude each other"},
	{resolveKeepsToken, "a key that is unresolved is decided once, and the decision is kept"},
	{resolveKeepsAttempt, "a key that is unresolved is decided once, and the decision is kept"},
	{resolveKeepsAttempt, "an answer that an operator gave is everybody's, and the late owner's does not count"},
	{freedKeepsSteps, "a key that an operator freed is the next one's, without steps, and the late owner's result does not count"},
	{completesAnyAttempt, "an answer that an operator gave is everybody's, and the late owner's does not count"},
	{completesBlindly, "in every order a decision and the owner's late result exclude each other"},
	{completeWritesRow, "in every order a decision and the owner's late result exclude each other"},
	{stepLooksFirst, "in every order a decision and the owner's late step exclude each other"},
	{letGoBlind, "in every order a decision stands against the owner's renewal and its letting go"},
	{headersJoined, "every answer that a key may have may be an operator's"},
	{auditForgotten, "a key that is unresolved is decided once, and the decision is kept"},
	{auditsRefused, "a key that is unresolved is decided once, and the decision is kept"},
	{auditsRefused, "a key that is not unresolved is not decided, and nothing is kept of it"},
	{auditByKey, "decisions about a key are kept in order, as they were explained"},
	{auditReversed, "decisions about a key are kept in order, as they were explained"},
	{hostsClock, "a decision has the time of the store's clock"},
	{keyForgotten, "a decision is about no key beside it"},
	{scopeForgotten, "a decision is about no key beside it"},
	{contextIgnored, "a decision that was called off before it began changed nothing"},

	{erasesBelow, "only what is done is erased, and only in its scope"},
	{erasesOpen, "only what is done is erased, and only in its scope"},
	{erasesAll, "no more than a limit is erased at once, and what was erased is counted"},
	{erasesAgain, "answers and steps that are erased are gone, and their keys stay used"},
	{eraseByAnswer, "steps are erased where the answer was never kept"},
	{eraseLeavesSteps, "answers and steps that are erased are gone, and their keys stay used"},
	{eraseDeletes, "answers and steps that are erased are gone, and their keys stay used"},
	{erasedReplays, "answers and steps that are erased are gone, and their keys stay used"},
	{contextIgnored, "an erasing that was called off before it began changed nothing"},
}

func TestEachPlantedFaultOfOperatorsIsCaught(t *testing.T) {
	for _, tc := range plantedOperators {
		t.Run(string(tc.fault)+"/"+tc.by, func(t *testing.T) {
			newStore, f := with(tc.fault)
			if caught := idempotencytest.Catch(t, newStore, f, tc.by); len(caught) != 1 || caught[0] != tc.by {
				t.Errorf("the fault went unnoticed; caught by %q", caught)
			}
		})
	}
}

// unattended is a store that is nothing for operators.
type unattended struct{ idempotency.Store }

func TestAStoreThatHasNothingForOperatorsMustSaySo(t *testing.T) {
	const by = "a store offers itself to operators, or says why not"
	newStore, f := with(none)
	without := func(tb testing.TB, hook idempotencytest.Hook) idempotency.Store {
		return unattended{newStore(tb, hook)}
	}
	if caught := idempotencytest.Catch(t, without, f, by); len(caught) != 1 {
		t.Error("a store without a word about operators passed")
	}
	f.NoOperator = "nobody looks after it"
	if caught := idempotencytest.Catch(t, without, f); len(caught) != 0 {
		t.Errorf("a store that says why is caught by %q", caught)
	}
	if caught := idempotencytest.Catch(t, newStore, f, by); len(caught) != 1 {
		t.Error("a store that is one for operators, and says that it isn't, passed")
	}
}
