package merge

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the owner's git converts, wherever that is configured, polis converts too, or leaves the checkout alone if it
// takes a command. No command runs.
func TestTheConfigurationOfTheOwnerDecidesAboutTheCheckout(t *testing.T) {
	const lfs = "[filter \"lfs\"]\n\tclean = touch RAN; cat\n\tsmudge = touch RAN; cat\n\trequired = true\n"
	for name, c := range map[string]struct {
		files  map[string]string // below the home of the owner; "project/" is the checkout
		commit map[string]string // what the agent's commit has
		begin  string            // a script of the owner
		reason string            // why it is left alone; else it is updated
		want   string            // of "data.bin"
	}{
		"global filter":            {files: map[string]string{".gitconfig": lfs, "project/.gitattributes": "*.bin filter=lfs\n"}, reason: `the filter lfs of your git applies to "data.bin"`},
		"XDG filter":               {files: map[string]string{".config/git/config": lfs, "project/.gitattributes": "*.bin filter=lfs\n"}, reason: "the filter lfs of your git applies"},
		"included filter":          {files: map[string]string{".gitconfig": "[include]\n\tpath = more\n", "more": lfs, "project/.gitattributes": "*.bin filter=lfs\n"}, reason: "the filter lfs of your git applies"},
		"conditional include":      {files: map[string]string{".gitconfig": "[includeIf \"gitdir:~/project/\"]\n\tpath = ~/more\n", "more": lfs, "project/.gitattributes": "*.bin filter=lfs\n"}, reason: "the filter lfs of your git applies"},
		"another condition":        {files: map[string]string{".gitconfig": "[includeIf \"gitdir:~/other/\"]\n\tpath = ~/more\n", "more": lfs, "project/.gitattributes": "*.bin filter=lfs\n"}, want: "data\n"},
		"global attributes":        {files: map[string]string{".gitconfig": lfs + "[core]\n\tattributesFile = ~/attr\n", "attr": "*.bin filter=lfs\n"}, reason: "the filter lfs of your git applies"},
		"XDG attributes":           {files: map[string]string{".gitconfig": lfs, ".config/git/attributes": "*.bin filter=lfs\n"}, reason: "the filter lfs of your git applies"},
		"own attributes":           {files: map[string]string{"project/.git/info/attributes": "*.bin filter=lfs\n", ".gitconfig": lfs}, reason: "the filter lfs of your git applies"},
		"new attributes":           {files: map[string]string{".gitconfig": lfs}, commit: map[string]string{".gitattributes": "*.bin filter=lfs\n", "data.bin": "data\n"}, reason: `".gitattributes" decides`},
		"installed and not used":   {files: map[string]string{".gitconfig": lfs}, want: "data\n"},
		"of other files":           {files: map[string]string{".gitconfig": lfs, "project/.gitattributes": "*.big filter=lfs\n", "project/a.big": "content\n"}, begin: "printf 'version\\n' > a.big; git add a.big; git commit -qm big; touch -d 2000-01-01 a.big", want: "data\n"},
		"global autocrlf":          {files: map[string]string{".gitconfig": "[core]\n\tautocrlf = true\n"}, begin: "git -c core.autocrlf=false commit -q --allow-empty -m x; rm file; HOME=$OWNER git checkout -q file; touch -d 2000-01-01 file", want: "data\r\n"},
		"a line ending and global": {files: map[string]string{".gitconfig": "[core]\n\teol = crlf\n\tattributesFile = ~/attr\n", "attr": "*.bin text\n"}, want: "data\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t)
			home := tempDir(t)
			project := filepath.Join(home, "project")
			require.NoError(t, exec.Command("cp", "-a", f.project, project).Run())
			for file, text := range c.files {
				require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(home, file)), 0o755))
				require.NoError(t, os.WriteFile(filepath.Join(home, file), []byte(text), 0o644))
			}
			f = at(t, project, home)
			if c.begin != "" {
				sh(t, project, "OWNER="+home+"\n"+c.begin)
			}
			sh(t, project, "git add -A; git -c core.autocrlf=false commit -q --allow-empty -m more")
			_, err := f.Workspace.Sync(t.Context())
			require.NoError(t, err)
			tree, err := f.Workspace.Add(t.Context(), "alice", "", "")
			require.NoError(t, err)
			if c.commit == nil {
				c.commit = map[string]string{"data.bin": "data\n"}
			}
			for file, text := range c.commit {
				require.NoError(t, os.WriteFile(filepath.Join(tree.Path, file), []byte(text), 0o644))
			}
			as(t, nobody, tree.Path, "add", "-A")
			as(t, nobody, tree.Path, "commit", "-qm", "work")
			_, err = f.merge(t, "alice")
			require.NoError(t, err)
			before := everything(t, project)
			a, err := f.UpdateCheckout(t.Context())
			require.NoError(t, err)
			if c.reason != "" {
				require.False(t, a.Updated)
				require.Contains(t, a.Reason, c.reason)
				require.Contains(t, a.Command, "merge --ff-only refs/remotes/polis/main")
				require.Equal(t, before, everything(t, project))
			} else {
				require.True(t, a.Files, a.Reason)
				text, err := os.ReadFile(filepath.Join(project, "data.bin"))
				require.NoError(t, err)
				require.Equal(t, c.want, string(text))
			}
			require.NoFileExists(t, filepath.Join(project, "RAN"))
		})
	}
}

