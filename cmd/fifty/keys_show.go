package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/server"
)

func (a *app) keysShow() *cobra.Command {
	var name keyName
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show KEY --scope SCOPE",
		Short: "Show all that is known of one key",
		Long: "show prints the record of a key, its steps, the keys under which the service behind has seen it, its answer,\n" +
			"and who decided about it. An answer that is sealed is not opened.",
		Example: "  fifty keys show order-17 --scope 'constant:\"proxy\"'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := name.validate(); err != nil {
				return err
			}
			return name.answered(a.withKeys(cmd, name.db, operatorMax, func(ctx context.Context, b *server.Backend) error {
				rec, err := name.find(ctx, b)
				if err != nil {
					return err
				}
				audit, err := idempotency.NewOperator(b.Keys).Audit(ctx, name.scope, name.key)
				if err != nil {
					return err
				}
				view := detailsOf(rec, audit)
				if asJSON {
					return a.printJSON(view)
				}
				return a.printDetails(view, name)
			}))
		},
	}
	name.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// details is what keys show --json prints.
type details struct {
	recordView
	ForwardedKeys forwardedView  `json:"forwarded_key"`
	Steps         []stepView     `json:"steps"`
	Answer        *answerView    `json:"answer,omitempty"`
	Decisions     []decisionView `json:"decisions"`
}

// forwardedView is the key that the service behind a gateway sees, by the route's forward_key. Sent is what was
// sent on a route with unknown: retry, where that is written down.
type forwardedView struct {
	Raw     string   `json:"raw"`
	Derived string   `json:"derived"`
	Sent    []string `json:"sent,omitempty"`
}

type stepView struct {
	Name       string `json:"name"`
	Key        string `json:"key"` // that it passes downstream
	Sent       bool   `json:"sent"`
	Done       bool   `json:"done"`
	Result     string `json:"result,omitempty"` // JSON
	SealedWith string `json:"sealed_with,omitempty"`
}

type answerView struct {
	Status        int         `json:"status"`
	Header        http.Header `json:"header,omitempty"`
	Body          string      `json:"body,omitempty"`        // when it is UTF-8
	BodyBytes     []byte      `json:"body_base64,omitempty"` // when it is not
	NotReplayable bool        `json:"not_replayable,omitempty"`
	SealedWith    string      `json:"sealed_with,omitempty"`
}

type decisionView struct {
	At    time.Time `json:"at"`
	By    string    `json:"by"`
	Note  string    `json:"note"`
	From  string    `json:"from"`
	To    string    `json:"to"`
	Token int64     `json:"token"`
}

func detailsOf(rec idempotency.Record, audit []idempotency.Decision) details {
	d := details{
		recordView:    viewOf(rec),
		ForwardedKeys: forwardedView{Raw: rec.Request.Key, Derived: server.DerivedKey(rec.Request), Sent: server.SentKey(rec)},
		Steps:         make([]stepView, len(rec.Steps)), Decisions: make([]decisionView, len(audit)),
	}
	for i, s := range rec.Steps {
		v := stepView{Name: s.Name, Key: idempotency.StepKey(rec.Request, s.Name), Sent: s.Sent, Done: len(s.Result) > 0, SealedWith: s.SealedWith()}
		if v.SealedWith == "" {
			v.Result = string(s.Result)
		}
		d.Steps[i] = v
	}
	if rec.State == idempotency.Done {
		d.Answer = answerOf(rec.Response)
	}
	for i, x := range audit {
		d.Decisions[i] = decisionView{x.At, x.By, x.Note, x.From.String(), x.To.String(), x.Token}
	}
	return d
}

func answerOf(r idempotency.Response) *answerView {
	v := &answerView{Status: r.Status, NotReplayable: r.NotReplayable, SealedWith: r.SealedWith()}
	switch {
	case v.SealedWith != "":
		return v
	case utf8.Valid(r.Body):
		v.Body = string(r.Body)
	default:
		v.BodyBytes = r.Body
	}
	v.Header = r.Header
	return v
}

