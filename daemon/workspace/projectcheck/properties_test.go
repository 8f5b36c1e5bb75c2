package projectcheck

import (
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"polis/daemon/agent/home"
	"polis/daemon/api"
	"polis/daemon/git/excludes"
	"polis/daemon/git/githooks"
	"polis/daemon/git/worktree"
	"polis/internal/need"
)

const agentUID = 65534

// mark is a variable of a process with an /etc of its own.
const mark = "POLIS_TEST_OWN_ETC"

// ownEtc runs the test again in a mount namespace with an /etc of its own, whose /etc/gitconfig the test writes. It
// reports whether this is that process.
func ownEtc(t *testing.T) bool {
	t.Helper()
	need.Root(t)
	if os.Getenv(mark) != "" {
		dir := t.TempDir()
		require.NoError(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755"))
		t.Cleanup(func() {
			require.NoError(t, unix.Unmount("/etc", unix.MNT_DETACH))
			require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH))
		})
		for _, name := range []string{"upper", "work"} {
			require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		}
		require.NoError(t, unix.Mount("overlay", "/etc", "overlay", 0, "lowerdir=/etc,upperdir="+dir+"/upper,workdir="+dir+"/work"))
		return true
	}
	args := []string{"-test.run=^" + t.Name() + "$", "-test.v"}
	for _, a := range os.Args[1:] {
		if strings.HasPrefix(a, "-rapid.") || strings.HasPrefix(a, "-test.timeout") {
			args = append(args, a)
		}
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), mark+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "--- PASS: "+t.Name())
	return false
}

// What the owner's git reports in the project (identity, ignored files, attributes, content, status, refs) is what the agent's git
// reports, or a notice names the fact.
func TestTheAgentsGitIsTheOwnersOrANoticeNamesTheDifference(t *testing.T) {
	if !ownEtc(t) {
		return
	}
	base := t.TempDir()
	require.NoError(t, os.Chmod(base, 0o755))
	require.NoError(t, os.Chmod(filepath.Dir(base), 0o755))
	rapid.Check(t, func(rt *rapid.T) {
		w := drawWorld(rt)
		dir, err := os.MkdirTemp(base, "case")
		require.NoError(rt, err)
		defer os.RemoveAll(dir)
		differences, rows := run(rt, t, w, dir)
		for _, r := range rows {
			requireRemedy(rt, r)
		}
		for _, d := range differences {
			require.True(rt, d.noticed(rows), "no notice names: %s\nrows: %+v\nworld: %+v", d.fact, rows, w)
		}
	})
}

// Without its row, each difference is found to lack a notice: the property can fail, and the grammar reaches each kind.
func TestADifferenceWithoutItsNoticeIsFound(t *testing.T) {
	if !ownEtc(t) {
		return
	}
	base := t.TempDir()
	require.NoError(t, os.Chmod(base, 0o755))
	require.NoError(t, os.Chmod(filepath.Dir(base), 0o755))
	for row, w := range map[string]world{
		Identity:    {config: map[string]string{"global": entryText("user.name", "a\\tb") + entryText("user.email", "a@b")}},
		IgnoreFiles: {config: map[string]string{"global": entryText("core.excludesFile", "~/binary")}},
		Attributes:  {local: map[string]string{"info/attributes": "*.txt -diff\n"}},
		LineEndings: {config: map[string]string{"local": entryText("core.autocrlf", "true")}},
		Filters:     {config: map[string]string{"xdg": entryText("filter.up.smudge", "tr a-z A-Z")}, ours: map[string]string{".gitattributes": "*.up filter=up\n"}},
		Sparse:      {sparse: true},
		Status:      {config: map[string]string{"local": entryText("core.fileMode", "false")}},
		Refs:        {later: []string{"refs/heads/agent/bar"}},
	} {
		t.Run(row, func(t *testing.T) {
			w.ours = maps.Clone(w.ours)
			if w.ours == nil {
				w.ours = map[string]string{}
			}
			for name, text := range map[string]string{"a.txt": "one\n", "file.up": "shout\n", "dir/b.c": "int x;\n"} {
				w.ours[name] = text
			}
			dir, err := os.MkdirTemp(base, "case")
			require.NoError(t, err)
			differences, rows := run(t, t, w, dir)
			require.True(t, slices.ContainsFunc(differences, func(d difference) bool { return slices.Contains(d.rows, row) }), "%v", differences)
			for _, d := range differences {
				require.True(t, d.noticed(rows), "%s: %+v", d.fact, rows)
			}
			without := slices.DeleteFunc(slices.Clone(rows), func(r api.Finding) bool { return r.Name == row })
			require.True(t, slices.ContainsFunc(differences, func(d difference) bool { return !d.noticed(without) }))
		})
	}
}

