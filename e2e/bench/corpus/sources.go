package corpus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// Module is the directory of the corpus that is a Go module of its own.
const Module = "module"

// packages are copied into the module where they need nothing internal, which
// depends on the version of Go.
var packages = []string{
	"container/heap", "container/list", "container/ring", "encoding/hex", "encoding/csv", "encoding/ascii85", "encoding/base32",
	"text/tabwriter", "text/scanner", "text/template/parse", "html", "image", "image/color", "image/png", "mime/quotedprintable",
	"math/cmplx", "regexp/syntax", "go/doc/comment",
}

var internal = regexp.MustCompile(`(?m)^(?:import )?\s*(?:_ )?"(?:[a-z/]+/)?internal/|^//go:linkname`)

// copy fills the directory and returns the Go source files that may be
// changed, which are those of no module that is built.
func (m *maker) copy(o Options) ([]string, error) {
	if err := os.Mkdir(m.dir, 0o755); err != nil {
		return nil, err
	}
	from := filepath.Join(o.GoRoot, "src")
	only := o.Only
	if len(only) == 0 {
		only = []string{"."}
	}
	var files []string
	for _, d := range only {
		err := filepath.WalkDir(filepath.Join(from, d), func(p string, e fs.DirEntry, err error) error {
			rel, relErr := filepath.Rel(from, p)
			if err := errors.Join(err, relErr); err != nil {
				return err
			}
			to := filepath.Join(m.dir, "src", rel)
			switch {
			case e.IsDir():
				return os.MkdirAll(to, 0o755)
			case !e.Type().IsRegular():
				return nil
			}
			if strings.HasSuffix(p, ".go") {
				files = append(files, to)
			}
			return copyFile(p, to)
		})
		if err != nil {
			return nil, err
		}
	}
	return files, m.module(from)
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}

// module makes the Go module.
func (m *maker) module(from string) error {
	dir := filepath.Join(m.dir, Module)
	taken, imports := 0, ""
	for _, p := range packages {
		sources, err := filepath.Glob(filepath.Join(from, p, "*.go"))
		if err != nil {
			return err
		}
		var texts [][]byte
		for _, f := range sources {
			b, err := os.ReadFile(f)
			if err != nil {
				return err
			}
			texts = append(texts, b)
		}
		if len(texts) == 0 || internal.Match(bytes.Join(texts, []byte("\n"))) {
			continue
		}
		if err := os.MkdirAll(filepath.Join(dir, p), 0o755); err != nil {
			return err
		}
		for i, f := range sources {
			if err := os.WriteFile(filepath.Join(dir, p, filepath.Base(f)), texts[i], 0o644); err != nil {
				return err
			}
		}
		imports += fmt.Sprintf("import _ %q\n", "example.com/bench/"+p)
		taken++
	}
	if taken < 5 {
		return fmt.Errorf("only %d packages of %s could be taken for the module: this version of Go has them elsewhere", taken, from)
	}
	main := "// Command hello links the packages beside it.\npackage main\n\n" + imports + "\nimport \"fmt\"\n\nfunc main() { fmt.Println(\"hello\") }\n"
	for name, text := range map[string]string{"go.mod": "module example.com/bench\n\ngo 1.22\n", "main.go": main} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// BuildEnv is how Go runs on the corpus: without a network, and with results
// that do not depend on where the tree is.
func BuildEnv(cache string) []string {
	return []string{"GOCACHE=" + cache, "CGO_ENABLED=0", "GOFLAGS=-mod=mod -trimpath -buildvcs=false", "GOTOOLCHAIN=local", "GOPROXY=off", "GOWORK=off"}
}

// Build builds the module, which fills the cache.
func (c Corpus) Build(ctx context.Context, cache string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "./...")
	cmd.Dir = filepath.Join(c.Dir, Module)
	cmd.Env = append(os.Environ(), BuildEnv(cache)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the corpus' module: %w: %s", err, out)
	}
	return nil
}