func (a *app) printDetails(d details, name keyName) error {
	w := tabwriter.NewWriter(a.out, 0, 8, 2, ' ', 0)
	line := func(label, format string, args ...any) { fmt.Fprintf(w, label+"\t"+format+"\n", args...) }
	line("key", "%s", d.Key)
	line("scope", "%s", d.Scope)
	line("state", "%s", d.meaning())
	line("token", "%d", d.Token)
	line("owner", "%s", plain(d.Owner))
	line("first claimed", "%v ago", rounded(time.Duration(d.Age*float64(time.Second))))
	switch {
	case d.ExpiresIn > 0:
		line("lease", "runs out in %v", rounded(time.Duration(d.ExpiresIn*float64(time.Second))))
	case d.State == "let go":
		line("lease", "ran out %v ago", rounded(time.Duration(-d.ExpiresIn*float64(time.Second))))
	}
	if len(d.ForwardedKeys.Sent) > 0 {
		line("key sent on", "%s", plain(strings.Join(d.ForwardedKeys.Sent, ", ")))
	} else {
		line("key sent on", "%s (forward_key raw) or %s (derived)", d.ForwardedKeys.Raw, d.ForwardedKeys.Derived)
	}
	d.printSteps(w)
	d.printAnswer(w)
	for _, x := range d.Decisions {
		line("decided", "%s by %s: from %s to %s, token %d: %s", x.At.UTC().Format(time.RFC3339), plain(x.By), x.From, x.To, x.Token, plain(x.Note))
	}
	if d.Unresolved {
		line("next", "ask the service behind whether it happened, under the key sent on; then")
		line("", "it did: %s --token %d --status 201 --body FILE --note WHY", name.on("resolve"), d.Token)
		line("", "it did not, and can't any more: %s --token %d --note WHY", name.on("release"), d.Token)
	}
	if err := w.Flush(); err != nil {
		return &failure{err}
	}
	return nil
}

// meaning is the state with what it means for a request with the key.
func (d details) meaning() string {
	means := map[string]string{
		"in flight": "its owner is at work; a duplicate gets 409 in-flight",
		"let go":    "nobody is at work; the next request goes on behind the last finished step",
		"unknown":   "its work may or may not have happened; it is not run again, a duplicate gets 409 unresolved",
		"done":      "a duplicate gets the answer",
		"free":      "nothing was done; the next request runs",
		"tombstone": "done, and its answer is no longer kept; a duplicate gets 410 expired",
	}
	return d.State + ": " + means[d.State]
}

func (d details) printSteps(w *tabwriter.Writer) {
	for _, s := range d.Steps {
		how := "not sent"
		switch {
		case s.Done:
			how = "done"
		case s.Sent:
			how = "sent, and not known to be done"
		}
		result := plain(s.Result)
		if s.SealedWith != "" {
			result = "sealed with key " + s.SealedWith
		}
		fmt.Fprintf(w, "step\t%s: %s, under key %s %s\n", s.Name, how, s.Key, cut(result))
	}
}

func (d details) printAnswer(w *tabwriter.Writer) {
	if d.Answer == nil {
		return
	}
	r := d.Answer
	fmt.Fprintf(w, "answer\t%d\n", r.Status)
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		for _, value := range r.Header[name] {
			fmt.Fprintf(w, "\t%s: %s\n", plain(name), plain(value))
		}
	}
	switch {
	case r.SealedWith != "":
		fmt.Fprintf(w, "\tsealed with key %s\n", r.SealedWith)
	case r.NotReplayable:
		fmt.Fprint(w, "\tits body was not kept; a duplicate gets 409 not-replayable\n")
	case len(r.BodyBytes) > 0:
		fmt.Fprintf(w, "\t(%d bytes that are no text; see --json)\n", len(r.BodyBytes))
	case r.Body != "":
		fmt.Fprintf(w, "\t%s\n", cut(plain(r.Body)))
	}
}

// cutAt is how much of a text is shown to people, in runes.
const cutAt = 2000

func cut(text string) string {
	if runes := []rune(text); len(runes) > cutAt {
		return string(runes[:cutAt]) + fmt.Sprintf("… (%d more; see --json)", len(runes)-cutAt)
	}
	return text
}

// plain is text from elsewhere as a terminal may have it: one line, and nothing that moves the cursor.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return '\uFFFD'
		}
		return r
	}, text)
}
