package worktree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"polis/daemon/api"
	"polis/daemon/cage"
	"polis/daemon/git"
)

// Setting is one entry of a git configuration.
type Setting struct{ Key, Value string }

// Settings returns what agents get of the project's own configuration, in its order: the URLs of
// remotes. It starts git once.
func (p *Project) Settings(ctx context.Context) ([]Setting, error) {
	return p.settings(ctx, git.Cmd{Args: []string{"config", "--local", "-z", "--get-regexp", `^remote\..*\.url$`}})
}

// settings reads entries of the configuration; none is not an error.
func (p *Project) settings(ctx context.Context, cmd git.Cmd) ([]Setting, error) {
	out, err := p.Do(ctx, cmd)
	if code, ok := git.ExitCode(err); ok && code == 1 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []Setting
	for _, pair := range git.SplitNUL(out) {
		key, value, _ := strings.Cut(pair, "\n")
		list = append(list, Setting{key, value})
	}
	return list, nil
}

// Bounds of a command that reads the owner's configuration, which can include any file.
const (
	ownersTime = 10 * time.Second
	ownersData = 256 << 20 // bytes
	maxIdent   = 256       // bytes of a name or an address
)

// owners is a command that prints what the owner of the project, with this home, has configured. It is caged, and reads
// the configuration as data: of the system, of the owner, of the project and the worktree, with what they include, and as
// far as their conditions hold for the project. Without a home it reads that of the project.
func owners(home string, args ...string) git.Cmd {
	cmd := git.Cmd{Args: args, Timeout: ownersTime, Limits: &cage.Limits{Data: ownersData, CPU: ownersTime}, Home: home}
	if !filepath.IsAbs(home) {
		cmd.Home = "/nonexistent"
	}
	return cmd
}

// Identity returns the author and the committer of the owner's commits in the project, as git var prints them
// (GIT_AUTHOR_IDENT, GIT_COMMITTER_IDENT). home is that of the owner. If git would not let the owner commit, a name or an
// address that the configuration lacks is "". Agents get nothing else of the configuration.
func (p *Project) Identity(ctx context.Context, home string) (git.Idents, error) {
	var ids git.Idents
	var errs [2]error
	var both sync.WaitGroup // starting git is most of the cost
	for i, to := range []*git.Person{&ids.Author, &ids.Committer} {
		both.Go(func() {
			var out []byte
			if out, errs[i] = p.Do(ctx, owners(home, "var", []string{"GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"}[i])); errs[i] == nil {
				*to, errs[i] = parseIdent(string(out))
			}
		})
	}
	both.Wait()
	err := errors.Join(errs[:]...)
	if code, ok := git.ExitCode(err); !ok || code != 128 {
		return ids, err
	}
	// Something is missing: git has a name without an address, or neither.
	return p.configured(ctx, home)
}

// configured is the part of the owner's identity that is configured.
func (p *Project) configured(ctx context.Context, home string) (git.Idents, error) {
	list, err := p.settings(ctx, owners(home, "config", "-z", "--get-regexp", `^(user|author|committer)\.(name|email)$`))
	if err != nil {
		return git.Idents{}, fmt.Errorf("ask for the identity of the project's owner: %w", err)
	}
	found := map[string]string{}
	for _, s := range list { // the last one counts, as for git
		if checkIdent(s.Value) == nil { // git would not commit with it as it is
			found[s.Key] = s.Value
		}
	}
	of := func(role string) git.Person {
		return git.Person{Name: cmp.Or(found[role+".name"], found["user.name"]), Email: cmp.Or(found[role+".email"], found["user.email"])}
	}
	return git.Idents{Author: of("author"), Committer: of("committer")}, nil
}

// parseIdent parses "NAME <ADDRESS> SECONDS ZONE".
func parseIdent(line string) (git.Person, error) {
	line = strings.TrimSuffix(line, "\n")
	name, rest, ok := strings.Cut(line, " <")
	email, when, closed := strings.Cut(rest, "> ")
	if !ok || !closed || strings.Trim(when, "0123456789+- ") != "" || name == "" || email == "" {
		return git.Person{}, fmt.Errorf("git var: cannot read the identity %q", api.Shorten(line, 80))
	}
	if err := errors.Join(checkIdent(name), checkIdent(email)); err != nil {
		return git.Person{}, fmt.Errorf("the owner's identity of git is not used: %w", err)
	}
	return git.Person{Name: name, Email: email}, nil
}

// checkIdent refuses what does not fit the places that an identity is written to: commits, configurations, passwd(5).
func checkIdent(s string) error {
	switch {
	case len(s) > maxIdent:
		return fmt.Errorf("%q has more than %d bytes", api.Shorten(s, 80), maxIdent)
	case !utf8.ValidString(s):
		return fmt.Errorf("%q is not UTF-8", api.Shorten(s, 80))
	case strings.ContainsAny(s, "<>") || strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("%q has an angle bracket or a control character", api.Shorten(s, 80))
	}
	return nil
}
