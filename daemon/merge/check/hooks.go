package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/git"
	"polis/daemon/git/githooks"
)

// mergeHooks are the hooks that git runs for a merge that has no conflict (githooks(5)).
var mergeHooks = []string{"pre-merge-commit", "commit-msg"}

// hooksDir is the directory in the home of a check with what the hooks need.
const hooksDir = ".polis-merge"

// Hooks finds what the hooks of the project need to run for merges.
type Hooks struct {
	Bare   git.Repo // with the merges
	Target string   // the branch
	// Found are the hooks of the project; nil: it has none. Source reads their files.
	Found  *wire.GitHooks
	Source githooks.Source
}

// Close closes what Source reads.
func (h *Hooks) Close() error { return h.Source.Close() }

// prepare writes what the hooks need to the home of the check of a commit, in which merges lie on top of the target. The
// part of the script that it returns makes a repository in the tree, as git has it in a merge: HEAD is the target, the index
// the result. It has no objects but those of these commits.
func (h *Hooks) prepare(ctx context.Context, commit, home string, uid, gid int) (string, error) {
	if h.Found == nil || !slices.ContainsFunc(mergeHooks, func(n string) bool { return slices.Contains(h.Found.Names, n) }) {
		return "", nil
	}
	if h.Found.Place == wire.HooksOutside {
		return "", api.Errorf(api.CodeCheckFailed, "merge.hooks: the git hooks in %s are not in the project, and cannot run for a merge", h.Found.Dir)
	}
	found := *h.Found
	found.Run = true
	root, err := os.OpenRoot(home)
	if err != nil {
		return "", err
	}
	defer root.Close()
	w := writer{root: root, uid: uid, gid: gid}
	path := found.Dir
	if !found.Tracked {
		path = h.files(&w, &found)
	}
	onto, merges, err := h.merges(ctx, commit)
	if err != nil {
		return "", err
	}
	shallow := []string{onto}
	for i, m := range merges {
		shallow = append(shallow, m.merged)
		w.file(fmt.Sprintf("message-%03d", i), []byte(m.message), 0o444)
	}
	w.file("shallow", []byte(strings.Join(shallow, "\n")+"\n"), 0o444)
	w.pack(ctx, h.Bare, commit, shallow)
	format, err := h.Bare.Line(ctx, "rev-parse", "--show-object-format")
	if err = errors.Join(w.err, err); err != nil {
		return "", fmt.Errorf("prepare the git hooks of the project: %w", err)
	}
	return fmt.Sprintf(hooksScript, hooksDir, format, shellWord(path), onto, shellWord(git.Branch(h.Target)), commit, merges[len(merges)-1].merged), nil
}

// hooksScript runs the hooks. A message that commit-msg changes is not that of the merge: it can only refuse.
const hooksScript = `
p="$HOME/%[1]s"
git init -q --template= --object-format=%[2]s
git index-pack --stdin < "$p/pack" >/dev/null
cp "$p/shallow" .git/shallow
git config core.hooksPath %[3]s
git update-ref %[5]s %[4]s
git symbolic-ref HEAD %[5]s
git read-tree %[6]s
git update-index -q --refresh || :
echo %[7]s > .git/MERGE_HEAD
refuse() { echo "the git hook $1 refuses the merge" >&2; exit 1; }
git hook run --ignore-missing pre-merge-commit || refuse pre-merge-commit
for m in "$p"/message-*; do
	cp "$m" .git/MERGE_MSG
	chmod u+w .git/MERGE_MSG
	git hook run --ignore-missing commit-msg -- .git/MERGE_MSG || refuse commit-msg
done
rm -rf .git "$p"
`

// refusedBy returns the hook whose refusal ends the output of a check; "" if it ends otherwise.
func refusedBy(output string) string {
	lines := strings.Split(strings.TrimRight(output, "\n"), "\n")
	for _, name := range mergeHooks {
		if lines[len(lines)-1] == "the git hook "+name+" refuses the merge" {
			return name
		}
	}
	return ""
}

