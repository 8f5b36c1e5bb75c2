package merge

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"polis/daemon/git"
	"polis/daemon/git/worktree"
	"polis/daemon/merge/gate"
)

// conversions are what the git of the project's owner does with the content of files between the repository
// and the checkout: filters, line endings, encodings. The configuration is read as data, with the rights of
// the owner, from everywhere git reads it: of the system, of the owner, of the project, with what they include.
type conversions struct {
	home    string
	drivers map[string]bool // names of configured filters
	// config has polis' git convert as the owner's does, and run no filter.
	config []string
}

// conversionsOf reads the conversions of a project. home is that of its owner; "" if it is not known.
func conversionsOf(ctx context.Context, p *worktree.Project, home string) (*conversions, error) {
	c := &conversions{home: home, drivers: map[string]bool{}}
	out, err := p.Owners(ctx, home, "config", "-z", "--show-scope", "--get-regexp", `^(filter\..*\.(clean|smudge|process)|core\.(autocrlf|eol|attributesfile))$`)
	if code, ok := git.ExitCode(err); err != nil && (!ok || code != 1) {
		return nil, fmt.Errorf("read the configuration of the project's owner: %w", err)
	}
	values := map[string]string{}
	fields := git.SplitNUL(out)
	for i := 0; i+1 < len(fields); i += 2 {
		key, value, set := strings.Cut(fields[i+1], "\n")
		if fields[i] == "command" { // polis' own
			continue
		}
		if !set {
			value = "true"
		}
		if name, ok := strings.CutPrefix(key, "filter."); ok {
			name = name[:strings.LastIndexByte(name, '.')]
			c.drivers[name] = c.drivers[name] || value != ""
			continue
		}
		values[key] = value // the last one counts
	}
	if strings.TrimSpace(values["core.attributesfile"]) == "" && home != "" {
		values["core.attributesfile"] = filepath.Join(home, ".config/git/attributes")
	}
	if rest, ok := strings.CutPrefix(values["core.attributesfile"], "~/"); ok {
		values["core.attributesfile"] = filepath.Join(home, rest)
	}
	for key, value := range values {
		if value != "" {
			c.config = append(c.config, key+"="+value)
		}
	}
	for name := range c.drivers {
		for _, part := range []string{"clean=", "smudge=", "process=", "required=false"} {
			c.config = append(c.config, "filter."+name+"."+part)
		}
	}
	slices.Sort(c.config)
	return c, nil
}

// inside is a command in the project's working tree that converts as the owner's git does.
func (c *conversions) inside(p *worktree.Project, args ...string) git.Cmd {
	cmd := inside(p, args...)
	cmd.Config, cmd.Env = c.config, []string{"GIT_ATTR_NOSYSTEM=0"}
	return cmd
}

// filtered returns those of names to which a filter of the owner applies, with its name.
func (c *conversions) filtered(ctx context.Context, p *worktree.Project, names []string) (map[string]string, error) {
	out := map[string]string{}
	if len(c.drivers) == 0 || len(names) == 0 {
		return out, nil
	}
	cmd := c.inside(p, "check-attr", "-z", "--stdin", "filter")
	cmd.Stdin = strings.NewReader(strings.Join(names, "\x00") + "\x00")
	text, err := p.Do(ctx, cmd)
	if err != nil {
		return nil, fmt.Errorf("find the filters of the project's owner: %w", err)
	}
	f := git.SplitNUL(text)
	for i := 0; i+2 < len(f); i += 3 {
		if c.drivers[f[i+2]] {
			out[f[i]] = f[i+2]
		}
	}
	return out, nil
}

// refuse returns why a merge cannot be checked out: a filter, which is a command, applies to what it changes. It
// is the user's own, but it would run on what agents wrote, without the user's consent.
func (c *conversions) refuse(ctx context.Context, p *worktree.Project, changes []gate.Change) error {
	for name := range c.drivers {
		if strings.ContainsAny(name, "=\n") {
			return fmt.Errorf("the configuration of git has a filter with an odd name (%q), which polis does not run", short(name))
		}
	}
	names := make([]string, 0, len(changes))
	for _, ch := range changes {
		if filepath.Base(ch.Path) == ".gitattributes" && len(c.drivers) > 0 {
			return fmt.Errorf("%q decides to which files the filters of your git apply (%s), which polis does not run", short(ch.Path), c.list())
		}
		if ch.New != gate.ModeGitlink && ch.New != gate.ModeLink {
			names = append(names, ch.Path)
		}
	}
	found, err := c.filtered(ctx, p, names)
	if err != nil {
		return err
	}
	for _, n := range names {
		if driver, ok := found[n]; ok {
			more := ""
			if len(found) > 1 {
				more = fmt.Sprintf(" and %d more", len(found)-1)
			}
			return fmt.Errorf("the filter %s of your git applies to %q%s, and polis does not run it", driver, short(n), more)
		}
	}
	return nil
}

func (c *conversions) list() string {
	var names []string
	for n := range c.drivers {
		names = append(names, n)
	}
	slices.Sort(names)
	return short(strings.Join(names, ", "))
}
