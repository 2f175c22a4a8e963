package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// fiftyVersion is what the working tree is published as.
const fiftyVersion = "v0.0.1"

// newModuleProxy serves this module by the module proxy protocol, and other modules out of the machine's
// module cache or, if they are not there, from where the machine's go command gets them. Names below ours
// are never asked for elsewhere. It returns the proxy's URL.
func newModuleProxy(tb testing.TB, root string) string {
	tb.Helper()
	published, err := publishOnce(root)
	if err != nil {
		tb.Fatal(err)
	}
	out, err := exec.CommandContext(tb.Context(), "go", "env", "GOMODCACHE").Output()
	if err != nil {
		tb.Fatal(err)
	}
	cache := filepath.Join(strings.TrimSpace(string(out)), "cache", "download")
	elsewhere := upstreamProxy(tb)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := filepath.FromSlash(strings.TrimPrefix(r.URL.Path, "/"))
		inCache := filepath.Join(cache, name)
		switch {
		case !filepath.IsLocal(name):
			http.NotFound(w, r)
		case strings.HasPrefix(r.URL.Path, "/"+fiftyModule+"/@"):
			serveModule(w, r, published)
		case strings.HasPrefix(r.URL.Path, "/github.com/fiftyhosts/"):
			http.NotFound(w, r)
		case isFile(inCache):
			http.ServeFile(w, r, inCache)
		case elsewhere != nil:
			http.Redirect(w, r, elsewhere.JoinPath(r.URL.Path).String(), http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	}))
	tb.Cleanup(server.Close)
	return server.URL
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// published is this module as a proxy has it.
type published struct{ goMod, zip []byte }

// publishOnce packs the working tree: what git knows, or would add.
var publishOnce = func() func(root string) (*published, error) {
	var once sync.Once
	var made *published
	var err error
	return func(root string) (*published, error) {
		once.Do(func() { made, err = publish(root) })
		return made, err
	}
}()

func publish(root string) (*published, error) {
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files in %s: %w: %s", root, err, stderrOf(err))
	}
	tree := filepath.Join(buildFolder, "tree")
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if err := copyFile(filepath.Join(tree, name), filepath.Join(root, name)); err != nil {
			return nil, err
		}
	}
	var packed bytes.Buffer
	version := module.Version{Path: fiftyModule, Version: fiftyVersion}
	if err := zip.CreateFromDir(&packed, version, tree); err != nil {
		return nil, fmt.Errorf("pack the module: %w", err)
	}
	goMod, err := os.ReadFile(filepath.Join(tree, "go.mod"))
	return &published{goMod: goMod, zip: packed.Bytes()}, err
}

// copyFile copies one file of the working tree. One that git knows and that was deleted is left out.
func copyFile(to, from string) error {
	text, err := os.ReadFile(from)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}

func serveModule(w http.ResponseWriter, r *http.Request, p *published) {
	info := []byte(`{"Version":"` + fiftyVersion + `"}`)
	content, ok := map[string][]byte{
		"/@v/list":                      []byte(fiftyVersion + "\n"),
		"/@latest":                      info,
		"/@v/" + fiftyVersion + ".info": info,
		"/@v/" + fiftyVersion + ".mod":  p.goMod,
		"/@v/" + fiftyVersion + ".zip":  p.zip,
	}[strings.TrimPrefix(r.URL.Path, "/"+fiftyModule)]
	if !ok {
		http.NotFound(w, r)
		return
	}
	_, _ = w.Write(content)
}
