package idempotency_test

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/memory"
)

func ring(t *testing.T, ids ...string) *idempotency.Ring {
	t.Helper()
	var keys []idempotency.SealingKey
	for _, id := range ids {
		keys = append(keys, idempotency.SealingKey{ID: id, Key: bytes.Repeat([]byte(id), 32)[:32]})
	}
	r, err := idempotency.NewRing(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func secret() idempotency.Response {
	return idempotency.Response{
		Status: 201,
		Header: map[string][]string{"Set-Cookie": {"a=1, b", "c=\xff"}},
		Body:   []byte("token 4242-\x00\xfe"),
	}
}

func TestSealedAnswerIsUnreadableInTheStoreAndReplayedWhole(t *testing.T) {
	store := memory.New(memory.Config{})
	keys := idempotency.NewTx(store.Keys(), idempotency.Config{Seal: ring(t, "2026")})
	if _, err := keys.Do(t.Context(), request("do"), answering(secret())); err != nil {
		t.Fatal(err)
	}
	if _, err := keys.InTx(t.Context(), request("tx"), func(context.Context, *memory.Tx) (idempotency.Response, error) {
		return secret(), nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"do", "tx"} {
		rec, err := store.Keys().Find(t.Context(), "acme", key)
		if err != nil || bytes.Contains(rec.Response.Body, []byte("4242")) || rec.Response.Header["Set-Cookie"] != nil {
			t.Fatalf("%s: readable in the store: %+v, %v", key, rec, err)
		}
		res, err := keys.Do(t.Context(), request(key), mustNotRun(t))
		if err != nil || !reflect.DeepEqual(res.Response, secret()) {
			t.Fatalf("%s: %+v, %v", key, res, err)
		}
	}
}

func TestSealingKeysRotate(t *testing.T) {
	store := memory.New(memory.Config{}).Keys()
	do := func(r *idempotency.Ring) (idempotency.Result, error) {
		return idempotency.New(store, idempotency.Config{Seal: r}).Do(t.Context(), request("k"), answering(secret()))
	}
	if _, err := do(ring(t, "2025")); err != nil {
		t.Fatal(err)
	}
	if res, err := do(ring(t, "2026", "2025")); err != nil || !res.Replayed {
		t.Fatalf("%+v, %v", res, err)
	}
	for name, r := range map[string]*idempotency.Ring{"a ring without the key": ring(t, "2026"), "no ring": nil} {
		_, err := do(r)
		wantIs(t, err, idempotency.ErrSealed)
		if s, ok := errors.AsType[*idempotency.SealedError](err); !ok || s.SealedWith != "2025" {
			t.Fatalf("%s: %v does not name the key", name, err)
		}
	}
	wrong, err := idempotency.NewRing(idempotency.SealingKey{ID: "2025", Key: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	_, err = do(wrong)
	wantIs(t, err, idempotency.ErrSealed)
}

func TestSealedAnswerCannotBeMovedToAnotherTenant(t *testing.T) {
	store := memory.New(memory.Config{}).Keys()
	keys := idempotency.New(store, idempotency.Config{Seal: ring(t, "2026")})
	if _, err := keys.Do(t.Context(), request("k"), answering(secret())); err != nil {
		t.Fatal(err)
	}
	victim, err := store.Find(t.Context(), "acme", "k")
	if err != nil {
		t.Fatal(err)
	}
	// An attacker who can write to the table copies the record under a scope of its own.
	thief := idempotency.Attempt{ID: "thief", Request: request("k"), Lease: 1 << 40}
	thief.Request.Scope = "mallory"
	claimed, err := store.Claim(t.Context(), []idempotency.Attempt{thief})
	if err != nil || !claimed[0].Won {
		t.Fatal(claimed, err)
	}
	copied := idempotency.Completion{
		Claim: idempotency.Claim{Scope: "mallory", Key: "k", Token: claimed[0].Record.Token, Attempt: "thief"},
		State: idempotency.Done, Response: victim.Response,
	}
	if errs, err := store.Complete(t.Context(), []idempotency.Completion{copied}); err != nil || errs[0] != nil {
		t.Fatal(errs, err)
	}
	_, err = keys.Do(t.Context(), thief.Request, mustNotRun(t))
	wantIs(t, err, idempotency.ErrSealed)
}

func TestSealedStepsResume(t *testing.T) {
	store := newFaulty()
	keys := idempotency.New(store, idempotency.Config{Seal: ring(t, "2026")})
	p := &peer{}
	_, err := keys.DoSteps(t.Context(), request("k"), order(p, func() error { return errProvider }))
	wantIs(t, err, errProvider)
	rec, err := store.Find(t.Context(), "acme", "k")
	if err != nil || len(rec.Steps) != 1 || bytes.Contains(rec.Steps[0].Result, []byte("ch_")) {
		t.Fatalf("readable in the store: %v, %v", rec.Steps, err)
	}
	res, err := keys.DoSteps(t.Context(), request("k"), order(p, sent))
	if err != nil || len(p.sent) != 1 || len(res.Body) == 0 {
		t.Fatalf("%+v, %v", res, err)
	}
}

func TestRingRefusesKeysThatCannotSeal(t *testing.T) {
	good := idempotency.SealingKey{ID: "a", Key: make([]byte, 32)}
	for name, keys := range map[string][]idempotency.SealingKey{
		"none":      nil,
		"short key": {{ID: "a", Key: make([]byte, 16)}},
		"no ID":     {{Key: make([]byte, 32)}},
		"ID twice":  {good, good},
	} {
		if _, err := idempotency.NewRing(keys...); !errors.Is(err, fifty.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReferenceBecomesTodaysAnswer(t *testing.T) {
	store := newFaulty()
	status := "pending"
	rebuild := func(_ context.Context, req idempotency.Request, kept idempotency.Response) (idempotency.Response, error) {
		if req.Key != "k" || kept.Reference != "ch_1" || kept.Status != 201 {
			t.Errorf("%+v, %+v", req, kept)
		}
		return idempotency.Response{Status: kept.Status, Body: []byte(kept.Reference + " " + status)}, nil
	}
	keys := idempotency.New(store, idempotency.Config{Rebuild: rebuild, Seal: ring(t, "2026")})
	first, err := keys.Do(t.Context(), request("k"), func(context.Context) (idempotency.Response, error) {
		return idempotency.Response{Status: 201, Body: []byte("ch_1 pending, token 4242"), Reference: "ch_1"}, nil
	})
	if err != nil || string(first.Body) != "ch_1 pending, token 4242" {
		t.Fatalf("the first caller gets the answer as it is: %+v, %v", first, err)
	}
	status = "paid"
	if res, err := keys.Do(t.Context(), request("k"), mustNotRun(t)); err != nil || string(res.Body) != "ch_1 paid" || !res.Replayed {
		t.Fatalf("%+v, %v", res, err)
	}
	_, err = idempotency.New(store, idempotency.Config{Seal: ring(t, "2026")}).Do(t.Context(), request("k"), mustNotRun(t))
	wantIs(t, err, idempotency.ErrNotReplayable)
}

func TestAnyFingerprintAnswersAUsedKeyByChoice(t *testing.T) {
	store := newFaulty()
	other := request("k")
	other.Fingerprint = idempotency.FingerprintOf("another body")
	strict, lenient := idempotency.New(store, idempotency.Config{}), idempotency.New(store, idempotency.Config{AnyFingerprint: true})
	if _, err := lenient.Do(t.Context(), request("k"), answering(created("ch_1"))); err != nil {
		t.Fatal(err)
	}
	if res, err := lenient.Do(t.Context(), other, mustNotRun(t)); err != nil || !res.Replayed {
		t.Fatalf("%+v, %v", res, err)
	}
	if _, err := strict.Do(t.Context(), request("s"), answering(created("ch_2"))); err != nil {
		t.Fatal(err)
	}
	other.Key = "s"
	_, err := strict.Do(t.Context(), other, mustNotRun(t))
	wantIs(t, err, idempotency.ErrMismatch)
}

func TestErasedAnswersStayDone(t *testing.T) {
	store := memory.New(memory.Config{}).Keys()
	keys, operator := idempotency.New(store, idempotency.Config{}), idempotency.NewOperator(store)
	neighbour := request("a")
	neighbour.Scope = "other"
	for _, req := range []idempotency.Request{request("a"), request("b"), neighbour} {
		if _, err := keys.Do(t.Context(), req, answering(secret())); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []int{2, 0} {
		if n, err := operator.Erase(t.Context(), "acme"); n != want || err != nil {
			t.Fatalf("erased %d, %v; want %d", n, err, want)
		}
	}
	_, err := keys.Do(t.Context(), request("a"), mustNotRun(t))
	wantIs(t, err, idempotency.ErrNotReplayable)
	if res, err := keys.Do(t.Context(), neighbour, mustNotRun(t)); err != nil || !bytes.Contains(res.Body, []byte("4242")) {
		t.Fatalf("another scope's answer: %+v, %v", res, err)
	}
}
