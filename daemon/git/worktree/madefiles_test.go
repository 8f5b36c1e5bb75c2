package worktree

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// withMade adds an agent to a listing workspace whose setup command made files, and returns where its
// files are.
func withMade(t *testing.T) (w *Workspace, merged string) {
	t.Helper()
	w = listing(t)
	made := filepath.Join(w.layout().Setups(), "one", "tree")
	for _, name := range []string{"out/dep/index.js", "out/dep/more.js", "out/pad/index.js", "out/repo/x", "lib/ignored", "lib/in/x.log", "venv/.gitignore", "venv/bin"} {
		write(t, filepath.Join(made, name), "*\n")
	}
	as(t, 0, filepath.Join(made, "out/repo"), "init", "-q", "-b", "main") // as some package managers leave it
	require.NoError(t, filepath.WalkDir(made, func(path string, _ os.DirEntry, err error) error {
		require.NoError(t, err)
		return os.Chown(path, nobody, nobody)
	}))
	w.cfg.Setups = &oneSetup{r: SetupRecord{ID: "one", Outputs: []string{"out/"}}, tree: made}
	_, err := w.Add(t.Context(), "ann", "", "")
	require.NoError(t, err)
	merged, err = w.attach(t.Context(), "ann")
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(merged, "venv/bin"))
	return w, merged
}

// What an agent did to the files of the setup command, and what of it Save stores with the ignored
// files. The whole worktree and its changes give the same answers.
func TestOfIgnoredFilesOfTheSetupOnlyChangesAreSaved(t *testing.T) {
	all := []string{"lib/ignored", "lib/in/x.log", "out/dep/index.js", "out/dep/more.js", "out/pad/index.js", "venv/.gitignore", "venv/bin"}
	for name, tc := range map[string]struct {
		do   func(t *testing.T, at func(string) string)
		want []string
	}{
		"nothing": {func(*testing.T, func(string) string) {}, nil},
		"a change, a new file and a removal": {func(t *testing.T, at func(string) string) {
			write(t, at("out/dep/more.js"), "mine")
			write(t, at("out/new"), "mine")
			require.NoError(t, os.Remove(at("out/pad/index.js")))
		}, []string{"out/dep/more.js", "out/new"}},
		"another mode": {func(t *testing.T, at func(string) string) {
			require.NoError(t, os.Chmod(at("lib/ignored"), 0o700))
		}, []string{"lib/ignored"}},
		"a file replaced by one of the same content": {func(t *testing.T, at func(string) string) {
			write(t, at("out/tmp"), "*\n")
			require.NoError(t, os.Rename(at("out/tmp"), at("out/dep/index.js")))
		}, []string{"out/dep/index.js"}},
		"two files exchanged": {func(t *testing.T, at func(string) string) {
			require.NoError(t, unix.Renameat2(unix.AT_FDCWD, at("out/dep/index.js"), unix.AT_FDCWD, at("out/dep/more.js"), unix.RENAME_EXCHANGE))
		}, []string{"out/dep/index.js", "out/dep/more.js"}},
		"a directory moved": {func(t *testing.T, at func(string) string) {
			require.NoError(t, os.Rename(at("out/dep"), at("out/moved")))
		}, []string{"out/moved/index.js", "out/moved/more.js"}},
		"two directories exchanged": {func(t *testing.T, at func(string) string) {
			require.NoError(t, os.Rename(at("out/dep"), at("out/x")))
			require.NoError(t, os.Rename(at("out/pad"), at("out/dep")))
			require.NoError(t, os.Rename(at("out/x"), at("out/pad")))
		}, []string{"out/dep/index.js", "out/pad/index.js", "out/pad/more.js"}},
		"a directory made again": {func(t *testing.T, at func(string) string) {
			require.NoError(t, os.RemoveAll(at("out/dep")))
			write(t, at("out/dep/index.js"), "*\n")
		}, []string{"out/dep/index.js"}},
		"it is not ignored any more": {func(t *testing.T, at func(string) string) {
			write(t, at(".gitignore"), "*.log\n")
			write(t, at("out/new"), "mine")
		}, []string{".gitignore", "out/dep/index.js", "out/dep/more.js", "out/new", "out/pad/index.js"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, merged := withMade(t)
			tc.do(t, func(name string) string { return filepath.Join(merged, name) })
			sameAnswers(t, w, "ann", "status", "uncommitted", "diff", "save", "ignored")
			changed := func(opt SaveOptions) []string {
				tmp, err := w.scratch("save-")
				require.NoError(t, err)
				s := &saver{w: w, agent: "ann", opt: opt, index: filepath.Join(tmp, "index")}
				s.set, err = w.changes(t.Context(), "ann", View{})
				require.NoError(t, err)
				_, err = s.copyIndex(t.Context(), "")
				require.NoError(t, err)
				names, err := s.changed(t.Context(), nil)
				require.NoError(t, err)
				slices.Sort(names)
				require.NoError(t, os.RemoveAll(tmp))
				require.Equal(t, opt.Made || name == "it is not ignored any more", slices.Contains(s.out.Nested, "out/repo"), "%q", s.out.Nested)
				return names
			}
			require.Equal(t, tc.want, changed(SaveOptions{Ignored: true}))
			if name == "nothing" {
				require.Equal(t, all, changed(SaveOptions{Ignored: true, Made: true}))
				require.Empty(t, changed(SaveOptions{}))
			}
		})
	}
}

// An agent that changes what git ignores sees files of the setup command as untracked, and so do its
// status and diff as polisd reads them.
func TestFilesOfTheSetupThatAreNotIgnoredAnyMoreAreUntracked(t *testing.T) {
	w, merged := withMade(t)
	write(t, filepath.Join(merged, ".gitignore"), "")
	st, err := w.Status(t.Context(), "ann", "agent/ann", View{})
	require.NoError(t, err)
	require.Equal(t, []string{".gitignore", "lib/in/x.log", "out/"}, slices.Sorted(slices.Values(st.Paths)))
}
