package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/server"
)

// resolveBodyMax bounds the body of an answer that an operator gives, in bytes.
const resolveBodyMax = 1 << 20

// resolveFlags are those of keys resolve.
type resolveFlags struct {
	name    keyName
	why     decision
	token   int64
	status  int
	body    string
	headers []string
}

func (a *app) keysResolve() *cobra.Command {
	var f resolveFlags
	cmd := &cobra.Command{
		Use:   "resolve KEY --scope SCOPE --status STATUS --note WHY",
		Short: "Give an unresolved key the answer that it would have had",
		Long: "resolve is for work that happened, or that must never happen: every request with the key gets this answer from\n" +
			"now on, and nothing runs. Give the answer that the service behind would have given. It is kept as it is, not\n" +
			"sealed. The owner, should it come back, is refused.\n\n" +
			"Who decided and why is kept. The exit code is 1 if the key is not unresolved, or not with --token, and 3 if the\n" +
			"decision may or may not have been carried out.",
		Example: "  fifty keys resolve order-17 --scope 'constant:\"proxy\"' --status 201 --body answer.json \\\n" +
			"    --header 'Content-Type: application/json' --note 'the provider has charge ch_42'\n" +
			"  fifty keys resolve order-18 --scope 'constant:\"proxy\"' --token 3 --status 410 --note 'the customer withdrew'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			answer, err := f.answer(a.in)
			if err != nil {
				return err
			}
			r := idempotency.Resolution{Token: f.token, Response: &answer}
			return a.decide(cmd, f.name, f.why, r, nil)
		},
	}
	f.name.add(cmd)
	f.why.add(cmd)
	flags := cmd.Flags()
	flags.Int64Var(&f.token, "token", 0, "only if the key still has this token (default: that of the key now)")
	flags.IntVar(&f.status, "status", 0, "status of the answer, 200 to 599 (required)")
	flags.StringVar(&f.body, "body", "", "file with the body of the answer, or - for standard input (default: no body)")
	flags.StringArrayVar(&f.headers, "header", nil, "header of the answer, 'Name: value'; may be given again")
	return cmd
}

// answer is what the flags describe. All of it is checked before the database is opened.
func (f *resolveFlags) answer(in io.Reader) (idempotency.Response, error) {
	if err := errors.Join(f.name.validate(), f.why.validate()); err != nil {
		return idempotency.Response{}, err
	}
	switch {
	case f.status == 0:
		return idempotency.Response{}, errors.New("--status is missing; give the status that the service would have answered with, such as 201")
	case f.status < http.StatusOK || f.status > 599:
		return idempotency.Response{}, fmt.Errorf("--status is %d; it can be 200 to 599", f.status)
	case f.token < 0:
		return idempotency.Response{}, fmt.Errorf("--token is %d; \"fifty keys show\" prints it", f.token)
	case f.body != "" && (f.status == http.StatusNoContent || f.status == http.StatusNotModified):
		return idempotency.Response{}, fmt.Errorf("--body does not go with --status %d, which has no body", f.status)
	}
	header, err := parseHeaders(f.headers)
	if err != nil {
		return idempotency.Response{}, err
	}
	body, err := readBody(f.body, in)
	return idempotency.Response{Status: f.status, Header: header, Body: body}, err
}

// parseHeaders reads lines of "Name: value".
func parseHeaders(lines []string) (http.Header, error) {
	header := http.Header{}
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		if !ok || !server.IsToken(name) || strings.ContainsFunc(value, unicode.IsControl) {
			return nil, fmt.Errorf("--header is %q; write 'Name: value'", line)
		}
		switch name = http.CanonicalHeaderKey(name); name {
		case "Content-Length", "Transfer-Encoding", "Connection", "Trailer", "Keep-Alive", "Upgrade", "Te", "Proxy-Connection":
			return nil, fmt.Errorf("--header %s is about one connection, and is set with each answer; leave it out", name)
		}
		header.Add(name, value)
	}
	return header, nil
}

func readBody(name string, in io.Reader) ([]byte, error) {
	from := in
	switch name {
	case "":
		return nil, nil
	case "-":
	default:
		file, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("--body: %w", err)
		}
		defer func() { _ = file.Close() }()
		from = file
	}
	body, err := io.ReadAll(io.LimitReader(from, resolveBodyMax+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("--body: %w", err)
	case len(body) > resolveBodyMax:
		return nil, fmt.Errorf("--body has more than %d bytes, which is the most", resolveBodyMax)
	}
	return body, nil
}

