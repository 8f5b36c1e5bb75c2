package filtered

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/git"
	"polis/fusefs/policy"
)

type tb interface {
	require.TestingT
	Helper()
}

// repository is a bare repository that a test fills by plumbing.
type repository struct {
	t    tb
	repo git.Repo
	n    int
}

func open(t *testing.T, dir string) *repository {
	r := &repository{t: t, repo: git.Repo{Runner: &git.Runner{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}, Dir: filepath.Join(dir, "bare.git")}}
	r.git("", "init", "-q", "--bare", "-b", "main", r.repo.Dir)
	return r
}

func (r *repository) git(stdin string, args ...string) string {
	r.t.Helper()
	return r.with(nil, stdin, args...)
}

func (r *repository) with(env []string, stdin string, args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_DIR=" + r.repo.Dir, "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b"}, env...)
	cmd.Stdin = strings.NewReader(stdin)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	require.NoError(r.t, err, "git %v: %s", args, errs.String())
	return strings.TrimSpace(string(out))
}

// blob is the id of a file.
func blob(text string) string {
	return fmt.Sprintf("%x", sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(text), text)))
}

// commit makes a commit with these files, by path, and has a branch lead to it.
func (r *repository) commit(branch string, files map[string]string, parents ...string) string {
	r.t.Helper()
	r.n++
	var in strings.Builder
	fmt.Fprintf(&in, "commit refs/heads/%s\ncommitter a <a@b> %d +0000\ndata <<E\n%d\nE\n", branch, r.n, r.n)
	for i, p := range parents {
		fmt.Fprintf(&in, "%s %s\n", []string{"from", "merge"}[min(i, 1)], p)
	}
	fmt.Fprintf(&in, "deleteall\n")
	for _, p := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&in, "M 100644 inline %s\ndata %d\n%s\n", p, len(files[p]), files[p])
	}
	if len(parents) == 0 {
		r.git(fmt.Sprintf("reset refs/heads/%s\n", branch)+in.String(), "-c", "fastimport.unpackLimit=1", "fast-import", "--quiet", "--force")
	} else {
		r.git(in.String(), "fast-import", "--quiet", "--force")
	}
	return r.git("", "rev-parse", "refs/heads/"+branch)
}

func (r *repository) keeper(dir string) *Keeper {
	return New(r.repo, git.Repo{}, filepath.Join(dir, "filtered"), slog.New(slog.DiscardHandler))
}

// has lists the objects of a store, by id with their types.
func (r *repository) has(objects string) map[string]string {
	r.t.Helper()
	out := map[string]string{}
	list := r.with([]string{"GIT_OBJECT_DIRECTORY=" + objects}, "", "cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)")
	for line := range strings.Lines(list) {
		id, typ, _ := strings.Cut(strings.TrimSpace(line), " ")
		out[id] = typ
	}
	return out
}

