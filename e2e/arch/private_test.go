package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// open lists the files whose functions make something for others than its owner, with the reason why another user of
// the machine cannot reach it, or may. Package private makes the directories around it.
var open = map[string]string{
	"cgroup/group.go":                       "control groups, which have no content of a project",
	"cgroup/membership.go":                  "as above",
	"cgroup/sandbox/files.go":               "read in the sandbox; below an agent's run directory",
	"cgroup/sandbox/rootfs.go":              "as above",
	"daemon/http/server/listen.go":          "the socket of the group polis",
	"daemon/git/base/checkout.go":           "the root of a checkout; below .polis/bases",
	"daemon/merge/conflictwatch/watcher.go": "the owner's git passes it; below .polis",
	"daemon/agent/environment/spec.go":      "where the view of a plain project is mounted; below .polis/worktrees. It can be a view already",
	"daemon/git/filtered/pack.go":           "objects that agents read; below .polis",
	"daemon/git/publish.go":                 "a directory of objects, as git makes it; in the shared repository",
	"daemon/git/under.go":                   "in a mount namespace that one git has",
	"daemon/repo.go":                        "as daemon/agent/environment/spec.go",
	"daemon/agent/setup/collect.go":         "what agents see; below .polis/setups",
	"daemon/shim/githooks.go":               "below /run/polis of the sandbox",
	"daemon/shim/gitview.go":                "a mount point; below an agent's run directory",
	"daemon/shim/inside.go":                 "/run/polis of the sandbox; below an agent's run directory",
	"daemon/shim/managed.go":                "read in the sandbox; below an agent's run directory",
	"daemon/shim/managedcopy.go":            "read in the sandbox; below an agent's run directory",
	"daemon/shim/npm.go":                    "as above",
	"daemon/shim/remote.go":                 "as above",
	"daemon/shim/sandbox.go":                "as above",
	"daemon/shim/sockets.go":                "the socket of the group polis; below an agent's run directory",
	"daemon/shim/snapshots.go":              "a mount point that the user named; the mounted directory has mode 0750",
	"daemon/workspace.go":                   "the directory of a workspace that the user named: it holds two names",
	"daemon/git/worktree/add.go":            "the root of a worktree, as git makes it; below .polis/worktrees",
	"daemon/git/worktree/admin.go":          "a part of the git directory, as git makes it; in the shared repository",
	"daemon/git/worktree/copylayers.go":     "the root of a worktree; below .polis/layers",
	"daemon/git/worktree/internal.go":       "in a repository of mode 0700",
	"daemon/git/worktree/link.go":           "a part of the git directory; in the shared repository",
	"daemon/git/worktree/markedindex.go":    "as above",
	"daemon/git/worktree/place.go":          "in a repository that gets mode 0700",
	"daemon/git/worktree/restore.go":        "files of a worktree",
	"daemon/git/worktree/setup.go":          "directories that the setup command sees; below .polis/setups",
	"daemon/git/worktree/shared.go":         "in a repository that gets mode 0700",
	"daemon/git/worktree/up.go":             "as daemon/workspace.go",
	"daemon/git/worktree/sparse.go":         "a part of the git directory; in the shared repository",
	"fusefs/gitdir/prepare.go":              "in an agent's part of the git directory, of mode 0700",
	"netbridge/lock.go":                     "the directory of a lock file, which is the system's",
}

// makers are the calls that make a file or a directory, or change its mode.
var makers = map[string]bool{"Mkdir": true, "MkdirAll": true, "Mkdirat": true, "WriteFile": true, "OpenFile": true, "Openat": true, "OpenAt": true,
	"Chmod": true, "Fchmod": true, "Fchmodat": true, "Mknod": true, "Mknodat": true, "Mkfifo": true, "Create": true}

// TestWhatPolisMakesIsPrivate: nothing is made for other users, with a mode that is written in the source, but what
// is listed with its reason.
func TestWhatPolisMakesIsPrivate(t *testing.T) {
	found := map[string]bool{}
	for _, p := range list(t, "1", "./daemon/...", "./fusefs/...", "./lockd/...", "./netbridge/...", "./cgroup/...", "./cmd/polisd/...", "./cmd/polis-shim/...") {
		if p.rel() == "daemon/host/private" {
			continue
		}
		for _, name := range append(p.GoFiles, p.CgoFiles...) {
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			where := p.rel() + "/" + name
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || !makesForOthers(call) {
					return true
				}
				found[where] = true
				if open[where] == "" {
					t.Errorf("%s: a mode for other users: call package private, use 0o600 or 0o700, or list the file with the reason", files.Position(call.Pos()))
				}
				return true
			})
		}
	}
	for where := range open {
		require.True(t, found[where], "%s is in the list and makes nothing for others any more", where)
	}
}

// makesForOthers reports whether a call has a mode with bits for group or others among its arguments. os.Create
// has them without saying so.
func makesForOthers(call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !makers[sel.Sel.Name] {
		return false
	}
	pkg, isPkg := sel.X.(*ast.Ident)
	if sel.Sel.Name == "Create" {
		return isPkg && pkg.Name == "os"
	}
	if len(call.Args) == 0 {
		return false
	}
	for _, arg := range call.Args[1:] {
		lit, ok := arg.(*ast.BasicLit)
		if !ok || lit.Kind != token.INT {
			continue
		}
		if mode, err := strconv.ParseUint(lit.Value, 0, 32); err == nil && len(lit.Value) >= 5 && lit.Value[:2] == "0o" && mode&0o077 != 0 {
			return true
		}
	}
	return false
}