// openWorld makes a world, and a workspace of its project as polisd does.
func openWorld(rt require.TestingT, t *testing.T, w world, dir string) (*worktree.Workspace, *worktree.Project, caller) {
	ctx := t.Context()
	require.NoError(rt, os.Chmod(dir, 0o755))
	project, owner := makeProject(rt, t, w, dir)
	spec := worktree.Spec{Workspace: filepath.Join(dir, "ws"), Repo: project, UID: agentUID, GID: agentUID, Log: slog.New(slog.DiscardHandler)}
	_, err := worktree.Up(ctx, spec)
	require.NoError(rt, err, "%+v", w)
	require.NoError(rt, os.Chmod(filepath.Join(spec.Workspace, ".polis/worktrees"), 0o711)) // agents reach theirs by their views
	ws := worktree.Open(worktree.Config{Workspace: spec.Workspace, UID: agentUID, GID: agentUID, Log: spec.Log})
	p, err := ws.Project(ctx)
	require.NoError(rt, err)
	for _, ref := range w.later {
		_, err := owner.git(ctx, "", "update-ref", ref, "HEAD")
		require.NoError(rt, err)
	}
	return ws, p, owner
}

// run makes a world, and an agent in it as polisd does, and compares what their gits report.
func run(rt require.TestingT, t *testing.T, w world, dir string) ([]difference, []api.Finding) {
	ctx := t.Context()
	ws, p, owner := openWorld(rt, t, w, dir)
	brought, err := ws.BringRefs(ctx, p, func(string) string { return "" })
	require.NoError(rt, err)
	tree, err := ws.Add(ctx, "ann", "", "")
	require.NoError(rt, err)
	require.NoError(rt, ws.FillSubmodules(ctx, "ann", p))
	modules, err := ws.BorrowedModules(ctx, "ann", p)
	require.NoError(rt, err)
	for to, objects := range modules { // mounts, in a sandbox
		require.NoError(rt, os.MkdirAll(filepath.Dir(to), 0o755))
		require.NoError(rt, os.Symlink(objects, to))
	}
	agent := caller{dir: tree.Path, home: filepath.Join(dir, "agent"), uid: agentUID}
	require.NoError(rt, os.Mkdir(agent.home, 0o700))
	require.NoError(rt, os.Chown(agent.home, agentUID, agentUID))
	o, err := p.OwnersGit(ctx, owner.home)
	require.NoError(rt, err)
	ids, _ := o.Identity(ctx) //nolint:errcheck // it is logged, and a row
	if ids.Author.Name == "" {
		ids.Author.Name, ids.Committer.Name = "ann", "ann"
	}
	if ids.Author.Email == "" {
		ids.Author.Email, ids.Committer.Email = "ann@polis", "ann@polis"
	}
	_, err = home.Seed(home.Spec{Agent: "ann", Dir: agent.home, Inside: agent.home, Record: filepath.Join(dir, "record"), ReadOnly: filepath.Join(dir, "ro"), Owner: -1, UID: agentUID, GID: agentUID, By: ids, Log: slog.New(slog.DiscardHandler)})
	require.NoError(rt, err)
	patterns, _ := o.Ignored() //nolint:errcheck // likewise
	_, err = excludes.Set(ws.Bare().Dir, patterns, agentUID, agentUID)
	require.NoError(rt, err)

	all := Project{Git: p, Home: owner.home, Target: "main", Kept: brought.Kept}
	all.Submodules, all.SubmodulesErr = ws.SubmoduleNotice(ctx, "ann", false)
	all.Settings, err = githooks.ReadSettings(ctx, p, owner.home)
	require.NoError(rt, err)
	rows := all.Findings(ctx)
	var tracked, filters = slices.Sorted(maps.Keys(w.ours)), map[string]bool{}
	for _, key := range []string{"filter.up.clean", "filter.up.smudge"} {
		out, err := owner.git(ctx, "", "config", key)
		require.NoError(rt, err)
		filters["up"] = filters["up"] || strings.TrimSpace(out) != ""
	}
	mine, err := owner.facts(ctx, tracked)
	require.NoError(rt, err, "%+v", w)
	// A sandbox has no home of the owner.
	require.NoError(rt, os.Rename(owner.home, owner.home+".hidden"))
	theirs, err := agent.facts(ctx, tracked)
	require.NoError(rt, err, "%+v", w)
	return compare(mine, theirs, filters), rows
}

