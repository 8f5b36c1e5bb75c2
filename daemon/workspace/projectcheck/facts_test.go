package projectcheck

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"polis/daemon/api"
)

// caller runs git in a directory.
type caller struct {
	dir, home string
	uid       uint32
}

// git returns the output of git, also if it ends with status 1.
func (s caller) git(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Stdin = s.dir, strings.NewReader(stdin)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.home, "LC_ALL=C", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: s.uid, Gid: s.uid, Groups: []uint32{}}}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("git %v: %w: %s", args, err, errs.String())
	}
	return string(out), err
}

// facts are what a git reports.
type facts struct {
	author, committer string // "" if git refuses to commit
	ignored           []string
	attributes        map[string]string // by "path attribute"
	refs              map[string]string
	content           map[string]string // of tracked files; a missing one is not there
	status            []string          // of the fresh checkout
	untracked, mode   bool              // whether status shows a new file, and a changed mode
	module            bool              // whether the submodule has files
}

// candidates are paths that may be ignored.
var candidates = []string{"x.log", "x.swp", "keep.swp", ".idea/f", "dir/x.o", "x.o", "notes.local", "#x", "dir/y"}

var identTime = regexp.MustCompile(` \d+ [+-]\d{4}\n$`)

func (s caller) facts(ctx context.Context, tracked []string) (f facts, err error) {
	var errs []error
	run := func(stdin string, args ...string) string {
		out, err := s.git(ctx, stdin, args...)
		errs = append(errs, err)
		return out
	}
	ident := func(name string) string {
		out, err := s.git(ctx, "", "var", name)
		if err != nil {
			return ""
		}
		return identTime.ReplaceAllString(out, "")
	}
	f.author, f.committer = ident("GIT_AUTHOR_IDENT"), ident("GIT_COMMITTER_IDENT")
	f.ignored = fields(run(strings.Join(candidates, "\x00")+"\x00", "check-ignore", "-z", "--stdin"))
	f.attributes = map[string]string{}
	list := strings.Split(run(strings.Join(tracked, "\x00")+"\x00", "check-attr", "-a", "-z", "--stdin"), "\x00")
	for i := 0; i+2 < len(list); i += 3 {
		f.attributes[list[i]+" "+list[i+1]] = list[i+2]
	}
	f.refs = map[string]string{}
	for line := range strings.Lines(run("", "for-each-ref", "--format=%(refname) %(objectname)", "refs/heads", "refs/tags", "refs/remotes")) {
		name, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		f.refs[name] = id
	}
	f.content = map[string]string{}
	for _, name := range tracked {
		path := filepath.Join(s.dir, name)
		if b, err := os.ReadFile(path); err == nil {
			f.content[name] = string(b)
			// Else status compares the content of a file, and so its line endings, if it is as old as the index only: by chance.
			errs = append(errs, os.Chtimes(path, time.Time{}, time.Unix(1e9, 0)))
		}
	}
	f.status = fields(run("", "status", "--porcelain", "-z"))
	errs = append(errs, os.WriteFile(filepath.Join(s.dir, "new.file"), nil, 0o644), os.Chmod(filepath.Join(s.dir, "a.txt"), 0o755)) //nolint:gosec // git records the mode
	after := fields(run("", "status", "--porcelain", "-z"))
	f.untracked = slices.Contains(after, "?? new.file")
	// A file that is changed anyway is changed with another mode, too.
	f.mode = slices.Contains(after, " M a.txt") && strings.Contains(run("", "diff", "--raw", "--", "a.txt"), " 100755 ")
	if inside, err := os.ReadDir(filepath.Join(s.dir, "lib")); err == nil {
		f.module = len(inside) > 1
	}
	return f, errors.Join(errs...)
}

func fields(text string) []string {
	out := strings.Split(strings.TrimSuffix(text, "\x00"), "\x00")
	if len(out) == 1 && out[0] == "" {
		return nil
	}
	slices.Sort(out)
	return out
}

