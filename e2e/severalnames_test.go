package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A file with several names is as on the disk, whichever name goes first: an overlay above the view keeps the one by
// which it has found the file. Both paths of the worktree, and root on the host, see it.
func TestFilesWithSeveralNames(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	a := d.add("ann")
	require.Equal(t, os.Getenv("POLIS_E2E_WORKTREE") == "above", d.topMount("ann") == "overlay")
	require.Equal(t, "x\nx\nx\n", d.sh("ann", "echo x > a; ln a b; cat b; rm a; cat b; sleep 0.2; cat b"))
	require.Equal(t, "x\n", readFile(filepath.Join(a.WorktreePath, "b")))
	d.sh("ann", `set -e
		for i in 1 2 3; do mkdir -p t/deps; printf '#!/bin/sh\necho %s\n' $i > t/deps/p; chmod +x t/deps/p; ln -f t/deps/p t/p; test "$(t/p)" = $i; rm t/deps/p; test "$(t/p)" = $i; done
		cp -al src copy; rm -r src; test "$(cat copy/a.txt)" = a; cp -al copy src; rm -r copy; test "$(cat src/deep/er/c.txt)" = c
		for i in 1 2 3; do echo mine > .lock.$$; ln .lock.$$ .lock; ! ln .lock.$$ .lock 2>/dev/null; rm .lock.$$; test "$(cat .lock)" = mine; rm .lock; done
		git init -q inner; cd inner; for i in 1 2 3; do echo $i > f; git add f; git -c user.name=a -c user.email=a@b commit -qm $i; done; git fsck --no-progress; cd ..; rm -rf inner
		test -z "$(git status --porcelain -- src)"`)
	d.must("agents", "stop", "ann")
	d.must("agents", "start", "ann")
	require.Equal(t, "x\n3\n", d.sh("ann", "cat b; t/p"))

	// By each path that leads there, inside and on the host; calls that the kernel does not repeat, too.
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(a.WorktreePath, link))
	const several = `set -eu; cd "$1"; rm -rf w; mkdir -p w/x; cd w
		echo one > a; ln a b; ln a x/c; cat a b > /dev/null; rm a; echo two > a; for i in 1 2 3; do test "$(cat a b x/c "$PWD/b")" = "$(printf 'two\none\none\none')"; done
		! mkdir b 2> err; grep -q 'File exists' err; ! ln a x/c 2> err; grep -q 'File exists' err; ! ln -s a "$PWD/b" 2> err; grep -q 'File exists' err
		ln -s x y; ! mkdir y/c 2> err; grep -q 'File exists' err; test "$(cat y/c)" = one; mv x/c x/d; test "$(cat y/d)" = one; rm b; test "$(cat y/d)" = one; test "$(stat -c %h x/d)" = 1`
	for _, at := range []string{a.WorktreePath, strings.TrimSpace(d.sh("ann", "pwd -P"))} {
		d.must("agents", "exec", "ann", "--", "sh", "-c", several, "sh", at)
	}
	for _, at := range []string{a.WorktreePath, link, "/proc/self/root" + a.WorktreePath} {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", several, "sh", at).CombinedOutput()
		require.NoError(t, err, "%s: %s", at, out)
	}
}
