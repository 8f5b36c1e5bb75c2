package corpus

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Options set the size of the repository.
type Options struct {
	GoRoot string
	// Only are the directories of GoRoot/src to take; none means all.
	Only []string
	// History is the number of commits after the first; Changed the number of
	// files the other branch differs in.
	History, Changed int
	// Long is the number of commits of the branch "long", all packed.
	Long int
}

// Corpus is a repository that was made.
type Corpus struct {
	Dir string
	// Head, Other and Long are commits: the tips of main and of the branches
	// "other" and "long".
	Head, Other, Long string
	Files             int
}

type maker struct {
	ctx   context.Context
	dir   string
	clock time.Time
}

// Make fills dir, which must not exist. Module is the directory in it that
// builds with "go build ./...".
func Make(ctx context.Context, dir string, o Options) (Corpus, error) {
	m := &maker{ctx: ctx, dir: dir, clock: time.Unix(1735725600, 0)}
	c := Corpus{Dir: dir}
	files, err := m.copy(o)
	if err != nil {
		return c, fmt.Errorf("make the corpus: %w", err)
	}
	c.Files = len(files)
	if o.Changed > len(files) {
		return c, fmt.Errorf("make the corpus: %d files cannot differ, there are %d", o.Changed, len(files))
	}
	if err := m.history(files, o); err != nil {
		return c, fmt.Errorf("make the corpus: %w", err)
	}
	for rev, to := range map[string]*string{"main": &c.Head, "other": &c.Other, "long": &c.Long} {
		if *to, err = m.git("rev-parse", rev); err != nil {
			return c, fmt.Errorf("make the corpus: %w", err)
		}
	}
	return c, nil
}

// history makes the commits of main, packs them, and leaves what the last few
// of them and the branch "other" bring as loose objects.
func (m *maker) history(files []string, o Options) error {
	if _, err := m.git("init", "-q", "-b", "main", "."); err != nil {
		return err
	}
	if err := m.commit("Take the sources"); err != nil {
		return err
	}
	if err := m.long(o.Long); err != nil {
		return err
	}
	const each, loose = 12, 5
	for i := range o.History {
		if i == o.History-loose {
			if _, err := m.git("repack", "-adq"); err != nil {
				return err
			}
		}
		for j := range each {
			if err := appendTo(files[(i*each+j)*7%len(files)], fmt.Sprintf("// change %d\n", i)); err != nil {
				return err
			}
		}
		if err := m.commit(fmt.Sprintf("Change %d files, the %d. time", each, i+1)); err != nil {
			return err
		}
	}
	if _, err := m.git("checkout", "-q", "-b", "other"); err != nil {
		return err
	}
	for i := range o.Changed {
		if err := appendTo(files[i*len(files)/o.Changed], "// the other branch\n"); err != nil {
			return err
		}
	}
	if err := m.commit("Change many files"); err != nil {
		return err
	}
	_, err := m.git("checkout", "-q", "main")
	return err
}

// long makes a branch with many commits that all have the same files.
func (m *maker) long(n int) error {
	var in strings.Builder
	for i := range n {
		msg := fmt.Sprintf("Change nothing, the %d. time\n\nThat is all.\n", i+1)
		fmt.Fprintf(&in, "commit refs/heads/long\ncommitter Bench <bench@example.com> %d +0000\ndata %d\n%s", m.clock.Unix()+int64(i), len(msg), msg)
		if i == 0 {
			in.WriteString("from refs/heads/main^0\n")
		}
		in.WriteString("\n")
	}
	if n == 0 {
		_, err := m.git("branch", "long", "main")
		return err
	}
	_, err := m.feed(in.String(), "fast-import", "--quiet")
	return err
}

func appendTo(file, text string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}

func (m *maker) commit(msg string) error {
	m.clock = m.clock.Add(time.Hour)
	if _, err := m.git("add", "-A"); err != nil {
		return err
	}
	_, err := m.git("commit", "-q", "-m", msg)
	return err
}

func (m *maker) git(args ...string) (string, error) { return m.feed("", args...) }

// feed runs git with something on its standard input.
func (m *maker) feed(in string, args ...string) (string, error) {
	date := fmt.Sprintf("@%d +0000", m.clock.Unix())
	cmd := exec.CommandContext(m.ctx, "git", append([]string{
		"-c", "user.name=Bench", "-c", "user.email=bench@example.com",
		"-c", "commit.gpgsign=false", "-c", "gc.auto=0", "-c", "safe.directory=*", "-C", m.dir,
	}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_DATE="+date, "GIT_COMMITTER_DATE="+date)
	cmd.Stdin = strings.NewReader(in)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// Give changes the owner and group of a tree, and of its symlinks.
func Give(dir string, uid, gid int) error {
	return filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(p, uid, gid)
	})
}
