package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "polis"

type pkg struct {
	ImportPath   string
	Dir          string
	GoFiles      []string
	CgoFiles     []string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

func (p pkg) rel() string { return strings.TrimPrefix(p.ImportPath, module+"/") }

func root(t *testing.T) string {
	dir, err := filepath.Abs("../..")
	require.NoError(t, err)
	return dir
}

// list queries go about packages, in the environment of a build of them.
func list(t *testing.T, cgo string, patterns ...string) []pkg {
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-json=ImportPath,Dir,GoFiles,CgoFiles,Imports,TestImports,XTestImports,Deps", "-tags", "seccomp"}, patterns...)...)
	cmd.Dir = root(t)
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	var pkgs []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return pkgs
		}
		require.NoError(t, err)
		pkgs = append(pkgs, p)
	}
}

func under(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

func underAny(path string, dirs ...string) bool {
	for _, d := range dirs {
		if under(path, d) {
			return true
		}
	}
	return false
}

// A rule forbids the packages below from, except those below except, to import the packages below
// never. They may import what is below but. why is the reason.
type rule struct {
	from, except []string
	but          []string
	never        []string
	why          string
}

var rules = []rule{
	{from: []string{"polis"}, except: []string{"polis/cgroup/sandbox", "polis/cmd/polis-shim"},
		never: []string{"github.com/opencontainers/runc"},
		why:   "libcontainer is cgo, re-executes its program and belongs to the sandbox alone"},
	{from: []string{"polis"}, except: []string{"polis/cgroup", "polis/cmd/polis-shim"},
		never: []string{"github.com/opencontainers/cgroups"},
		why:   "only package cgroup manages control groups"},
	{from: []string{"polis"}, except: []string{"polis/fusefs", "polis/e2e/bench/nullfs"},
		never: []string{"github.com/hanwen/go-fuse"},
		why:   "only package fusefs, and the benchmark's floor, speak the FUSE protocol"},
	{from: []string{"polis"}, except: []string{"polis/netbridge"},
		never: []string{"github.com/vishvananda", "github.com/google/nftables", "github.com/miekg/dns"},
		why:   "only package netbridge makes links and rules, and serves names"},
	{from: []string{"polis"}, except: []string{"polis/cmd/polisctl"},
		never: []string{"github.com/spf13/cobra"},
		why:   "only the command line has a command line library"},
	{from: []string{"polis"}, except: []string{"polis/cmd/polis-tui"},
		but:   []string{"github.com/charmbracelet/x/ansi"}, // the names of escape sequences
		never: []string{"charm.land", "github.com/charmbracelet"},
		why:   "only the screen draws one"},
	{from: []string{"polis"}, except: []string{"polis/cmd/polis-tui", "polis/cmd/polisctl", "polis/internal/picture"},
		never: []string{"github.com/charmbracelet/x/ansi"},
		why:   "only programs write to terminals"},
	{from: []string{"polis"}, except: []string{"polis/cmd/polis-adapter", "polis/e2e/acpagent"},
		never: []string{"github.com/modelcontextprotocol", "github.com/coder/acp-go-sdk"},
		why:   "only the adapter speaks the protocols of agents' programs"},
	{from: []string{"polis/fusefs", "polis/lockd", "polis/netbridge", "polis/cgroup"},
		never: []string{"polis/daemon", "polis/cmd"},
		why:   "a leaf knows one kernel thing and no agent"},
	{from: []string{"polis/fusefs"}, never: []string{"polis/lockd", "polis/netbridge", "polis/cgroup"}, why: "leaves do not know each other"},
	{from: []string{"polis/fusefs/backing", "polis/fusefs/inode", "polis/fusefs/openfile", "polis/fusefs/overlay"},
		never: []string{"polis/fusefs/conn", "polis/fusefs/view", "polis/fusefs/gitdir", "polis/fusefs/policy"},
		why:   "only the gate answers the kernel, and only it knows rules"},
	{from: []string{"polis/lockd"}, never: []string{"polis/fusefs", "polis/netbridge", "polis/cgroup"}, why: "leaves do not know each other"},
	{from: []string{"polis/netbridge"}, never: []string{"polis/fusefs", "polis/lockd", "polis/cgroup"}, why: "leaves do not know each other"},
	{from: []string{"polis/cgroup"}, but: []string{"polis/fusefs/fdtree"}, never: []string{"polis/fusefs", "polis/lockd", "polis/netbridge"}, why: "leaves do not know each other"},
	{from: []string{"polis/daemon/api", "polis/daemon/rules", "polis/daemon/git", "polis/daemon/history", "polis/daemon/patrol", "polis/daemon/merge", "polis/daemon/agent", "polis/daemon/workspace", "polis/daemon/shim/job"},
		except: []string{"polis/daemon/git/gitgroup", "polis/daemon/git/leases"},                                                                     // git's own control group; git's locks in the table
		but:    []string{"polis/fusefs/fdtree", "polis/fusefs/gitdir/fsck", "polis/fusefs/pathset", "polis/fusefs/policy", "polis/netbridge/egress"}, // rules, names and formats: they change nothing
		never:  []string{"polis/fusefs", "polis/lockd", "polis/netbridge", "polis/cgroup", "polis/daemon/host/launcher"},
		why:    "a brain knows rules and no kernel"},
	{from: []string{"polis"}, except: []string{"polis/internal/kmsg", "polis/internal/sessionbus"}, never: []string{"polis/internal/need", "polis/internal/sessionbus", "polis/internal/kmsg", "polis/internal/picture"}, why: "only tests may end a test, or draw for the documentation"},
	{from: []string{"polis/daemon/host/cage", "polis/daemon/host/procstat"}, never: []string{"polis"}, why: "it knows one kernel thing, no agent and no git"},
	{from: []string{"polis/daemon/gateway"}, never: []string{"polis/fusefs", "polis/lockd", "polis/netbridge", "polis/cgroup", "polis/daemon/agent", "polis/daemon/host/launcher"},
		why: "the gateway knows services and HTTP, no kernel and no agent"},
	{from: []string{"polis/daemon/api/setting"}, never: []string{"polis"}, why: "values depend on nothing"},
	{from: []string{"polis/daemon/host/relisten"}, but: []string{"polis/daemon/host/acl", "polis/daemon/api"}, never: []string{"polis"}, why: "it knows sockets and directories, and nothing of who answers there"},
	{from: []string{"polis/daemon/host/acl"}, never: []string{"polis"}, why: "it knows one format of the kernel"},
	{from: []string{"polis/daemon/host/private"}, but: []string{"polis/daemon/host/acl"}, never: []string{"polis"}, why: "it knows directories, and nothing of what is in them"},
	{from: []string{"polis/daemon/api"}, except: []string{"polis/daemon/api/wire"}, never: []string{"polis"}, why: "the words depend on nothing"},
	{from: []string{"polis/daemon/api/wire"}, but: []string{"polis/daemon/api", "polis/internal/pinned"}, never: []string{"polis"}, why: "a protocol has words, and the record of a project"},
	{from: []string{"polis/daemon/config"}, never: []string{"polis/daemon/api/wire"}, why: "the configuration knows no protocol"},
	{from: []string{"polis/cmd/polisctl"}, never: []string{"polis/cmd/polis-tui", "polis/cmd/polis-adapter", "polis/cmd/polis-tools", "github.com/modelcontextprotocol", "github.com/coder/acp-go-sdk", "github.com/spf13/cobra/doc"},
		why: "every verb would pay for what draws the screen or makes the manual"},
	{from: []string{"polis/cmd/polisctl", "polis/cmd/polis-tools", "polis/cmd/polis-tui", "polis/cmd/polis-adapter"}, except: []string{"polis/daemon/api", "polis/daemon/http/client"},
		never: []string{"polis/fusefs", "polis/lockd", "polis/netbridge", "polis/cgroup", "polis/daemon/agent", "polis/daemon/store", "polis/daemon/git"},
		why:   "the command line speaks to the daemon, it does not do the daemon's work"},
	{from: []string{"polis/daemon", "polis/fusefs", "polis/lockd", "polis/netbridge", "polis/cgroup"},
		never: []string{"polis/cmd", "polis/e2e"}, why: "programs are doors, nothing is built on a door"},
}

func TestImportsFollowTheRules(t *testing.T) {
	for _, p := range list(t, "1", "./...") {
		for _, r := range rules {
			if !underAny(p.ImportPath, r.from...) || underAny(p.ImportPath, r.except...) || under(p.ImportPath, "polis/internal_deps") {
				continue
			}
			for _, imp := range p.Imports {
				if underAny(imp, r.never...) && !underAny(imp, r.but...) && !under(imp, p.ImportPath) && !(under(p.ImportPath, imp) && imp != module) {
					t.Errorf("%s imports %s: %s", p.ImportPath, imp, r.why)
				}
			}
		}
	}
}

// TestProgramsLink checks every package that a program links, not only its direct imports.
func TestProgramsLink(t *testing.T) {
	pure := []string{"github.com/opencontainers/runc", "github.com/hanwen/go-fuse", "github.com/seccomp", "polis/cgroup/sandbox", "polis/fusefs", "runtime/cgo"}
	for _, c := range []struct {
		program string
		never   []string
		except  []string
	}{
		// The parts of fusefs that serve no request (rules, names, a switch, a mount) may be shared.
		{"./cmd/polisd", pure, []string{"polis/fusefs/policy", "polis/fusefs/gitdir", "polis/fusefs/shared", "polis/fusefs/idmap", "polis/fusefs/fuseuring", "polis/fusefs/fdtree", "polis/fusefs/fusectl", "polis/fusefs/overlayfs", "polis/fusefs/pathset", "polis/fusefs/ignore"}},
		{"./cmd/polisctl", append(pure, "polis/lockd", "polis/netbridge", "polis/cgroup", "github.com/google/nftables"), nil},
	} {
		p := list(t, "0", c.program)
		require.Len(t, p, 1)
		for _, dep := range p[0].Deps {
			if underAny(dep, c.never...) && !underAny(dep, c.except...) {
				t.Errorf("%s links %s", c.program, dep)
			}
		}
	}
}

// TestEveryPackageIsDocumented requires a doc.go in every package. The comment of a program may be
// in main.go.
func TestEveryPackageIsDocumented(t *testing.T) {
	for _, p := range list(t, "1", "./...") {
		if len(p.GoFiles)+len(p.CgoFiles) == 0 || p.rel() == "internal_deps" {
			continue
		}
		doc := "doc.go"
		if strings.HasPrefix(p.rel(), "cmd/") && strings.Count(p.rel(), "/") == 1 {
			doc = "main.go"
			if _, err := os.Stat(filepath.Join(p.Dir, "doc.go")); err == nil {
				doc = "doc.go"
			}
		}
		b, err := os.ReadFile(filepath.Join(p.Dir, doc))
		if err != nil {
			t.Errorf("%s has no %s", p.ImportPath, doc)
			continue
		}
		want := "// Package "
		if strings.HasPrefix(p.rel(), "cmd/") && strings.Count(p.rel(), "/") == 1 {
			want = "// "
		}
		if !bytes.HasPrefix(b, []byte(want)) && !bytes.Contains(b, []byte("\n"+want)) {
			t.Errorf("%s: %s has no package comment", p.ImportPath, doc)
		}
	}
}

// TestMainsAreThin: a program parses flags, calls one function and exits.
func TestMainsAreThin(t *testing.T) {
	for _, name := range []string{"polisd", "polis-shim", "polisctl", "polis-tools"} {
		b, err := os.ReadFile(filepath.Join(root(t), "cmd", name, "main.go"))
		require.NoError(t, err)
		require.LessOrEqual(t, bytes.Count(b, []byte("\n")), 250, "cmd/%s/main.go", name)
	}
}

// TestFilesStayReadable: a file of more than 300 lines is split.
func TestFilesStayReadable(t *testing.T) {
	for _, p := range list(t, "1", "./...") {
		for _, f := range append(p.GoFiles, p.CgoFiles...) {
			b, err := os.ReadFile(filepath.Join(p.Dir, f))
			require.NoError(t, err)
			if n := bytes.Count(b, []byte("\n")); n > 300 {
				t.Errorf("%s/%s has %d lines: split it", p.rel(), f, n)
			}
		}
	}
}

// TestTreeNamesNoMachine: no committed file names the directory of this clone, because a clone must
// work in any directory.
func TestTreeNamesNoMachine(t *testing.T) {
	dir := root(t)
	cmd := exec.CommandContext(t.Context(), "git", "-c", "safe.directory=*", "grep", "-lF", "--", dir+"/")
	cmd.Dir = dir
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return // nothing found
	}
	if errors.As(err, &exit) && exit.ExitCode() == 128 {
		t.Skip("not a git checkout")
	}
	require.NoError(t, err)
	t.Errorf("these files name %s: %s", dir, strings.Fields(string(out)))
}

// TestPureProgramsBuildWithoutCgo, as the installation requires.
func TestPureProgramsBuildWithoutCgo(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "vet", "./cmd/polisd", "./cmd/polisctl")
	cmd.Dir = root(t)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}
