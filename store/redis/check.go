package redis

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/rueidis"
)

// settings are the lines of redis.conf that decide what is lost.
var settings = []string{"maxmemory-policy", "appendonly", "appendfsync", "no-appendfsync-on-rewrite", "min-replicas-to-write"}

// Check returns a sentence for each setting of the server under which an acknowledged answer can be lost, or
// nothing can be written. It changes nothing. A program calls it at its start and logs what it says.
func (s *Store) Check(ctx context.Context) (warnings []string, err error) {
	info, err := s.client.Do(ctx, s.client.B().Info().Section("replication").Build()).ToString()
	if _, refused := rueidis.IsRedisErr(err); err != nil && !refused {
		return nil, fail("check", err, true)
	}
	role, replicas := field(info, "role"), field(info, "connected_slaves")
	if role == "slave" {
		warnings = append(warnings, "the server is a replica, which takes no writes; connect to the primary")
	}
	set, err := s.client.Do(ctx, s.client.B().ConfigGet().Parameter(settings...).Build()).AsStrMap()
	if _, refused := rueidis.IsRedisErr(err); refused {
		return append(warnings, fmt.Sprintf("the server does not tell its settings (%v): see that appendonly is yes, appendfsync always and maxmemory-policy noeviction", err)), nil
	}
	if err != nil {
		return nil, fail("check", err, true)
	}
	if policy := set["maxmemory-policy"]; strings.HasPrefix(policy, "allkeys-") {
		warnings = append(warnings, "maxmemory-policy is "+policy+": when memory is short the server throws holds away, and the stock stops; set it to noeviction")
	}
	switch {
	case set["appendonly"] == "no":
		warnings = append(warnings, "appendonly is no: a crash loses all since the last snapshot, sold units are sold again; turn it on")
	case set["appendfsync"] != "always":
		warnings = append(warnings, "appendfsync is "+set["appendfsync"]+": a crash loses the newest answers, sold units are sold again; set it to always")
	case set["no-appendfsync-on-rewrite"] == "yes":
		warnings = append(warnings, "no-appendfsync-on-rewrite is yes: while the log is rewritten a crash loses the newest answers; turn it off")
	}
	if replicas != "" && replicas != "0" {
		text := "the server has replicas: a failover to one loses what it had not got yet"
		if set["min-replicas-to-write"] == "0" {
			text += "; min-replicas-to-write bounds how much"
		}
		warnings = append(warnings, text)
	}
	return warnings, nil
}

// field is a line of INFO.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
