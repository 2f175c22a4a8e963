package main

import (
	"context"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	watermill "github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/fiftyhosts/fifty/idempotency"
)

var peerWatermillCases = []Case{
	{
		Name: "peer-watermill-memory-fresh", Goal: noGoal(),
		What: "New keys, in memory. Ours: Keys.Do. Theirs: watermill's Deduplicator, which notes the key before the work and keeps no answer.",
		Run:  func(ctx context.Context, b *bench) (float64, error) { return peerWatermill(ctx, b, false) },
	},
	{
		Name: "peer-watermill-memory-again", Goal: noGoal(),
		What: "The same with keys that are completed. Ours returns the answer; theirs drops the message.",
		Run:  func(ctx context.Context, b *bench) (float64, error) { return peerWatermill(ctx, b, true) },
	},
}

func peerWatermill(ctx context.Context, b *bench, again bool) (float64, error) {
	ourRing, theirRing := &keyring{prefix: "peerkeys", again: again}, &keyring{prefix: "peerkeys", again: again}
	keys := freshMemoryKeys()
	ours := doSide(func() *idempotency.Keys { return keys }, ourRing)
	var handle message.HandlerFunc
	renew := func() error {
		repository, err := watermill.NewMapExpiringKeyRepository(time.Hour)
		if err != nil {
			return err
		}
		handle = (&watermill.Deduplicator{
			Repository: repository, Timeout: time.Second,
			KeyFactory: func(m *message.Message) (string, error) { return m.UUID, nil },
		}).Middleware(func(m *message.Message) ([]*message.Message, error) {
			return []*message.Message{message.NewMessage(m.UUID, []byte(chargeAnswer))}, nil
		})
		return nil
	}
	theirs := Side{Name: "watermill", Op: func(_ context.Context, _ int) error {
		_, err := handle(message.NewMessage(theirRing.key(), []byte(chargeBody)))
		return err
	}}
	if err := renew(); err != nil {
		return 0, fmt.Errorf("watermill: %w", err)
	}
	return peerMeasure(ctx, b,
		refilled(ours, ourRing, func() error { keys = freshMemoryKeys(); return nil }),
		refilled(theirs, theirRing, renew))
}
