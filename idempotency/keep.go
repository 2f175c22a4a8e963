package idempotency

import (
	"context"
	"fmt"
)

// referTo is the header of an answer that is kept as a reference. No HTTP header can have this name.
const referTo = ":refer-to"

// kept is what the store gets of an answer: the whole, or a reference to it, or for one that is too large its
// status alone; sealed, if there is a ring.
func (k *Keys) kept(req Request, r Response) Response {
	switch {
	case r.NotReplayable:
		return Response{Status: r.Status, NotReplayable: true}
	case r.Reference != "":
		r = Response{Status: r.Status, Header: map[string][]string{referTo: {r.Reference}}}
	case len(r.Body) > k.cfg.ResponseMax:
		return Response{Status: r.Status, NotReplayable: true}
	}
	return k.cfg.Seal.sealResponse(req, r)
}

// replay is the answer that a duplicate gets for what was kept.
func (k *Keys) replay(ctx context.Context, req Request, stored Response) (Response, error) {
	r, err := k.cfg.Seal.openResponse(req, stored)
	if err != nil {
		return Response{}, err
	}
	reference, ok := r.Header[referTo]
	if !ok || len(reference) != 1 {
		return r, nil
	}
	if k.cfg.Rebuild == nil {
		return Response{Status: r.Status, NotReplayable: true}, ErrNotReplayable
	}
	r.Reference = reference[0]
	today, err := k.cfg.Rebuild(ctx, req, r)
	if err != nil {
		return Response{}, fmt.Errorf("idempotency: rebuild the answer from %q: %w", r.Reference, err)
	}
	return today, nil
}
