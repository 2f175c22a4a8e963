package redis

import (
	"context"
	"crypto/sha1" //nolint:gosec // the name that Redis gives a script
	_ "embed"
	"encoding/hex"

	"github.com/redis/rueidis"
)

// The scripts, each behind what they share. Before that, reserve has a shorter way for a lone ask.
var (
	//go:embed scripts/common.lua
	commonLua string
	//go:embed scripts/alone.lua
	aloneLua string
	//go:embed scripts/reserve.lua
	reserveLua string
	//go:embed scripts/settle.lua
	settleLua string
	//go:embed scripts/supply.lua
	supplyLua string
	//go:embed scripts/sweep.lua
	sweepLua string
	//go:embed scripts/availability.lua
	availabilityLua string
	//go:embed scripts/history.lua
	historyLua string
	//go:embed scripts/check.lua
	checkLua string

	reserveScript      = named("reserve", aloneLua+commonLua+reserveLua)
	settleScript       = newScript("settle", settleLua)
	supplyScript       = newScript("supply", supplyLua)
	sweepScript        = newScript("sweep", sweepLua)
	availabilityScript = newScript("availability", availabilityLua)
	historyScript      = newScript("history", historyLua)
	checkScript        = newScript("check", checkLua)
)

// script is one whole program for Redis.
type script struct{ name, text, sha string }

func newScript(name, body string) *script { return named(name, commonLua+body) }

func named(name, text string) *script {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // as above
	return &script{name: name, text: text, sha: hex.EncodeToString(sum[:])}
}

// run calls a script, once: a second time only when Redis said that it doesn't know it yet. ctx governs the
// wait for the answer; a script that was sent is not called back.
func (s *Store) run(ctx context.Context, c *script, args []string) ([]rueidis.RedisMessage, error) {
	s.step(ctx, c.name)
	if err := ctx.Err(); err != nil {
		return nil, fail(c.name, err, true)
	}
	// Linearization point: the script, in Redis, which runs nothing else meanwhile.
	reply := s.client.Do(ctx, s.client.B().Evalsha().Sha1(c.sha).Numkeys(int64(len(s.keys))).Key(s.keys...).Arg(args...).Build())
	if known, ok := rueidis.IsRedisErr(reply.Error()); ok && known.IsNoScript() {
		reply = s.client.Do(ctx, s.client.B().Eval().Script(c.text).Numkeys(int64(len(s.keys))).Key(s.keys...).Arg(args...).Build())
	}
	answer, err := reply.ToArray()
	if err != nil {
		return nil, fail(c.name, err, false)
	}
	return answer, nil
}