// files writes the files of the hooks, and links to the scripts of a manager in the tree. It returns the path for git.
func (h *Hooks) files(w *writer, found *wire.GitHooks) string {
	files, err := h.Source.Files(found)
	w.err = errors.Join(w.err, err)
	base := "hooks"
	if found.Place == wire.HooksInTree {
		base = filepath.Join("tree", found.Dir)
	}
	for _, f := range files {
		mode := os.FileMode(0o444)
		if f.Exec {
			mode = 0o555
		}
		w.file(filepath.Join(base, f.Path), f.Data, mode)
	}
	if found.Place == wire.HooksInTree && strings.Contains(found.Dir, "/") {
		for _, name := range found.Names {
			if name != filepath.Base(found.Dir) {
				w.link(filepath.Join(h.Source.Path, filepath.Dir(found.Dir), name), filepath.Join(filepath.Dir(base), name))
			}
		}
	}
	return "$p/" + base
}

// maxMerges bounds a stack of merges: merge.batch is at most 64.
const maxMerges = 64

type mergeCommit struct{ merged, message string }

// merges returns the merges of a stack, the first one first, and the commit of the target below them.
func (h *Hooks) merges(ctx context.Context, commit string) (onto string, all []mergeCommit, err error) {
	for at := commit; ; {
		done, err := h.Bare.IsAncestor(ctx, at, git.Branch(h.Target))
		if err != nil {
			return "", nil, err
		}
		if done {
			onto = at
			break
		}
		parents, err := h.Bare.Parents(ctx, at)
		if err != nil {
			return "", nil, err
		}
		if len(parents) != 2 || len(all) == maxMerges {
			return "", nil, fmt.Errorf("%s is no merge of two commits, or lies on more than %d others", at, maxMerges)
		}
		message, err := h.Bare.Message(ctx, at)
		if err != nil {
			return "", nil, err
		}
		all = append(all, mergeCommit{parents[1], strings.TrimRight(message, "\n") + "\n"})
		at = parents[0]
	}
	if len(all) == 0 {
		return "", nil, fmt.Errorf("%s is merged already", commit)
	}
	slices.Reverse(all)
	return onto, all, nil
}

// writer writes files for the user of a check. The first error is kept.
type writer struct {
	root     *os.Root
	uid, gid int
	err      error
}

// directory makes a directory, which the user can remove, with its parents.
func (w *writer) directory(path string) {
	if path == "." || w.err != nil {
		return
	}
	w.directory(filepath.Dir(path))
	if err := w.root.Mkdir(path, 0o700); w.err == nil && !errors.Is(err, fs.ErrExist) {
		w.err = cmp.Or(err, w.root.Lchown(path, w.uid, w.gid))
	}
}

func (w *writer) open(name string, mode os.FileMode) *os.File {
	name = filepath.Join(hooksDir, name)
	if w.directory(filepath.Dir(name)); w.err != nil {
		return nil
	}
	f, err := w.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if w.err = err; err != nil {
		return nil
	}
	if w.err = f.Chmod(mode); w.err != nil {
		w.err = errors.Join(w.err, f.Close())
		return nil
	}
	return f
}

func (w *writer) file(name string, data []byte, mode os.FileMode) {
	if f := w.open(name, mode); f != nil {
		_, err := f.Write(data)
		w.err = errors.Join(err, f.Close())
	}
}

func (w *writer) link(to, name string) {
	if w.err == nil {
		w.err = w.root.Symlink(to, filepath.Join(hooksDir, name))
	}
}

// pack writes the objects of the commits from one to those where the history is cut.
func (w *writer) pack(ctx context.Context, bare git.Repo, commit string, shallow []string) {
	f := w.open("pack", 0o444)
	if f == nil {
		return
	}
	var in strings.Builder
	for _, s := range shallow {
		in.WriteString("--shallow " + s + "\n")
	}
	in.WriteString(commit + "\n")
	_, err := bare.Do(ctx, git.Cmd{Args: []string{"pack-objects", "--revs", "--stdout", "--delta-base-offset", "--shallow", "-q"},
		Stdin: strings.NewReader(in.String()), Stdout: io.Writer(f)})
	w.err = errors.Join(err, f.Close())
}

// shellWord quotes a word for sh. A "$p" at its begin stands.
func shellWord(s string) string {
	if rest, ok := strings.CutPrefix(s, "$p"); ok {
		return `"$p"` + api.ShellWord(rest)
	}
	return api.ShellWord(s)
}
