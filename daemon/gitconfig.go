package daemon

import (
	"fmt"
	"path"
	"strings"

	"polis/daemon/agent"
	"polis/daemon/config"
)

// gitConfig is what git of an agent's worktree is told beyond the agent's own
// configuration: who its commits are by, if polisd.toml says so, and the
// project's remotes, which it reaches through the daemon.
func gitConfig(id config.Identity, remotes []agent.Remote) string {
	var b strings.Builder
	b.WriteString("# Written by polis at every start of the agent.\n")
	if id.Name != "" || id.Email != "" {
		b.WriteString("[user]\n")
	}
	if id.Name != "" {
		fmt.Fprintf(&b, "\tname = %s\n", quoteConfig(id.Name))
	}
	if id.Email != "" {
		fmt.Fprintf(&b, "\temail = %s\n", quoteConfig(id.Email))
	}
	for _, r := range remotes {
		fmt.Fprintf(&b, "[remote %s]\n\turl = %s\n\tvcs = polis\n\tfetch = %s\n", quoteConfig(r.Name), quoteConfig(r.URL),
			quoteConfig("+refs/heads/*:"+path.Join("refs/remotes", r.Name)+"/*"))
	}
	return b.String()
}

// globQuote makes a path a pattern, of filepath.Match, that matches it alone.
func globQuote(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}