func (a *app) keysRelease() *cobra.Command {
	var name keyName
	var why decision
	var token int64
	var yes bool
	cmd := &cobra.Command{
		Use:   "release KEY --scope SCOPE --note WHY",
		Short: "Free an unresolved key, so that the next request runs",
		Long: "release is for work that did not happen and can't happen any more. The next request with the key runs it.\n\n" +
			"\"Not done\" is not final: an owner that is only paused may go on and act after you looked. It is refused when it\n" +
			"completes, not when it acts. Stop that process first, or have the service behind refuse the key.\n\n" +
			"Who decided and why is kept. The exit code is 1 if the key is not unresolved, or you did not confirm, and 3 if\n" +
			"the decision may or may not have been carried out.",
		Example: "  fifty keys release order-17 --scope 'constant:\"proxy\"' --note 'host a7 is gone; the provider has no such charge'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(name.validate(), why.validate()); err != nil {
				return err
			}
			if token < 0 {
				return fmt.Errorf("--token is %d; \"fifty keys show\" prints it", token)
			}
			ask := a.confirmRelease
			if yes {
				ask = nil
			}
			return a.decide(cmd, name, why, idempotency.Resolution{Token: token}, ask)
		},
	}
	name.add(cmd)
	why.add(cmd)
	cmd.Flags().Int64Var(&token, "token", 0, "only if the key still has this token (default: that of the key now)")
	cmd.Flags().BoolVar(&yes, "yes", false, "don't ask")
	return cmd
}

// decide carries a decision out on the record that the operator has before them: without --token, the one that
// is there now. ask, if any, must agree first.
func (a *app) decide(cmd *cobra.Command, name keyName, why decision, r idempotency.Resolution, ask func(context.Context, idempotency.Record) error) error {
	r.Scope, r.Key, r.By, r.Note = name.scope, name.key, why.by, why.note
	// Without a bound of its own: it waits for a person. Each call of the store has the store's bounds.
	return name.answered(a.withKeys(cmd, name.db, 0, func(ctx context.Context, b *server.Backend) error {
		rec, err := name.find(ctx, b)
		if err != nil {
			return err
		}
		if !unresolved(rec) || (r.Token != 0 && r.Token != rec.Token) {
			return &idempotency.DecidedError{Record: rec}
		}
		if ask != nil {
			if err := ask(ctx, rec); err != nil {
				return err
			}
		}
		r.Token = rec.Token
		ctx, cancel := context.WithTimeout(ctx, operatorMax)
		defer cancel()
		if err := idempotency.NewOperator(b.Keys).Resolve(ctx, r); err != nil {
			return err
		}
		said := "free: the next request with it runs"
		if r.Response != nil {
			said = fmt.Sprintf("done: every request with it gets %d from now on", r.Response.Status)
		}
		fmt.Fprintf(a.out, "key %s is %s\n", quoted(name.key), said)
		return nil
	}))
}

// confirmRelease asks the operator about what nobody here can know (H6).
func (a *app) confirmRelease(ctx context.Context, rec idempotency.Record) error {
	fmt.Fprintf(a.err, "Key %s was claimed %v ago by %s, with token %d. When it is free, the next request with it runs the work.\n"+
		"If that owner is only paused, it may still act after that: it is refused when it completes, not when it acts,\n"+
		"and then there are two effects. Go on only if the work did not happen, and if the owner is gone or the service\n"+
		"behind refuses it.\n", quoted(rec.Request.Key), rounded(rec.Age), plain(rec.Owner), rec.Token)
	return a.confirm(ctx, "release it")
}

// confirm wants a "yes" from standard input, until ctx is done: nothing else ends a read from a terminal.
func (a *app) confirm(ctx context.Context, what string) error {
	fmt.Fprintf(a.err, "Type yes to %s: ", what)
	said := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(io.LimitReader(a.in, 100)).ReadString('\n')
		said <- strings.TrimSpace(line)
	}()
	select {
	case line := <-said:
		if line == "yes" {
			return nil
		}
	case <-ctx.Done():
	}
	fmt.Fprintln(a.err)
	return &failure{errors.New("nothing was changed, since you did not say yes; in a script add --yes")}
}
