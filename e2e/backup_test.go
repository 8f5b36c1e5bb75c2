package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// backupCommand is the command of docs/backup.md that saves everything, and restoreCommand the one that restores it.
var (
	backupCommand  = regexp.MustCompile(`(?m)^    sudo (tar --create [^\n]*)$`)
	restoreCommand = regexp.MustCompile(`(?m)^    sudo (tar --extract [^\n]*)$`)
)

// TestBackupAndRestore saves a machine's polis with the command of docs/backup.md, deletes all of it, and restores it:
// uncommitted and committed work, ignored files, branches, removed agents, rules and owners are there.
func TestBackupAndRestore(t *testing.T) {
	page := readFile("../docs/backup.md")
	save, restore := backupCommand.FindStringSubmatch(page), restoreCommand.FindStringSubmatch(page)
	require.NotNil(t, save, "docs/backup.md has the command")
	require.NotNil(t, restore)
	for _, kind := range []string{"full", "shared"} {
		t.Run(kind, func(t *testing.T) {
			d := startDaemon(t, options{config: "\n[workspace]\nworktree = \"" + kind + "\"\n"})
			project := d.up()
			d.add("alice", "--write", "**", "--deny", "secret/**")
			d.add("bob")
			d.sh("alice", "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m committed; echo uncommitted >> main.txt; mkdir -p new && echo new > new/file && chmod 700 new/file && ln -s file new/link")
			d.sh("bob", "echo work of bob > bob.txt")
			d.must("agents", "remove", "bob", "--force")
			want := d.sh("alice", "git log --format=%s -n 1; git status --short; cat main.txt; stat -c '%A %U' new/file; readlink new/link")
			policy := d.must("agents", "policy", "alice")

			d.stop()
			archive := d.path("backup.tar")
			paths := strings.NewReplacer("/etc/polis", d.path("polisd.toml"), "/var/lib/polis", d.path("state"), "/srv/ws", d.path("ws"), "/srv/project", project, "backup.tar.gz", archive)
			shellOut(t, paths.Replace(save[1]))
			for _, dir := range []string{d.path("state"), d.path("ws"), project} {
				require.NotContains(t, readFile("/proc/self/mounts"), dir)
				require.NoError(t, os.RemoveAll(dir))
			}
			require.NoError(t, os.Remove(d.path("polisd.toml")))
			shellOut(t, paths.Replace(restore[1]))
			d.start()

			d.must("agents", "start", "alice")
			require.Equal(t, want, d.sh("alice", "git log --format=%s -n 1; git status --short; cat main.txt; stat -c '%A %U' new/file; readlink new/link"))
			require.Equal(t, policy, d.must("agents", "policy", "alice"))
			require.NotZero(t, d.exec("alice", "sh", "-c", "mkdir -p secret && echo x > secret/key").code, "the rules are there")
			d.must("restore", "bob")
			require.Contains(t, d.sh("bob", "cat bob.txt"), "work of bob")
			d.must("agents", "commit", "alice", "-m", "more")
			d.must("merge", "alice")
			require.Contains(t, readFile(filepath.Join(project, "main.txt")), "uncommitted")
		})
	}
}

func shellOut(t *testing.T, line string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "bash", "-ec", line).CombinedOutput()
	require.NoError(t, err, "%s: %s", line, out)
}
