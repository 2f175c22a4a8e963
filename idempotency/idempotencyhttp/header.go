package idempotencyhttp

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/fiftyhosts/fifty/idempotency"
)

// hopByHop are the fields about one connection (RFC 9110, section 7.6.1): another connection gets its own.
var hopByHop = []string{
	"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authentication-Info", "Proxy-Authorization",
	"Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// appended are fields that outer handlers add to, so that the answer's values come beside theirs. In any
// other field the answer's values take the place of theirs.
var appended = []string{"Set-Cookie", "Vary"}

// HeaderMax is the largest header that is kept of an answer, in bytes of names and values. An answer with a
// larger one is sent, and its work never runs again, but it is not kept.
const HeaderMax = 64 << 10

func sizeOf(h http.Header) int {
	size := 0
	for name, values := range h {
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	return size
}

// descriptive are the fields without which the bytes of a kept body can't be read. Content-Length is about
// the body too: storable has decided on it.
var descriptive = []string{"Content-Type", "Content-Encoding", "Content-Range", "Content-Length"}

// headerList is Config.Headers in canonical spelling, with the fields that are always kept. nil stays nil.
// It panics on a name that is none, or that no answer's replay can have.
func headerList(form string, names []string) []string {
	if names == nil {
		return nil
	}
	list := slices.Clone(descriptive)
	for _, name := range names {
		canonical := http.CanonicalHeaderKey(name)
		if !isToken(name) {
			panic("idempotencyhttp: " + form + ": Config.Headers: " + strconv.Quote(name) + " is no name of a header field")
		}
		if slices.Contains(hopByHop, canonical) {
			panic("idempotencyhttp: " + form + ": Config.Headers: " + canonical + " is about one connection and can't be kept")
		}
		list = append(list, canonical)
	}
	return list
}

// isToken says whether s can be the name of a field (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	for _, c := range []byte(s) {
		alphanumeric := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !alphanumeric && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}

// bodyAllowed says whether an answer of this status can have a body.
func bodyAllowed(status int) bool {
	return status >= http.StatusOK && status != http.StatusNoContent && status != http.StatusNotModified
}

// merge adds an answer's header to one that outer handlers have begun. The framing is ours to choose, so
// Transfer-Encoding stays out.
func merge(into, answer http.Header) {
	for name, values := range answer {
		switch {
		case name == "Transfer-Encoding", strings.HasPrefix(name, http.TrailerPrefix):
		case slices.Contains(appended, name):
			into[name] = append(into[name], values...)
		default:
			into[name] = slices.Clone(values)
		}
	}
}

// storable is what of an answer's header is kept for its replays: each value on its own, nothing that is
// about one connection or not in Config.Headers. The length is that of the body and is not kept beside it.
// A Content-Type that net/http would guess is kept as guessed, so that another release or host can't guess
// differently.
func (rec *recorder) storable() http.Header {
	h := rec.head.Clone()
	for _, line := range h.Values("Connection") {
		for name := range strings.SplitSeq(line, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopByHop {
		delete(h, name)
	}
	if bodyAllowed(rec.status) && rec.r.Method != http.MethodHead {
		delete(h, "Content-Length")
	}
	listed := func(name string) bool {
		return rec.cfg.Headers == nil || slices.Contains(rec.cfg.Headers, http.CanonicalHeaderKey(name))
	}
	for name, values := range h {
		if len(values) == 0 || !listed(name) {
			delete(h, name)
		}
	}
	_, typed := rec.head["Content-Type"]
	_, outer := rec.w.Header()["Content-Type"]
	if body := rec.buffer.Bytes(); len(body) > 0 && !typed && !outer && rec.head.Get("Content-Encoding") == "" {
		h.Set("Content-Type", http.DetectContentType(body))
	}
	return h
}

// replay sends an answer that was kept: status, header and body as they were, and the mark.
func replay(w http.ResponseWriter, r *http.Request, answer idempotency.Response) {
	h := w.Header()
	merge(h, answer.Header)
	h.Set(ReplayedHeader, "true")
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // the first answer had none; net/http shall not guess one
	}
	if !bodyAllowed(answer.Status) || r.Method == http.MethodHead {
		w.WriteHeader(answer.Status)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(answer.Body)))
	w.WriteHeader(answer.Status)
	_, _ = w.Write(answer.Body) // a client that left asks again
}
