package worktree

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// manyFiles makes a repository of n files of about 4 KB, a hundred in a directory.
func manyFiles(b *testing.B, n int) string {
	b.Helper()
	dir := filepath.Join(b.TempDir(), "src")
	require.NoError(b, os.MkdirAll(dir, 0o755))
	var in bytes.Buffer
	fmt.Fprintf(&in, "commit refs/heads/main\ncommitter u <u@example.org> 1 +0000\ndata 1\nm\n")
	for i := range n {
		text := strings.Repeat(fmt.Sprintf("line of file %d\n", i), 240)
		fmt.Fprintf(&in, "M 100644 inline dir%d/sub%d/file%d\ndata %d\n%s\n", i/10000, i/100%100, i, len(text), text)
	}
	git := func(stdin io.Reader, args ...string) {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Stdin = dir, stdin
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1"}
		out, err := cmd.CombinedOutput()
		require.NoError(b, err, string(out))
	}
	git(nil, "init", "-q", "-b", "main")
	git(&in, "fast-import", "--quiet")
	return dir
}

// BenchmarkLayers measures what polisd does with a worktree that shares a base tree and has ten
// changed files: once with git over what can differ, once over all files.
func BenchmarkLayers(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("needs root")
	}
	for _, n := range []int{1000, 100_000} {
		b.Run(fmt.Sprintf("files=%d", n), func(b *testing.B) {
			dir, err := os.MkdirTemp("/var/tmp", "polis-bench-")
			require.NoError(b, err)
			b.Cleanup(func() { require.NoError(b, os.RemoveAll(dir)) })
			require.NoError(b, os.Chmod(dir, 0o755))
			ws := filepath.Join(dir, "ws")
			_, err = Up(b.Context(), Spec{Workspace: ws, Repo: manyFiles(b, n), UID: nobody, GID: nobody})
			require.NoError(b, err)
			w := Open(Config{Workspace: ws, UID: nobody, GID: nobody, Mounts: kernel{}, Shared: func() bool { return true }})
			b.Cleanup(func() { require.NoError(b, w.DetachAll()) })
			_, err = w.Add(b.Context(), "ann", "", "")
			require.NoError(b, err)
			merged, err := w.attach(b.Context(), "ann")
			require.NoError(b, err)
			for i := range 10 {
				require.NoError(b, os.WriteFile(filepath.Join(merged, fmt.Sprintf("dir0/sub%d/file%d", i, i*100)), []byte("changed\n"), 0o644))
			}
			for _, op := range []struct {
				name string
				run  func() error
			}{
				{"status", func() error { _, err := w.Status(b.Context(), "ann", "", View{}); return err }},
				{"uncommitted", func() error { _, err := w.Uncommitted(b.Context(), "ann"); return err }},
				{"diff", func() error { return w.Diff(b.Context(), "ann", DiffOptions{}, io.Discard) }},
				{"save", func() error {
					t, err := w.Save(b.Context(), "ann", SaveOptions{})
					if err == nil {
						err = w.DropTrash(b.Context(), t.Ref)
					}
					return err
				}},
			} {
				for _, over := range []struct {
					name string
					min  int64
				}{{"all", 1 << 40}, {"changes", 0}} {
					b.Run(op.name+"/over="+over.name, func(b *testing.B) {
						w.minIndex = over.min
						for b.Loop() {
							require.NoError(b, op.run())
						}
					})
				}
			}
			b.Run("add", func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					_, err := w.Add(b.Context(), fmt.Sprintf("new%d", i), "", "main")
					require.NoError(b, err)
				}
			})
			withheld := func(path string) bool { return strings.HasPrefix(path, "dir0/") }
			for _, of := range []string{"git", "kept"} {
				b.Run("withhold/by="+of, func(b *testing.B) {
					for i := 0; b.Loop(); i++ {
						b.StopTimer()
						name, key := fmt.Sprintf("%s%d", of, i), "key"
						_, err := w.Add(b.Context(), name, "", "main")
						require.NoError(b, err)
						if of == "git" {
							key = fmt.Sprintf("key%d", i)
						}
						b.StartTimer()
						require.NoError(b, w.Withhold(b.Context(), name, View{}, key, withheld))
					}
				})
			}
			b.Run("withhold/again", func(b *testing.B) {
				for b.Loop() {
					require.NoError(b, w.Withhold(b.Context(), "git0", View{}, "key", withheld))
				}
			})
			b.Run("copy", func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					to := fmt.Sprintf("copy%d", i)
					c, err := w.CopyLayers(b.Context(), "ann", to, false)
					require.NoError(b, err)
					_, err = w.AddCopy(b.Context(), to, "", c.Head)
					require.NoError(b, err)
				}
			})
		})
	}
}
