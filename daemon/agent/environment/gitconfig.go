package environment

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/git"
	"polis/daemon/git/filtered"
)

// gitConfig is the git configuration of an agent's worktree beyond the agent's own: the author of
// its commits, if polisd.toml sets one, and the project's remotes, which it reaches through the
// daemon.
//
// published is where it finds the shared objects if its rules withhold some; else "".
func gitConfig(id config.Identity, remotes []agent.Remote, published, hooks string) string {
	var b strings.Builder
	b.WriteString("# Written by polis at every start of the agent.\n")
	if id.Name != "" || id.Email != "" {
		for _, who := range []string{"user", "author", "committer"} { // each takes precedence over the first
			b.WriteString(git.ConfigPerson(who, git.Person(id)))
		}
	}
	for _, r := range remotes {
		fmt.Fprintf(&b, "[remote %s]\n\turl = %s\n\tvcs = polis\n\tfetch = %s\n", git.QuoteConfig(r.Name), git.QuoteConfig(r.URL),
			git.QuoteConfig("+refs/heads/*:"+path.Join("refs/remotes", r.Name)+"/*"))
	}
	if hooks != "" {
		fmt.Fprintf(&b, "[core]\n\thooksPath = %s\n", git.QuoteConfig(hooks))
	}
	if published != "" {
		fmt.Fprintf(&b, "%s[core]\n\texcludesFile = %s\n", filteredConfig, git.QuoteConfig(filepath.Join(published, filtered.ExcludeFile)))
	}
	return b.String()
}

// upstreamConfig is the configuration of what branches follow. It is in the agent's own configuration: git push -u changes it.
func upstreamConfig(list []agent.Upstream) string {
	var b strings.Builder
	for _, u := range list {
		fmt.Fprintf(&b, "[branch %s]\n\tremote = %s\n\tmerge = %s\n", git.QuoteConfig(u.Branch), git.QuoteConfig(u.Remote), git.QuoteConfig(u.Ref))
	}
	return b.String()
}

// sparseConfig is the configuration of a sparse checkout in cone mode. It is in the agent's own configuration: git
// sparse-checkout changes it there.
func sparseConfig(s *api.Sparse) string {
	if s == nil {
		return ""
	}
	return "[core]\n\tsparseCheckout = true\n\tsparseCheckoutCone = true\n"
}

// filteredConfig is for an agent whose rules withhold objects. They are missing as in a partial
// clone: git requests one, and gets an error that it is withheld. A withheld file is not checked
// out, and its index entry counts as unchanged: info/sparse-checkout names them. A merge prints
// no statistics, for which it would read them all. git would set the filter itself, which a read-only
// agent's cannot.
const filteredConfig = `[core]
	sparseCheckout = true
	sparseCheckoutCone = false
[sparse]
	expectFilesOutsideOfPatterns = true
[merge]
	stat = false
[remote "` + api.RemoteWithheld + `"]
	url = polis:objects
	vcs = polis
	promisor = true
	partialclonefilter = blob:none
	skipFetchAll = true
	skipDefaultUpdate = true
`
