package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/fiftyhosts/fifty/internal/wall"
)

// Bounds of the HTTP side.
const (
	BodyMax     = 64 << 10         // bytes of a request's body
	CommitMax   = 10 * time.Second // how long the ledger may take; then 503, and the charge may be booked
	PageDefault = 100              // charges of a page without ?limit=
)

// Config is that of a Sandbox. The zero Config works.
type Config struct {
	// Log gets what clients are not told, such as the ledger's errors. Defaults to slog.Default().
	Log *slog.Logger

	// Exit ends the process for the faults crash-before and crash-after. If it returns, the connection is
	// closed without an answer. Defaults to os.Exit.
	Exit func(code int)

	// Now is the clock that Charge.Created is read from. Defaults to time.Now.
	Now func() time.Time
}

// Sandbox is the service as an http.Handler. It is safe for concurrent use.
type Sandbox struct {
	ledger Ledger
	cfg    Config
	mux    *http.ServeMux
}

// New returns the sandbox on a ledger, which several sandboxes may share.
func New(ledger Ledger, cfg Config) *Sandbox {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Exit == nil {
		cfg.Exit = os.Exit
	}
	if cfg.Now == nil {
		cfg.Now = wall.Now
	}
	s := &Sandbox{ledger: ledger, cfg: cfg, mux: http.NewServeMux()}
	s.mux.HandleFunc("POST /charges", s.charge)
	s.mux.HandleFunc("GET /charges", s.list)
	s.mux.HandleFunc("/charges", notAllowed("GET, HEAD, POST"))
	s.mux.HandleFunc("GET /charges/{id}", s.find)
	s.mux.HandleFunc("/charges/{id}", notAllowed("GET, HEAD"))
	s.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		problem(w, http.StatusNotFound, "the sandbox has POST /charges, GET /charges and GET /charges/{id}")
	})
	return s
}

// ServeHTTP answers a request.
func (s *Sandbox) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// charge makes one charge per call. What is wrong with the request is found before anything is done.
func (s *Sandbox) charge(w http.ResponseWriter, r *http.Request) {
	f, err := parseFault(r.Header)
	if err != nil {
		problem(w, http.StatusBadRequest, err.Error())
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, BodyMax))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		problem(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes", BodyMax))
		return
	}
	if err != nil {
		problem(w, http.StatusBadRequest, "the body ended early: "+err.Error())
		return
	}
	c, err := parseCharge(body)
	if err != nil {
		problem(w, http.StatusBadRequest, err.Error())
		return
	}

	switch f.kind {
	case slow:
		<-time.After(f.wait) // on purpose not ended by r.Context(): the work goes on when the client hangs up
	case crashBefore:
		s.crash()
	}
	c.ID, c.Created = newID(), s.cfg.Now().UTC().Truncate(time.Microsecond)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), CommitMax)
	defer cancel()
	if err := s.ledger.Add(ctx, c); err != nil {
		s.cfg.Log.Error("sandbox: the ledger failed", "charge", c.ID, "err", err)
		problem(w, http.StatusServiceUnavailable, "the ledger failed: the charge may be booked or not")
		return
	}
	switch f.kind {
	case drop:
		panic(http.ErrAbortHandler) // net/http closes the connection, or resets the stream, and logs nothing
	case crashAfter:
		s.crash()
	}

	w.Header().Set("Location", "/charges/"+c.ID)
	s.answer(w, http.StatusCreated, c)
}

func (s *Sandbox) crash() {
	s.cfg.Exit(exitCode)
	panic(http.ErrAbortHandler)
}

func (s *Sandbox) find(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if !isText(id) {
		s.readFailed(w, ErrNotFound, http.StatusNotFound, "there is no charge of this id")
		return
	}
	c, err := s.ledger.Find(r.Context(), id)
	if err != nil {
		s.readFailed(w, err, http.StatusNotFound, "there is no charge of this id")
		return
	}
	s.answer(w, http.StatusOK, c)
}

// page is the answer of GET /charges.
type page struct {
	Charges []Charge `json:"charges"`
	More    bool     `json:"more"` // ask again with after= the last id
}

func (s *Sandbox) list(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	limit := PageDefault
	if text := query.Get("limit"); text != "" {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > PageMax {
			problem(w, http.StatusBadRequest, fmt.Sprintf("limit must be a number from 1 to %d", PageMax))
			return
		}
	}
	q := Query{Account: query.Get("account"), After: query.Get("after"), Limit: limit}
	if !isText(q.Account) || !isText(q.After) {
		problem(w, http.StatusBadRequest, "account and after must be UTF-8 without control characters")
		return
	}
	charges, err := s.ledger.List(r.Context(), q)
	if err != nil {
		s.readFailed(w, err, http.StatusBadRequest, "after must be the id of a charge")
		return
	}
	s.answer(w, http.StatusOK, page{Charges: append([]Charge{}, charges...), More: len(charges) == limit})
}

// readFailed answers a read that the ledger refused: with status and detail if it knows no such charge.
func (s *Sandbox) readFailed(w http.ResponseWriter, err error, status int, detail string) {
	if errors.Is(err, ErrNotFound) {
		problem(w, status, detail)
		return
	}
	s.cfg.Log.Error("sandbox: the ledger failed", "err", err)
	problem(w, http.StatusServiceUnavailable, "the ledger can't be read; ask again")
}

func (s *Sandbox) answer(w http.ResponseWriter, status int, v any) {
	writeJSON(w, status, "application/json", v)
}

func notAllowed(allow string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", allow)
		problem(w, http.StatusMethodNotAllowed, r.Method+" is not allowed here; allowed are "+allow)
	}
}

// problem writes an RFC 9457 problem of the type about:blank, whose title is the status's own.
func problem(w http.ResponseWriter, status int, detail string) {
	writeJSON(w, status, "application/problem+json", map[string]any{
		"title": http.StatusText(status), "status": status, "detail": detail,
	})
}

func writeJSON(w http.ResponseWriter, status int, contentType string, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings, numbers and times of this package always have JSON
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // a client that hung up sees the charge with GET
}