// A file is in the store if and only if the rules allow it at some path where
// some commit has it; of everything else all is in the store. How often it was
// brought up to the refs, and when, makes no difference.
func TestAFileIsThereIfSomePathOfItMayBeRead(t *testing.T) {
	globs := rapid.SliceOfN(rapid.SampledFrom([]string{"s/**", "s/", "a", "*.k", "/s/a", "p/**", "!s/b", "s/b", "**"}), 0, 2)
	paths := []string{"a", "b.k", "p/a", "p/b", "s/a", "s/b", "s/d/a", "p/s/a"}
	runs := 0
	top, err := os.MkdirTemp("/dev/shm", "polis-filtered-") // what is synced takes no time there
	if err != nil {
		top = t.TempDir()
	}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(top)) })
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		dir := filepath.Join(top, fmt.Sprint(runs))
		require.NoError(rt, os.Mkdir(dir, 0o755))
		r := open(t, dir)
		r.t = rt
		k := r.keeper(dir)
		rules := policy.Rules{Deny: globs.Draw(rt, "deny"), Hide: globs.Draw(rt, "hide"), Read: globs.Draw(rt, "read")}
		set, err := policy.Compile(rules)
		require.NoError(rt, err)
		commits, trees := []string{}, []map[string]string{}

		for range rapid.IntRange(1, 6).Draw(rt, "commits") {
			files := map[string]string{}
			var parents []string
			for range rapid.IntRange(0, min(2, len(commits))).Draw(rt, "parents") {
				i := rapid.IntRange(0, len(commits)-1).Draw(rt, "parent")
				if !slices.Contains(parents, commits[i]) {
					parents = append(parents, commits[i])
					maps.Copy(files, trees[i])
				}
			}
			for range rapid.IntRange(0, 3).Draw(rt, "changes") {
				p := rapid.SampledFrom(paths).Draw(rt, "path")
				if files[p] != "" && rapid.Bool().Draw(rt, "remove") {
					delete(files, p)
				} else {
					files[p] = rapid.SampledFrom([]string{"1", "2", "3"}).Draw(rt, "content")
				}
			}
			commits = append(commits, r.commit(rapid.SampledFrom([]string{"main", "x", "y"}).Draw(rt, "branch"), files, parents...))
			trees = append(trees, files)
			if rapid.Bool().Draw(rt, "bring") {
				_, err = k.Ensure(t.Context(), rules)
				require.NoError(rt, err)
			}
		}
		// What no ref leads to any more stays, so all are led to.
		var refs strings.Builder
		for i, c := range commits {
			fmt.Fprintf(&refs, "create refs/heads/all/%d %s\n", i, c)
		}
		r.git(refs.String(), "update-ref", "--stdin")
		key, err := k.Ensure(t.Context(), rules)
		require.NoError(rt, err)
		want, files := r.has(r.repo.ObjectDir()), map[string][]string{}
		for _, tree := range trees {
			for path, text := range tree {
				files[blob(text)] = append(files[blob(text)], path)
			}
		}
		for id, typ := range want {
			if typ == "blob" && !slices.ContainsFunc(files[id], func(p string) bool { return set.DecideThrough(p, false).Read == policy.Allow }) {
				delete(want, id)
			}
		}
		require.Equal(rt, want, r.has(k.Objects(key)))
		// Every pack can be read alone, and what is withheld has a path.
		for id, at := range files {
			if want[id] != "" {
				continue
			}
			held, err := Withheld(k.Objects(key), []string{id})
			require.NoError(rt, err)
			require.Contains(rt, at, held[id])
		}
		packs, err := filepath.Glob(filepath.Join(k.Objects(key), "pack", "*.idx"))
		require.NoError(rt, err)
		r.git("", append([]string{"verify-pack"}, packs...)...)
		for _, p := range packs {
			require.FileExists(rt, strings.TrimSuffix(p, ".idx")+".promisor")
		}
		require.NoError(rt, k.Sweep(t.Context(), nil))
		require.NoDirExists(rt, filepath.Join(k.Dir, key))
	})
}

func bed(t *testing.T) (*repository, *Keeper) {
	dir := t.TempDir()
	r := open(t, dir)
	return r, r.keeper(dir)
}

var noSecrets = policy.Rules{Deny: []string{"s/**"}}

// What lies at a withheld path first and at another one later is readable, and so is
// what comes after the store was made.
func TestAFileThatMovesToAReadablePathIsReadable(t *testing.T) {
	r, k := bed(t)
	first := r.commit("main", map[string]string{"s/k": "x", "p": "y"})
	key, err := k.Ensure(t.Context(), noSecrets)
	require.NoError(t, err)
	require.NotContains(t, r.has(k.Objects(key)), blob("x"))
	r.commit("main", map[string]string{"k": "x", "p": "y"}, first)
	require.NoError(t, k.Update(t.Context(), key))
	require.Contains(t, r.has(k.Objects(key)), blob("x"))
}

// Tags of trees and files show nothing that is withheld somewhere.
func TestTagsShowNothingThatIsWithheld(t *testing.T) {
	r, k := bed(t)
	r.commit("main", map[string]string{"s/k": "x", "p": "y"})
	r.git("", "tag", "tree", "main^{tree}")
	r.git("", "tag", "secret", "main:s/k")
	r.git("", "tag", "-a", "-m", "x", "told", "main:s/k")
	key := r.git("key", "hash-object", "-w", "--stdin")
	r.git("", "tag", "-a", "-m", "x", "key", key)
	store, err := k.Ensure(t.Context(), noSecrets)
	require.NoError(t, err)
	has := r.has(k.Objects(store))
	require.NotContains(t, has, blob("x"))
	require.Contains(t, has, key, "a key is published in a tag")
	require.Contains(t, has, r.git("", "rev-parse", "told"))
	require.Contains(t, has, r.git("", "rev-parse", "tree"))
}

