package server

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net"
	"strings"
)

// banner prints what runs where. It is one write, so that whoever waits for a part of it has all of it.
func (s *server) banner(public, private net.Listener, secure, demo bool) {
	var b bytes.Buffer
	base := scheme(secure) + "://" + reachable(public)
	fmt.Fprintf(&b, "fifty %s\n", s.cfg.Version)
	fmt.Fprintf(&b, "  listening on %s://%s\n", scheme(secure), public.Addr())
	fmt.Fprintf(&b, "  admin on     http://%s (/healthz, /readyz, /metrics)\n", private.Addr())
	fmt.Fprintf(&b, "  database     %s\n", s.backend.Name)
	for _, r := range s.cfg.Config.Routes {
		fmt.Fprintf(&b, "  route        %s\n", r.Summary())
	}
	retention, tombstone := s.cfg.Config.keeps()
	fmt.Fprintf(&b, "  kept         answers %v, keys %v, for all routes; swept about every %v\n", retention, tombstone, s.cfg.SweepEvery)
	if demo {
		line := tryLine(base, "try-"+strings.ToLower(rand.Text()[:8]))
		b.WriteString("\nThere is no configuration, so a payments sandbox is behind the gateway, and all callers count as one\n" +
			"(scope constant). Try the same charge twice, with one key: there is one charge, and the second answer\n" +
			"shows Idempotency-Replayed: true.\n\n" + line + "\n" + line + "\n\n")
	}
	_, _ = s.cfg.Out.Write(b.Bytes()) // a process with a closed standard output serves all the same
	s.cfg.Log.Info("serving", "listen", public.Addr().String(), "admin", private.Addr().String(), "database", s.backend.Name, "routes", len(s.cfg.Config.Routes))
}

// tryLine is a charge that can be pasted into a shell. The key is new with each start, since a database
// remembers those of the last one.
func tryLine(base, key string) string {
	return "curl -i " + base + "/charges -H 'Idempotency-Key: " + key +
		`' -H 'Content-Type: application/json' -d '{"account":"alice","amount":1200,"currency":"EUR"}'`
}
