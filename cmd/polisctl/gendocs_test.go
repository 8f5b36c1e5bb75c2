package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"polis/daemon/api"
	"polis/daemon/config/reference"
)

// Where the generated files are, below the top of the source tree.
const (
	manDir        = "docs/man"
	completionDir = "packaging/completion"
)

var update = flag.Bool("update", false, "write man pages, completion scripts and docs/errors.md")

// generate returns the generated files by their path below the source tree.
// The same source makes the same bytes on every day.
func generate(root *cobra.Command) (map[string][]byte, error) {
	files, err := configurationFiles("../..")
	if err != nil {
		return nil, err
	}
	files[errorsDoc] = errorsPage()
	if files[apiDoc], err = apiPage("../.."); err != nil {
		return nil, err
	}
	for shell, name := range map[string]string{"bash": "polisctl.bash", "zsh": "_polisctl", "fish": "polisctl.fish"} {
		var buf bytes.Buffer
		if err := completion(root, shell, &buf); err != nil {
			return nil, err
		}
		files[filepath.Join(completionDir, name)] = buf.Bytes()
	}
	var failed error
	walk(root, func(c *cobra.Command) {
		if c != root && (!c.IsAvailableCommand() || c.Name() == "help") || failed != nil {
			return
		}
		page, err := manPage(c)
		if err != nil {
			failed = err
			return
		}
		files[filepath.Join(manDir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1")] = page
	})
	return files, failed
}

// configurationFiles are those about polisd.toml and the base types. The page docs/configuration.md, below
// top, gets its tables; the rest of it is written by hand.
func configurationFiles(top string) (map[string][]byte, error) {
	daemon, types := reference.Daemon(), reference.Types()
	files := map[string][]byte{"units/polisd.toml": daemon.Sample()}
	for _, f := range []reference.File{daemon, types} {
		if err := f.Check(); err != nil {
			return nil, api.Errorf(api.CodeInternal, "daemon/config/reference: %w", err)
		}
		schema, err := f.Schema()
		if err != nil {
			return nil, api.Errorf(api.CodeInternal, "schema of %s: %w", f.Page, err)
		}
		files[manDir+"/"+f.Page+".5"] = f.Manual()
		files["docs/"+strings.TrimSuffix(f.Page, ".toml")+".schema.json"] = schema
	}
	const page = "docs/configuration.md"
	text, err := os.ReadFile(filepath.Join(top, page))
	if err != nil {
		return nil, api.Errorf(api.CodeInternal, "read page: %w", err)
	}
	for name, tables := range map[string][]byte{"polisd.toml": daemon.Markdown(), "base types": types.Markdown(), "merge.protected": reference.ProtectedTable()} {
		if text, err = betweenMarks(text, name, tables); err != nil {
			return nil, api.Errorf(api.CodeInternal, "%s: %w", page, err)
		}
	}
	files[page] = text
	return files, nil
}

// betweenMarks replaces the part of a page that is generated.
func betweenMarks(page []byte, name string, text []byte) ([]byte, error) {
	begin, end := "<!-- begin: "+name+", made by make docs -->\n", "<!-- end: "+name+" -->\n"
	before, rest, ok := bytes.Cut(page, []byte(begin))
	_, after, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		return nil, fmt.Errorf("has no part between %q and %q", begin, end)
	}
	return slices.Concat(before, []byte(begin), text, []byte(end), after), nil
}

// manPage renders the page of one command. What cobra's generator cannot say
// (statuses, environment, files) is put before SEE ALSO of the first page.
func manPage(c *cobra.Command) ([]byte, error) {
	var buf bytes.Buffer
	day := time.Unix(0, 0).UTC()
	long := c.Long
	c.Long = strings.ReplaceAll(long, `\`, `\\`) // the generator reads Markdown
	defer func() { c.Long = long }()
	err := doc.GenMan(c, &doc.GenManHeader{Section: "1", Source: "polis", Manual: "polis manual", Date: &day}, &buf)
	if err != nil {
		return nil, api.Errorf(api.CodeInternal, "man page of %s: %w", c.CommandPath(), err)
	}
	page := strings.Replace(buf.String(), `"Jan 1970"`, `""`, 1)
	// A default that says nothing is left out.
	page = strings.NewReplacer("\\fP[=false]\n", "\\fP\n", "\\fP=\"\"\n", "\\fP\n", "\\fP=[]\n", "\\fP\n", "\\fP=0s\n", "\\fP\n", "\\fP=0\n", "\\fP\n").Replace(page)
	if !c.HasParent() {
		page = strings.Replace(page, ".SH SEE ALSO", manSections()+".SH SEE ALSO\n\\fBpolisd(8)\\fP,", 1)
	}
	return []byte(page), nil
}

// manSections is the roff of the sections common to all verbs.
func manSections() string {
	var b strings.Builder
	b.WriteString(".SH EXIT STATUS\n")
	for _, row := range exitTable() {
		fmt.Fprintf(&b, ".TP\n\\fB%d\\fP\n%s", row.Status, row.Meaning)
		if len(row.Codes) > 0 {
			var codes []string
			for _, c := range row.Codes {
				codes = append(codes, string(c))
			}
			fmt.Fprintf(&b, "\n.br\n%s", strings.Join(codes, ", "))
		}
		b.WriteString("\n")
	}
	b.WriteString(`.SH OUTPUT
Without an option, tables and sentences for people; they may change. With -q, the
names of what was listed or made, one a line, and nothing else. With --json, the
objects of the API: one object for one thing, and for lists {"agents":[...]},
{"locks":[...]}, {"ports":[...]}, {"events":[...]}, {"tasks":[...]}, {"why":[...]} or
{"types":[...]}. A command that runs until you stop it (events -f, watch, --watch) prints one object a line.
The steps of a long call and all errors are on standard error.
.SH ENVIRONMENT
.TP
\fBPOLIS_SOCKET\fP
The socket of polisd, if --socket is not given.
.TP
\fBNO_COLOR\fP
If set, no colours are used.
.TP
\fBSHELL\fP
The shell that polisctl agents shell tries first.
.SH FILES
.TP
\fI/run/polis/polisd.sock\fP
The socket of polisd; members of group polis may use it.
.SH ERRORS
An error is one line on standard error, "polisctl: " and what failed, and often a
line "hint: " that says what to do next. With --json it is one object on standard
error: {"error":{"code":...,"message":...,"hint":...}}.
`)
	return b.String()
}

// writeGenerated writes files below dir and removes pages of verbs that are
// no more.
func writeGenerated(dir string, files map[string][]byte) error {
	old, err := filepath.Glob(filepath.Join(dir, manDir, "polisctl*.1"))
	if err != nil {
		return api.Errorf(api.CodeBadRequest, "directory %q: %w", dir, err)
	}
	for _, path := range old {
		if rel, err := filepath.Rel(dir, path); err == nil && files[rel] == nil {
			if err := os.Remove(path); err != nil {
				return api.Errorf(api.CodeInternal, "remove stale page: %w", err)
			}
		}
	}
	for name, data := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return api.Errorf(api.CodeInternal, "make directory: %w", err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return api.Errorf(api.CodeInternal, "write generated file: %w", err)
		}
	}
	return nil
}