// at is a fixture whose project has an owner with a home.
func at(t *testing.T, project, home string) fixture {
	t.Helper()
	require.NoError(t, exec.Command("chown", "-R", "65534:65534", home).Run())
	f := workspaceOf(t, project)
	f.Home = func(uint32) string { return home }
	return f
}

// Files keep their permissions, and new ones get those of their neighbours, as if the owner had merged.
func TestAMergeKeepsPermissions(t *testing.T) {
	for name, c := range map[string]struct {
		dir, file fs.FileMode
		newDir    fs.FileMode
	}{
		"umask 077":              {dir: 0o700, file: 0o600, newDir: 0o700},
		"private files":          {dir: 0o755, file: 0o600, newDir: 0o700},
		"umask 022":              {dir: 0o755, file: 0o644, newDir: 0o755},
		"shared by a group":      {dir: 0o775 | fs.ModeSetgid, file: 0o664, newDir: 0o775 | fs.ModeSetgid},
		"of a group, unreadable": {dir: 0o770 | fs.ModeSetgid, file: 0o660, newDir: 0o770 | fs.ModeSetgid},
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t)
			sh0 := func(script string) {
				t.Helper()
				out, err := exec.Command("sh", "-ec", script).CombinedOutput()
				require.NoError(t, err, "%s", out)
			}
			sh0("chown -R 65534:65534 " + f.project)
			f.recordAgain(t)
			sh(t, f.project, "mkdir sub; echo s > sub/s; echo x > tool; chmod +x tool; git add -A; git commit -qm more")
			require.NoError(t, os.Chmod(f.project, c.dir))
			require.NoError(t, os.Chmod(f.project+"/sub", c.dir))
			for _, n := range []string{"file", "sub/s"} {
				require.NoError(t, os.Chmod(filepath.Join(f.project, n), c.file))
			}
			exe := c.file | c.file>>2&0o111
			require.NoError(t, os.Chmod(f.project+"/tool", exe))
			_, err := f.Workspace.Sync(t.Context())
			require.NoError(t, err)
			tree, err := f.Workspace.Add(t.Context(), "alice", "", "")
			require.NoError(t, err)
			sh(t, tree.Path, "echo 2 > file; echo 2 > sub/s; echo 2 > tool; echo n > new; echo n > sub/new; echo n > run; chmod +x run; mkdir -p sub/deep/er; echo n > sub/deep/er/n; git add -A; git commit -qm work")
			_, err = f.merge(t, "alice")
			require.NoError(t, err)
			a, err := f.UpdateCheckout(t.Context())
			require.NoError(t, err)
			require.True(t, a.Files, a.Reason)
			for n, want := range map[string]fs.FileMode{"file": c.file, "sub/s": c.file, "new": c.file, "sub/new": c.file, "sub/deep/er/n": c.file, "tool": exe, "run": exe,
				"sub": c.dir | fs.ModeDir, "sub/deep": c.newDir | fs.ModeDir, "sub/deep/er": c.newDir | fs.ModeDir} {
				fi, err := os.Lstat(filepath.Join(f.project, n))
				require.NoError(t, err)
				require.Equal(t, want.String(), fi.Mode().String(), n)
			}
			require.Empty(t, as(t, nobody, f.project, "status", "--porcelain"))
		})
	}
}

// One file that everybody can write does not make the next one so.
func TestNewFilesCannotBeWrittenByMoreThanTheirDirectory(t *testing.T) {
	for _, c := range []struct{ dir, file, want fs.FileMode }{
		{0o755, 0o666, 0o644}, {0o775, 0o666, 0o664}, {0o777, 0o666, 0o666}, {0o700, 0o660, 0o640}, {0o755, 0o600, 0o600},
	} {
		dir := t.TempDir()
		for name, mode := range map[string]fs.FileMode{"a": 0o600, "b": c.file} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
			require.NoError(t, os.Chmod(filepath.Join(dir, name), mode))
		}
		require.NoError(t, os.Chmod(dir, c.dir))
		root, err := os.OpenRoot(dir)
		require.NoError(t, err)
		got, err := usual(root, ".", fs.ModeDir|c.dir)
		require.NoError(t, root.Close())
		require.NoError(t, err)
		require.Equal(t, c.want, got, "%v %v", c.dir, c.file)
	}
}
