package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	// block is a block of commands of a page, and what only the test runs.
	block  = regexp.MustCompile("(?s)```sh\n(.*?)```|<!-- test: (.*?) -->")
	mdLink = regexp.MustCompile(`\]\(([^)#: ]+)(#[^)]*)?\)`)
)

// guide calls f with each page of docs/guide that has commands, and with the commands.
func guide(t *testing.T, f func(t *testing.T, page string, scripts []string)) {
	t.Helper()
	pages, err := filepath.Glob("../docs/guide/*.md")
	require.NoError(t, err)
	require.Greater(t, len(pages), 6)
	ran := 0
	for _, page := range pages {
		var scripts []string
		for _, b := range block.FindAllStringSubmatch(readFile(page), -1) {
			scripts = append(scripts, b[1]+b[2])
		}
		if len(scripts) == 0 {
			continue
		}
		t.Run(filepath.Base(page), func(t *testing.T) {
			f(t, filepath.Base(page), scripts)
			ran += len(scripts)
		})
	}
	require.Greater(t, ran, 15)
}

// claudeOfTheGuide is the program of an agent that commits something for every task.
const claudeOfTheGuide = "#!/bin/sh\ndate +%N >> by-claude.txt; git add by-claude.txt; git -c user.name=c -c user.email=c@example.org commit -qm work\n"

// TestGuide runs every command of the pages in docs/guide, each page in a project of its own.
func TestGuide(t *testing.T) {
	guide(t, func(t *testing.T, page string, scripts []string) {
		o := standIns(t, "claude")
		dir := strings.Split(o.box, `"`)[1]
		require.NoError(t, os.Remove(filepath.Join(dir, "claude")))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "claude"), []byte(claudeOfTheGuide), 0o755))
		d := startDaemon(t, o)
		repo := d.path("own")
		tools := d.guideTools()
		run := func(script string) {
			cmd := exec.CommandContext(t.Context(), "bash", "-ec", d.hereInTheTest(script))
			cmd.Dir = repo
			cmd.Env = append(os.Environ(), "PATH="+tools+":"+d.bin+":"+os.Getenv("PATH"), "POLIS_SOCKET="+d.path("run", "polisd.sock"), "HOME="+d.dir)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s\n%s\n%s", script, out, d.log())
		}
		require.NoError(t, os.MkdirAll(filepath.Join(repo, "secret"), 0o755))
		run("git init -q -b main && echo one > main.txt && echo secret > secret/key.txt && mkdir src && echo a > src/a.txt && git add . && git -c user.name=x -c user.email=x@y commit -qm start")
		if page != "quickstart.md" {
			run("polisctl up")
		}
		if page == "without-systemd.md" { // it starts polisd itself
			d.stop()
			t.Cleanup(d.stopOther)
		}
		for _, s := range scripts {
			run(s)
		}
	})
}

// guideTools makes the programs that pages run and that are others in the test: sudo, of root, and polisd, with
// the configuration of the test. It returns their directory.
func (d *daemon) guideTools() string {
	d.t.Helper()
	dir := d.path("tools")
	require.NoError(d.t, os.Mkdir(dir, 0o755))
	for name, command := range map[string]string{"sudo": `"$@"`, "polisd": fmt.Sprintf(`%s --config %s "$@"`, filepath.Join(d.bin, "polisd"), d.path("polisd.toml"))} {
		require.NoError(d.t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\nexec "+command+"\n"), 0o755))
	}
	return dir
}

// hereInTheTest replaces the files of polisd in a script of a page by those of the test's polisd.
func (d *daemon) hereInTheTest(script string) string {
	return strings.NewReplacer("/run/polis/polisd.lock", d.path("run", "polisd.lock"), "/var/log/polisd.log", d.path("polisd.log")).Replace(script)
}

// stopOther stops a polisd of the test's configuration that the test did not start as its child.
func (d *daemon) stopOther() {
	lock := d.path("run", "polisd.lock")
	if free(d.t, lock) {
		return
	}
	pid, err := strconv.Atoi(strings.SplitN(readFile(lock), "\n", 2)[0])
	require.NoError(d.t, err)
	require.NoError(d.t, syscall.Kill(pid, syscall.SIGTERM))
	d.eventually("polisd to end", func() bool { return free(d.t, lock) })
}

// TestLinksOfThePages: every relative link in the documentation leads to a file.
func TestLinksOfThePages(t *testing.T) {
	var pages []string
	for _, p := range []string{"../*.md", "../docs/*.md", "../docs/guide/*.md"} {
		found, err := filepath.Glob(p)
		require.NoError(t, err)
		pages = append(pages, found...)
	}
	links := 0
	for _, page := range pages {
		for _, m := range mdLink.FindAllStringSubmatch(readFile(page), -1) {
			links++
			target := filepath.Join(filepath.Dir(page), m[1])
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: the link %s leads nowhere", page, m[1])
				continue
			}
			if m[2] != "" && strings.HasSuffix(target, ".md") && !hasAnchor(readFile(target), m[2][1:]) {
				t.Errorf("%s: %s has no heading %s", page, m[1], m[2])
			}
		}
	}
	require.Greater(t, links, 40)
}

// hasAnchor reports whether a page has a heading with the name that forges give it.
func hasAnchor(page, anchor string) bool {
	for line := range strings.Lines(page) {
		if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			name := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
			if strings.ReplaceAll(name, " ", "-") == anchor {
				return true
			}
		}
	}
	return false
}