// A path that no checkout has cannot be judged.
func TestAPathThatIsNoneIsWithheld(t *testing.T) {
	r, k := bed(t)
	for _, name := range []string{"..", ".", ".git", ".GIT", "a/b"} {
		id := r.git("odd "+name, "hash-object", "-w", "--stdin")
		raw, err := hex.DecodeString(id)
		require.NoError(t, err)
		tree := r.git("100644 "+name+"\x00"+string(raw), "hash-object", "-w", "-t", "tree", "--literally", "--stdin")
		r.git("", "update-ref", "refs/heads/"+fmt.Sprintf("x%x", name), r.git("", "commit-tree", "-m", name, tree))
	}
	key, err := k.Ensure(t.Context(), policy.Rules{Deny: []string{"nothing"}})
	require.NoError(t, err)
	for id, typ := range r.has(k.Objects(key)) {
		require.True(t, typ != "blob" || id == blob("odd a/b"), id)
	}
}

// Whatever a crash leaves, the next operation makes whole.
func TestAStoreHeals(t *testing.T) {
	r, k := bed(t)
	first := r.commit("main", map[string]string{"s/k": "x", "p": "y"})
	key, err := k.Ensure(t.Context(), noSecrets)
	require.NoError(t, err)
	dir := filepath.Join(k.Dir, key)
	for name, harm := range map[string]func(){
		"no state":     func() { os.Remove(filepath.Join(dir, stateFile)) },
		"half a state": func() { require.NoError(t, os.WriteFile(filepath.Join(dir, stateFile), []byte(`{"tips": ["`), 0o600)) },
		"half a list":  func() { require.NoError(t, os.WriteFile(filepath.Join(dir, withheldFile), []byte("xx"), 0o600)) },
		"a pack without an index": func() {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "objects/pack/pack-"+first+".pack"), nil, 0o444))
		},
		"what was being made": func() { require.NoError(t, os.MkdirAll(filepath.Join(k.Dir, unfinished+"1", "pack"), 0o700)) },
	} {
		t.Run(name, func(t *testing.T) {
			r.t = t
			harm()
			text := "y " + name
			tip := r.commit("main", map[string]string{"s/k": "x " + name, "p": text}, first)
			_, err := k.Ensure(t.Context(), noSecrets)
			require.NoError(t, err)
			has := r.has(k.Objects(key))
			require.Contains(t, has, tip)
			require.Contains(t, has, blob(text))
			require.NotContains(t, has, blob("x "+name))
			held, err := Withheld(k.Objects(key), []string{blob("x " + name)})
			require.NoError(t, err)
			require.Equal(t, map[string]string{blob("x " + name): "s/k"}, held)
		})
	}
	require.NoError(t, k.Sweep(t.Context(), []string{key}))
	left, err := os.ReadDir(k.Dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
}

// Many small packs become one, in which nothing is lost and nothing new.
func TestPacksAreJoined(t *testing.T) {
	r, k := bed(t)
	tip := r.commit("main", map[string]string{"s/k": "x", "p": "y"})
	key, err := k.Ensure(t.Context(), noSecrets)
	require.NoError(t, err)
	most := 0
	for i := range maxPacks + 3 {
		tip = r.commit("main", map[string]string{"s/k": fmt.Sprint("x", i), "p": fmt.Sprint("y", i)}, tip)
		require.NoError(t, k.Update(t.Context(), key))
		packs, err := filepath.Glob(filepath.Join(k.Objects(key), "pack", "*.pack"))
		require.NoError(t, err)
		most = max(most, len(packs))
	}
	require.Less(t, most, maxPacks)
	has := r.has(k.Objects(key))
	for i := range maxPacks + 3 {
		require.Contains(t, has, blob(fmt.Sprint("y", i)))
		require.NotContains(t, has, blob(fmt.Sprint("x", i)))
	}
	files, err := filepath.Glob(filepath.Join(k.Objects(key), "pack", "*"))
	require.NoError(t, err)
	require.Zero(t, len(files)%len([]string{".pack", ".idx", ".promisor"}))
}