// A difference is one fact in which owner and agent differ. It needs a notice: one of the rows of these names, with
// the word in what it found.
type difference struct {
	fact, word string
	rows       []string
}

func (d difference) noticed(rows []api.Finding) bool {
	return slices.ContainsFunc(rows, func(r api.Finding) bool {
		return slices.Contains(d.rows, r.Name) && r.Works != api.WorksOK && r.Notice() != "" && strings.Contains(r.Found, d.word)
	})
}

// compare lists the facts in which an agent differs from the owner.
func compare(owner, agent facts, filters map[string]bool) (out []difference) {
	add := func(fact, word string, rows ...string) { out = append(out, difference{fact, word, rows}) }
	// addOf is about a file of the project that git's configuration can name: a sparse checkout may lack it, which the row of that says.
	addOf := func(file, fact, word, row string) {
		if _, has := owner.content[file]; !has && agent.content[file] != "" {
			word, row = "core.sparsecheckout", Sparse
		}
		add(fact, word, row)
	}
	if owner.author != "" && owner.author != agent.author {
		add(fmt.Sprintf("author %q, in the agent %q", owner.author, agent.author), "", Identity)
	}
	if owner.committer != "" && owner.committer != agent.committer {
		add(fmt.Sprintf("committer %q, in the agent %q", owner.committer, agent.committer), "", Identity)
	}
	if !slices.Equal(owner.ignored, agent.ignored) {
		addOf("own-ignore", fmt.Sprintf("ignored %q, in the agent %q", owner.ignored, agent.ignored), "", IgnoreFiles)
	}
	for key := range union(owner.attributes, agent.attributes) {
		if owner.attributes[key] != agent.attributes[key] {
			addOf("own-attributes", fmt.Sprintf("attribute %s is %q, in the agent %q", key, owner.attributes[key], agent.attributes[key]), "attr", Attributes)
		}
	}
	for ref := range union(owner.refs, agent.refs) {
		if owner.refs[ref] != agent.refs[ref] && ref != "refs/heads/agent/ann" {
			add(fmt.Sprintf("ref %s is %q, in the agent %q", ref, owner.refs[ref], agent.refs[ref]), strings.TrimPrefix(ref, "refs/"), Refs)
		}
	}
	converted := []string{LineEndings, Attributes, Filters}
	for name := range union(owner.content, agent.content) {
		mine, has := owner.content[name]
		theirs := agent.content[name]
		driver := owner.attributes[name+" filter"]
		switch {
		case !has:
			add("the owner has no "+name, "core.sparsecheckout", Sparse)
		case mine == theirs:
		case filters[driver]:
			add(fmt.Sprintf("%s is %q, filtered, in the agent %q", name, mine, theirs), driver, Filters)
		default:
			add(fmt.Sprintf("%s is %q, in the agent %q", name, mine, theirs), "", converted[:2]...)
		}
	}
	if !slices.Equal(owner.status, agent.status) {
		for _, line := range slices.Concat(owner.status, agent.status) {
			switch has := slices.Contains(owner.status, line); {
			case has == slices.Contains(agent.status, line):
			case strings.HasPrefix(line, "??"):
				add("status has "+line, "status.showuntrackedfiles", Status)
			case strings.HasSuffix(line, " lib"):
				add("status has "+line, "lib", Status, Submodules)
			default:
				add("status has "+line, "", converted...)
			}
		}
	}
	if owner.untracked != agent.untracked {
		add("a new file is in one status only", "status.showuntrackedfiles", Status)
	}
	if owner.mode != agent.mode {
		add("a changed mode is in one status only", "core.filemode", Status)
	}
	if owner.module && !agent.module {
		add("the submodule is empty in the agent", `"lib"`, Submodules)
	}
	return out
}

func union(a, b map[string]string) map[string]bool {
	keys := map[string]bool{}
	for k := range a {
		keys[k] = true
	}
	for k := range b {
		keys[k] = true
	}
	return keys
}
