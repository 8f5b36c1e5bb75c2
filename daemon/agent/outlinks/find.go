package outlinks

import (
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/history/policylearn"
	"polis/daemon/host/walk"
)

const (
	maxEntries = 2000 // of one directory
	maxLinks   = 20
	maxTarget  = 4096
)

// Link is a link that leads out of a sandbox.
type Link struct {
	// Path is relative to the project, Target is absolute.
	Path, Target string
}

// Find returns the links below dir, the directory of the project whose path is project, with targets that sees does not
// report, sorted by their paths, at most 20. A directory that cannot be read has none.
func Find(dir *os.File, project string, sees func(path string) bool) ([]Link, error) {
	names, err := list(dir, ".")
	if err != nil {
		return nil, err
	}
	var links []Link
	add := func(name string) {
		to, ok := readLink(dir, name)
		if !ok {
			return
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(project, path.Dir(name), to)
		}
		if to = filepath.Clean(to); len(links) < maxLinks && !within(project, to) && !sees(to) && !kernels(to) {
			links = append(links, Link{name, to})
		}
	}
	for _, name := range names {
		add(name)
		if !venv(dir, name) {
			continue
		}
		programs, err := list(dir, name+"/bin")
		if err != nil {
			return nil, err
		}
		for _, program := range programs {
			add(name + "/bin/" + program)
		}
	}
	return links, nil
}

// kernels reports whether a path is in a file system of the kernel, which every sandbox has.
func kernels(p string) bool {
	return slices.ContainsFunc([]string{"/proc", "/sys", "/dev"}, func(dir string) bool { return within(dir, p) })
}

func within(dir, p string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

func open(dir *os.File, name string, flags uint64) (*os.File, error) {
	return walk.Inside(dir, name, unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_NO_XDEV})
}

// list returns the names in a directory, sorted; none if it is no directory, or is not there.
func list(dir *os.File, name string) ([]string, error) {
	f, err := open(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK)
	if err != nil {
		return nil, ignoreOdd(err)
	}
	defer f.Close()
	names, err := f.Readdirnames(maxEntries)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	slices.Sort(names)
	return names, nil
}

// ignoreOdd drops the errors of what is something else, or what polisd must not read.
func ignoreOdd(err error) error {
	for _, odd := range []error{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EXDEV, unix.EACCES} {
		if errors.Is(err, odd) {
			return nil
		}
	}
	return err
}

// venv reports whether a directory is a virtual environment of Python.
func venv(dir *os.File, name string) bool {
	f, err := open(dir, name+"/pyvenv.cfg", unix.O_PATH)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

// readLink returns the text of a link; ok is false if name is none.
func readLink(dir *os.File, name string) (to string, ok bool) {
	f, err := open(dir, path.Dir(name), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return "", false
	}
	defer f.Close()
	buf := make([]byte, maxTarget)
	n, err := unix.Readlinkat(int(f.Fd()), path.Base(name), buf)
	if err != nil || n == 0 || n == len(buf) {
		return "", false
	}
	return string(buf[:n]), true
}

// tools are the directories in which version managers keep interpreters, with what these need.
var tools = []string{"/.local/share/uv", "/.local/share/mise", "/.local/share/pypoetry", "/.pyenv", "/.nvm", "/.asdf", "/.rye", "/.volta", "/miniconda3", "/anaconda3", "/miniforge3"}

// Source is what must be mounted in a sandbox for the link to lead somewhere: the directory of the version manager, the
// directory above bin of another program, or the target itself.
func (l Link) Source() string {
	for _, tool := range tools {
		if i := strings.Index(l.Target, tool+"/"); i >= 0 {
			return l.Target[:i+len(tool)]
		}
	}
	bin := filepath.Dir(l.Target)
	switch above := filepath.Dir(bin); {
	case filepath.Base(bin) != "bin":
		return l.Target
	case strings.Count(above, "/") < 3: // never all of a home
		return bin
	default:
		return above
	}
}

// Setting is the line of polisd.toml that mounts it.
func (l Link) Setting() string {
	s := policylearn.Quote(l.Source())
	return "extra_mounts = [{ source = " + s + ", dest = " + s + ", read_only = true }]"
}

// Hint says what the link means for agents and how it is mended.
func (l Link) Hint() string {
	return "it leads to " + policylearn.Quote(l.Target) + ", which sandboxes do not have; if agents may read it, [sandbox] of polisd.toml needs " + l.Setting() + ", or the table in the list that is there"
}

// Texts are the links for people: one line for all that one mount mends.
func Texts(links []Link) []string {
	var out []string
	seen := map[string]bool{}
	for _, l := range links {
		if s := l.Source(); !seen[s] {
			seen[s] = true
			out = append(out, policylearn.Quote(l.Path)+" is not found in agents: "+l.Hint())
		}
	}
	return out
}

// Why are the links as entries of what an agent was refused.
func Why(links []Link) []api.WhyEntry {
	out := make([]api.WhyEntry, 0, len(links))
	for _, l := range links {
		out = append(out, api.WhyEntry{Op: "open", Path: api.EncodePath(l.Path), Code: api.CodeNotFound, Errno: "ENOENT", Hint: l.Hint()})
	}
	return out
}

// Check is the check of doctor for a workspace.
func Check(workspace string, links []Link, err error) api.Check {
	c := api.Check{Name: "links of " + workspace, State: api.CheckOK, Found: "none leads out of the sandboxes"}
	switch texts := Texts(links); {
	case err != nil:
		c.State, c.Found, c.Cost, c.Fix = api.CheckWarn, err.Error(), "unknown whether programs and files that the project links to exist in agents", "make the project's directory readable for its owner"
		c.NoCommand = "what is in the way is not known, beside the error"
	case len(texts) > 0:
		c.State, c.Found, c.Cost, c.Fix = api.CheckWarn, strings.Join(texts, "; "), "what they lead to is not found in agents",
			"only if every agent of this machine may read what they lead to: add these mounts to sandbox.extra_mounts (polisctl config set), reload polisd, and restart the agents"
		c.NoCommand = "the list is one for all projects, and what agents may read is yours to decide; polisctl init, in the project, prints the command that adds what its links need"
	}
	return c
}