// The patterns for checkouts name what is withheld and nothing else, whatever it is called.
func TestPatternsNameWhatIsWithheldOnly(t *testing.T) {
	r, k := bed(t)
	withheld := []string{"s/a", "s/d/b", "x/a.key", "x/#.key", "x/[a]*?.key", "!b.key", "c d .key"}
	files := map[string]string{"a": "1", "sa": "2", "x/a": "3", "x/a.keys": "4", "x/ab.c": "5", "t/s/a": "6"}
	all := maps.Clone(files)
	for _, p := range withheld {
		all[p] = "w" + p
	}
	r.commit("main", all)
	key, err := k.Ensure(t.Context(), policy.Rules{Deny: []string{"/s/**", "*.key"}})
	require.NoError(t, err)
	index := filepath.Join(r.repo.Dir, "test-index")
	require.NoError(t, os.MkdirAll(filepath.Join(r.repo.Dir, "info"), 0o755))
	text, err := os.ReadFile(filepath.Join(k.Objects(key), SparseFile))
	require.NoError(t, err)
	require.Contains(t, string(text), "!/s/\n")
	require.NoError(t, os.WriteFile(filepath.Join(r.repo.Dir, SparseFile), text, 0o644))
	tree := t.TempDir()
	env := []string{"GIT_INDEX_FILE=" + index, "GIT_WORK_TREE=" + tree}
	r.with(env, "", "-c", "core.bare=false", "-c", "core.sparseCheckout=true", "-c", "core.sparseCheckoutCone=false", "read-tree", "-mu", "main")
	var out []string
	for _, line := range strings.Split(r.with(env, "", "-c", "core.bare=false", "ls-files", "-tz"), "\x00") {
		if p, ok := strings.CutPrefix(line, "S "); ok {
			out = append(out, p)
		}
	}
	require.ElementsMatch(t, withheld, out)
	for p := range files {
		require.FileExists(t, filepath.Join(tree, p))
	}
	ignored := r.with(env, strings.Join(slices.Concat(withheld, slices.Collect(maps.Keys(files))), "\x00"), "-c", "core.bare=false", "-c", "core.excludesFile="+filepath.Join(k.Objects(key), ExcludeFile), "check-ignore", "--no-index", "-z", "--stdin")
	require.ElementsMatch(t, withheld, strings.Split(strings.TrimSuffix(ignored, "\x00"), "\x00"))
}

// Repositories with SHA-256 are filtered like those with SHA-1.
func TestOtherHashesAreFiltered(t *testing.T) {
	dir := t.TempDir()
	r := &repository{t: t, repo: git.Repo{Runner: &git.Runner{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}, Dir: filepath.Join(dir, "bare.git")}}
	r.git("", "init", "-q", "--bare", "-b", "main", "--object-format=sha256", r.repo.Dir)
	k := r.keeper(dir)
	r.commit("main", map[string]string{"s/k": "x", "p": "y"})
	key, err := k.Ensure(t.Context(), noSecrets)
	require.NoError(t, err)
	has := r.has(k.Objects(key))
	require.Contains(t, has, r.git("", "rev-parse", "main:p"))
	secret := r.git("", "rev-parse", "main:s/k")
	require.NotContains(t, has, secret)
	held, err := WithheldAt(k.Objects(key), []string{secret})
	require.NoError(t, err)
	require.Equal(t, map[string][]string{secret: {"s/k"}}, held)
	there, err := k.Present(t.Context(), key, []string{secret, r.git("", "rev-parse", "main")})
	require.NoError(t, err)
	require.Equal(t, map[string]bool{r.git("", "rev-parse", "main"): true}, there)
}

// A ref whose history cannot be read keeps nobody from the others, and is not read again and again.
func TestABrokenRefIsLeftOut(t *testing.T) {
	r, k := bed(t)
	broken := func(n int) {
		id := r.git(fmt.Sprintf("tree %040d\nauthor a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\n\nx\n", n), "hash-object", "-w", "-t", "commit", "--literally", "--stdin")
		r.git("", "update-ref", fmt.Sprintf("refs/heads/broken%d", n), id)
	}
	broken(1)
	tip := r.commit("main", map[string]string{"s/k": "x", "p": "y"})
	r.git("", "update-ref", "refs/heads/other", tip)
	key, err := k.Ensure(t.Context(), noSecrets)
	require.NoError(t, err)
	require.Contains(t, r.has(k.Objects(key)), blob("y"))
	broken(2)
	r.commit("main", map[string]string{"s/k": "x", "p": "z"}, tip)
	require.NoError(t, k.Update(t.Context(), key))
	has := r.has(k.Objects(key))
	require.Contains(t, has, blob("z"))
	require.NotContains(t, has, blob("x"))
	var st state
	require.NoError(t, readJSON(filepath.Join(k.Dir, key, stateFile), &st))
	require.Len(t, st.Odd, 2)
	before, err := os.Stat(filepath.Join(k.Dir, key, stateFile))
	require.NoError(t, err)
	require.NoError(t, k.Update(t.Context(), key))
	after, err := os.Stat(filepath.Join(k.Dir, key, stateFile))
	require.NoError(t, err)
	require.Equal(t, before.ModTime(), after.ModTime(), "nothing was done")
	for _, n := range []string{"1", "2"} {
		r.git("", "update-ref", "-d", "refs/heads/broken"+n)
	}
	require.NoError(t, k.Update(t.Context(), key))
	st = state{}
	require.NoError(t, readJSON(filepath.Join(k.Dir, key, stateFile), &st))
	require.Empty(t, st.Odd)
}
