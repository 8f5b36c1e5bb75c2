package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
)

// Repo is a repository together with the Runner that git runs by.
type Repo struct {
	Runner *Runner
	// Dir is the git directory, absolute.
	Dir string
	// Objects and Alternates apply to commands that set neither.
	Objects    string
	Alternates []string
}

// Run runs git in the repository, without a working tree.
func (r Repo) Run(ctx context.Context, args ...string) ([]byte, error) {
	return r.Do(ctx, Cmd{Args: args})
}

// Do runs c in the repository.
func (r Repo) Do(ctx context.Context, c Cmd) ([]byte, error) {
	if c.GitDir == "" {
		c.GitDir = r.Dir
	}
	if c.Objects == "" && c.Alternates == nil {
		c.Objects, c.Alternates = r.Objects, r.Alternates
	}
	return r.Runner.Run(ctx, c)
}

// Line runs git and returns its output without the final newline.
func (r Repo) Line(ctx context.Context, args ...string) (string, error) {
	out, err := r.Run(ctx, args...)
	return strings.TrimSuffix(string(out), "\n"), err
}

// Ref returns the object id of ref, or ErrNotFound. ref is a full ref name.
func (r Repo) Ref(ctx context.Context, ref string) (string, error) {
	return r.resolve(ctx, ref)
}

// Commit resolves a revision to the id of a commit, or returns ErrNotFound.
func (r Repo) Commit(ctx context.Context, rev string) (string, error) {
	return r.resolve(ctx, rev+"^{commit}")
}

// Resolve resolves several revisions with one command. The id of one that does not exist, or is
// ambiguous, is "".
func (r Repo) Resolve(ctx context.Context, revs ...string) ([]string, error) {
	ids := make([]string, len(revs))
	var in strings.Builder
	var sent []int
	for i, rev := range revs {
		if rev != "" && !strings.ContainsAny(rev, "\n\x00") { // no revision has these
			in.WriteString(rev + "\n")
			sent = append(sent, i)
		}
	}
	out, err := r.Do(ctx, Cmd{Args: []string{"cat-file", "--batch-check=%(objectname)"}, Stdin: strings.NewReader(in.String())})
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(sent) > 0 && len(lines) != len(sent) {
		return nil, fmt.Errorf("git cat-file --batch-check: %d lines for %d revisions", len(lines), len(sent))
	}
	for n, i := range sent {
		if IsOID(lines[n]) { // else the revision and "missing"
			ids[i] = lines[n]
		}
	}
	return ids, nil
}

