package e2e

import (
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

const fiftyModule = "github.com/fiftyhosts/fifty"

// TestConsumerOfStorePostgresNeedsPgxAndNothingElse: a new program that imports idempotency and the store
// for Postgres gets pgx into its go.mod, and no other driver and no server.
func TestConsumerOfStorePostgresNeedsPgxAndNothingElse(t *testing.T) {
	t.Parallel()
	c := newConsumer(t, `package shop

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/postgres"
)

func Keys() *idempotency.TxKeys[pgx.Tx] {
	pool, err := pgxpool.New(context.Background(), "postgres://localhost/app")
	if err != nil {
		panic(err)
	}
	return idempotency.NewTx(postgres.New(pool, postgres.Config{}).Keys(), idempotency.Config{})
}
`)
	c.goCommand("get", fiftyModule+"/store/postgres") // the README's line
	c.goCommand("mod", "tidy")
	c.goCommand("build", ".")
	c.wantNeeds(append(c.needsOf("github.com/jackc/pgx/v5"), fiftyModule, "github.com/jackc/pgx/v5"))
}

// TestConsumerOfTheMiddlewareNeedsFiftyAlone: the memory store and the middleware bring no module with
// them.
func TestConsumerOfTheMiddlewareNeedsFiftyAlone(t *testing.T) {
	t.Parallel()
	c := newConsumer(t, `package shop

import (
	"net/http"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/idempotency/idempotencyhttp"
	"github.com/fiftyhosts/fifty/store/memory"
)

func Guarded(next http.Handler) http.Handler {
	keys := idempotency.New(memory.New(memory.Config{}).Keys(), idempotency.Config{})
	guard := idempotencyhttp.Middleware(keys, idempotencyhttp.Config{
		Scope: func(*http.Request) (string, error) { return "everyone", nil },
	})
	return guard(next)
}
`)
	c.goCommand("get", fiftyModule+"/idempotency/idempotencyhttp")
	c.goCommand("mod", "tidy")
	c.goCommand("build", ".")
	c.wantNeeds([]string{fiftyModule})
}

// consumer is a program outside of this module.
type consumer struct {
	tb     testing.TB
	folder string
	env    []string
}

// newConsumer makes a module of one file. Its go command gets Fifty as it is in the working tree, from a
// module proxy, as if it were published, and everything else as usual.
func newConsumer(tb testing.TB, program string) *consumer {
	tb.Helper()
	root := moduleRoot(tb)
	proxy := newModuleProxy(tb, root)
	c := &consumer{tb: tb, folder: tb.TempDir()}
	c.env = append(os.Environ(),
		"GOPROXY="+proxy,
		"GONOSUMDB="+fiftyModule, // Fifty's version of today is in no public record; all others are checked
		"GOFLAGS=-mod=mod -modcacherw",
		"GOWORK=off",
		"GOMODCACHE="+tb.TempDir(), // or a later run would get today's Fifty
	)
	c.write("go.mod", "module example.com/shop\n\ngo 1.26.0\n")
	c.write("shop.go", program)
	// The hashes that Fifty itself was checked against, so that the public record need not be asked again.
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		tb.Fatal(err)
	}
	c.write("go.sum", string(sums))
	return c
}

func (c *consumer) write(name, text string) {
	c.tb.Helper()
	if err := os.WriteFile(filepath.Join(c.folder, name), []byte(text), 0o600); err != nil {
		c.tb.Fatal(err)
	}
}

func (c *consumer) goCommand(args ...string) string {
	c.tb.Helper()
	cmd := exec.CommandContext(c.tb.Context(), "go", args...)
	cmd.Dir, cmd.Env = c.folder, c.env
	out, err := cmd.Output()
	if err != nil {
		c.tb.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderrOf(err))
	}
	return string(out)
}

func (c *consumer) modFile(path string) *modfile.File {
	c.tb.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		c.tb.Fatal(err)
	}
	f, err := modfile.ParseLax(path, text, nil)
	if err != nil {
		c.tb.Fatal(err)
	}
	return f
}

// needsOf are the modules that another module's own go.mod asks for.
func (c *consumer) needsOf(module string) []string {
	c.tb.Helper()
	path := strings.TrimSpace(c.goCommand("list", "-m", "-f", "{{.GoMod}}", module))
	var needs []string
	for _, r := range c.modFile(path).Require {
		if !r.Indirect {
			needs = append(needs, r.Mod.Path)
		}
	}
	return needs
}

// wantNeeds checks that go.mod asks for modules out of allowed only, and for Fifty.
func (c *consumer) wantNeeds(allowed []string) {
	c.tb.Helper()
	needs := map[string]bool{}
	for _, r := range c.modFile(filepath.Join(c.folder, "go.mod")).Require {
		needs[r.Mod.Path] = true
		if !slices.Contains(allowed, r.Mod.Path) {
			c.tb.Errorf("the program needs %s, which is none of %v", r.Mod.Path, allowed)
		}
	}
	if !needs[fiftyModule] {
		c.tb.Errorf("the program does not need Fifty, only %v", slices.Sorted(maps.Keys(needs)))
	}
}

// upstreamProxy is the first module proxy that the machine's own go command is told to ask, or nil.
func upstreamProxy(tb testing.TB) *url.URL {
	tb.Helper()
	out, err := exec.CommandContext(tb.Context(), "go", "env", "GOPROXY").Output()
	if err != nil {
		tb.Fatal(err)
	}
	for name := range strings.FieldsFuncSeq(strings.TrimSpace(string(out)), func(r rune) bool { return r == ',' || r == '|' }) {
		if u, err := url.Parse(name); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
			return u
		}
	}
	return nil
}
