package worktree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"polis/daemon/api"
	"polis/daemon/git"
)

// maxIdent bounds a name or an address, in bytes.
const maxIdent = 256

// crud are the characters that git removes from the ends of a name or an address (ident.c).
const crud = " .,:;<>\"\\'"

// Identity returns the author and the committer of the owner's commits in the project, as git var prints them
// (GIT_AUTHOR_IDENT, GIT_COMMITTER_IDENT). If git would not let the owner commit, a name or an
// address that the configuration lacks is "". Agents get nothing else of the configuration.
func (o *OwnersGit) Identity(ctx context.Context) (git.Idents, error) {
	set := git.Idents{Author: o.person("author"), Committer: o.person("committer")}
	if plain(set.Author) && plain(set.Committer) {
		return set, nil // git prints it as it is: to start git is most of the cost
	}
	var ids git.Idents
	var errs [2]error
	var both sync.WaitGroup
	for i, to := range []*git.Person{&ids.Author, &ids.Committer} {
		both.Go(func() {
			var out []byte
			if out, errs[i] = o.p.Owners(ctx, o.home, "var", []string{"GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"}[i]); errs[i] == nil {
				*to, errs[i] = parseIdent(string(out))
			}
		})
	}
	both.Wait()
	err := errors.Join(errs[:]...)
	if code, ok := git.ExitCode(err); ok && code == 128 {
		return set, nil // something is missing
	}
	return ids, err
}

// person is a part of the identity as it is configured; what git would not commit with is "".
func (o *OwnersGit) person(role string) git.Person {
	of := func(key string) string {
		v := cmp.Or(o.last[role+"."+key].value, o.last["user."+key].value)
		if checkIdent(v) != nil {
			return ""
		}
		return v
	}
	return git.Person{Name: of("name"), Email: of("email")}
}

// plain reports whether git commits with exactly this.
func plain(p git.Person) bool {
	for _, s := range []string{p.Name, p.Email} {
		if s == "" || strings.Trim(s, crud) != s {
			return false
		}
	}
	return true
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