func (r Repo) resolve(ctx context.Context, rev string) (string, error) {
	out, err := r.Line(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", rev)
	if code, ok := ExitCode(err); ok && (code == 1 || code == 128) {
		return "", fmt.Errorf("%s: %w", shorten(rev), ErrNotFound)
	}
	if err != nil {
		return "", err
	}
	if !IsOID(out) {
		return "", fmt.Errorf("%s: %w", shorten(rev), ErrNotFound)
	}
	return out, nil
}

// Head returns the short name of the branch that HEAD points to, or "" if HEAD is detached.
func (r Repo) Head(ctx context.Context) (string, error) {
	out, err := r.Line(ctx, "symbolic-ref", "--quiet", "HEAD")
	if code, ok := ExitCode(err); ok && code == 1 {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if name, ok := strings.CutPrefix(out, "refs/heads/"); ok {
		return name, nil
	}
	return "", nil
}

// IsAncestor reports whether commit a is b or an ancestor of b.
func (r Repo) IsAncestor(ctx context.Context, a, b string) (bool, error) {
	_, err := r.Run(ctx, "merge-base", "--is-ancestor", a, b)
	if code, ok := ExitCode(err); ok && code == 1 {
		return false, nil
	}
	return err == nil, err
}

// Count returns the number of commits that args name to git rev-list.
func (r Repo) Count(ctx context.Context, args ...string) (int, error) {
	out, err := r.Line(ctx, append([]string{"rev-list", "--count"}, args...)...)
	if err != nil {
		return 0, err
	}
	var n int
	if _, err := fmt.Sscanf(out, "%d", &n); err != nil {
		return 0, fmt.Errorf("git rev-list --count: %q is not a number", shorten(out))
	}
	return n, nil
}

// Diverged counts the commits that a has and b lacks, and those that b has and a lacks.
func (r Repo) Diverged(ctx context.Context, a, b string) (ahead, behind int, err error) {
	out, err := r.Line(ctx, "rev-list", "--count", "--left-right", "--end-of-options", a+"..."+b)
	if err != nil {
		return 0, 0, err
	}
	if _, err := fmt.Sscanf(out, "%d\t%d", &ahead, &behind); err != nil {
		return 0, 0, fmt.Errorf("git rev-list --count --left-right: %q are not two numbers", shorten(out))
	}
	return ahead, behind, nil
}

// Refs returns the refs below prefixes, or all refs without prefixes, with their ids.
func (r Repo) Refs(ctx context.Context, prefixes ...string) (map[string]string, error) {
	out, err := r.Run(ctx, append([]string{"for-each-ref", "--format=%(objectname) %(refname)"}, prefixes...)...)
	if err != nil {
		return nil, err
	}
	refs := map[string]string{}
	for line := range strings.Lines(string(out)) {
		oid, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !ok || !IsOID(oid) {
			return nil, fmt.Errorf("git for-each-ref: cannot read %q", shorten(line))
		}
		refs[name] = oid
	}
	return refs, nil
}

// Update sets ref to oid if its value is still old. An empty old means that the ref must not
// exist. Update returns ErrRefMoved if ref has another value.
func (r Repo) Update(ctx context.Context, ref, oid, old, why string) error {
	expect := old
	if expect == "" {
		expect = strings.Repeat("0", len(oid))
	}
	_, err := r.Run(ctx, "update-ref", "--no-deref", "-m", why, ref, oid, expect)
	return r.moved(ctx, ref, old, err)
}

// Delete removes ref if its value is still old.
func (r Repo) Delete(ctx context.Context, ref, old string) error {
	_, err := r.Run(ctx, "update-ref", "--no-deref", "-d", ref, old)
	return r.moved(ctx, ref, old, err)
}

// moved returns ErrRefMoved if an update failed because the ref has another value, else err.
func (r Repo) moved(ctx context.Context, ref, old string, err error) error {
	if err == nil {
		return nil
	}
	now, look := r.Ref(ctx, ref)
	if errors.Is(look, ErrNotFound) {
		now, look = "", nil
	}
	if look == nil && now != old {
		return fmt.Errorf("%s: %w", ref, ErrRefMoved)
	}
	return err
}

// UpdateAll sets many refs in one transaction, regardless of their present values.
func (r Repo) UpdateAll(ctx context.Context, refs map[string]string, why string) error {
	if len(refs) == 0 {
		return nil
	}
	var in bytes.Buffer
	for name, oid := range refs {
		fmt.Fprintf(&in, "update %s\x00%s\x00\x00", name, oid)
	}
	_, err := r.Do(ctx, Cmd{Args: []string{"update-ref", "--no-deref", "-m", why, "--stdin", "-z"}, Stdin: &in})
	return err
}

// Person is an author or a committer.
type Person struct{ Name, Email string }

// Idents are the author and the committer of commits.
type Idents struct{ Author, Committer Person }

// environ returns the variables that make git commit with them; polis itself for an empty field.
func (i Idents) environ() (env []string) {
	for _, v := range [][2]string{
		{"GIT_AUTHOR_NAME", i.Author.Name}, {"GIT_AUTHOR_EMAIL", i.Author.Email},
		{"GIT_COMMITTER_NAME", i.Committer.Name}, {"GIT_COMMITTER_EMAIL", i.Committer.Email},
	} {
		if v[1] != "" {
			env = append(env, v[0]+"="+v[1])
		}
	}
	return env
}

// CommitTree makes a commit and returns its id. It updates no ref. The zero Idents are polis
// itself.
func (r Repo) CommitTree(ctx context.Context, tree string, parents []string, message string, by Idents) (string, error) {
	args := []string{"commit-tree", "--no-gpg-sign", tree}
	for _, p := range parents {
		args = append(args, "-p", p)
	}
	out, err := r.Do(ctx, Cmd{Args: append(args, "-F", "-"), Env: by.environ(), Stdin: strings.NewReader(message)})
	return strings.TrimSpace(string(out)), err
}

// Message returns the message of a commit.
func (r Repo) Message(ctx context.Context, commit string) (string, error) {
	out, err := r.Run(ctx, "show", "-s", "--format=%B", "--no-show-signature", "--end-of-options", commit)
	return string(out), err
}

// Parents returns the parents of a commit.
func (r Repo) Parents(ctx context.Context, commit string) ([]string, error) {
	out, err := r.Line(ctx, "rev-list", "--no-walk", "--parents", "--end-of-options", commit)
	if err != nil {
		return nil, err
	}
	ids := strings.Fields(out)
	if len(ids) == 0 {
		return nil, fmt.Errorf("%s: %w", shorten(commit), ErrNotFound)
	}
	return ids[1:], nil
}

// Changed returns the paths that differ between two trees or commits, sorted by bytes as git sorts
// them.
func (r Repo) Changed(ctx context.Context, a, b string) ([]string, error) {
	out, err := r.Run(ctx, "diff-tree", "-r", "-z", "--name-only", "--no-renames", "--end-of-options", a, b)
	if err != nil {
		return nil, err
	}
	return SplitNUL(out), nil
}

// SplitNUL splits the output of an option -z.
func SplitNUL(out []byte) []string {
	s := strings.TrimSuffix(string(out), "\x00")
	if s == "" {
		return nil
	}
	return strings.Split(s, "\x00")
}