// makeProject makes the owner's project, with a checkout by the owner's git.
func makeProject(rt require.TestingT, t *testing.T, w world, dir string) (project string, owner caller) {
	src, ownHome := filepath.Join(dir, "src"), filepath.Join(dir, "home")
	plain := func(dir string, args ...string) {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "protocol.file.allow=always", "-c", "user.name=u", "-c", "user.email=u@x"}, args...)...)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C"}
		out, err := cmd.CombinedOutput()
		require.NoError(rt, err, "git %v: %s", args, out)
	}
	require.NoError(rt, os.MkdirAll(ownHome, 0o755))
	require.NotEmpty(rt, os.Getenv(mark), "a world is made in ownEtc only: it replaces a file of the machine")
	require.NoError(rt, os.RemoveAll("/etc/gitconfig"))
	plain(dir, "init", "-q", "-b", "main", "src")
	project = src
	common := filepath.Join(src, ".git")
	require.NoError(rt, writeAll(src, w.ours, project, ownHome))
	plain(src, "add", "-A", "-f")
	plain(src, "commit", "-qm", "first")
	if w.module != "" {
		plain(dir, "init", "-q", "-b", "main", "lib")
		require.NoError(rt, writeAll(filepath.Join(dir, "lib"), map[string]string{"l.txt": "l\n"}, "", ""))
		plain(filepath.Join(dir, "lib"), "add", "-A")
		plain(filepath.Join(dir, "lib"), "commit", "-qm", "lib")
		plain(src, "submodule", "--quiet", "add", filepath.Join(dir, "lib"), "lib")
		plain(src, "commit", "-qm", "lib")
		if w.module == "empty" {
			plain(src, "submodule", "--quiet", "deinit", "-f", "lib")
			require.NoError(rt, os.RemoveAll(filepath.Join(common, "modules/lib")))
		}
	}
	for _, ref := range w.refs {
		plain(src, "update-ref", ref, "HEAD")
	}
	gitDir := common
	switch {
	case w.bare:
		plain(dir, "clone", "-q", "--bare", "src", "hub.git")
		plain(filepath.Join(dir, "hub.git"), "worktree", "add", "-q", "../wt", "main")
		common = filepath.Join(dir, "hub.git")
	case w.linked:
		plain(src, "checkout", "-q", "--detach")
		plain(src, "worktree", "add", "-q", "../wt", "main")
	}
	if w.linked {
		project, gitDir = filepath.Join(dir, "wt"), filepath.Join(common, "worktrees/wt")
	}
	require.NoError(rt, writeAll(ownHome, w.files, project, ownHome))
	require.NoError(rt, writeAll(ownHome, refusedFiles, project, ownHome))
	require.NoError(rt, writeAll(common, w.local, project, ownHome))
	for place, file := range map[string]string{"system": "/etc/gitconfig", "global": ownHome + "/.gitconfig", "xdg": ownHome + "/.config/git/config",
		"local": filepath.Join(common, "config"), "worktree": filepath.Join(gitDir, "config.worktree")} {
		if w.config[place] == "" {
			continue
		}
		require.NoError(rt, os.MkdirAll(filepath.Dir(file), 0o755))
		old, _ := os.ReadFile(file)                                                                           //nolint:errcheck // there may be none
		require.NoError(rt, os.WriteFile(file, append(old, at(w.config[place], project, ownHome)...), 0o644)) //nolint:gosec // as git's own
	}
	owner = caller{dir: project, home: ownHome}
	run := func(args ...string) {
		_, err := owner.git(t.Context(), "", args...)
		require.NoError(rt, err, "%+v", w)
	}
	if w.sparse {
		run("sparse-checkout", "set", "--no-cone", "/a.txt", "/dir/")
	}
	for name := range w.ours {
		_ = os.Remove(filepath.Join(project, name)) // a sparse checkout has not all
	}
	run("checkout", "-f", "-q", "HEAD", "--", ".")
	if w.before != "" {
		cmd := exec.CommandContext(t.Context(), "bash", "-ec", w.before)
		cmd.Dir, cmd.Env = project, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + ownHome, "GIT_AUTHOR_NAME=u", "GIT_AUTHOR_EMAIL=u@x", "GIT_COMMITTER_NAME=u", "GIT_COMMITTER_EMAIL=u@x"}
		out, err := cmd.CombinedOutput()
		require.NoError(rt, err, "%s: %s", w.before, out)
	}
	return project, owner
}
