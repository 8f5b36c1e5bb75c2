package leases

import (
	"slices"
	"strings"

	"polis/lockd"
)

// Keeps reports whether an explicit lock outlives a restart of polisd. The daemon's own operations
// end with it.
func Keeps(l lockd.Lease) bool { return !strings.HasPrefix(l.Holder, DaemonHolder) }

// Surviving returns the explicit locks of an earlier polisd that still hold. alive are the agents
// whose shims run. A lock in an agent's name ends with the agent, except for what a stopped agent
// has changed and not merged. Holders with a colon are no agents.
func Surviving(ls []lockd.Lease, alive []string) []lockd.Lease {
	return slices.DeleteFunc(ls, func(l lockd.Lease) bool {
		return !strings.Contains(l.Holder, ":") && !l.Merge && !slices.Contains(alive, l.Holder)
	})
}

// Stray returns the holders of locks until a merge that are no known agents: they were removed.
func Stray(ls []lockd.Lease, known func(agent string) bool) []string {
	var out []string
	for _, l := range ls {
		if l.Explicit && l.Merge && !known(l.Holder) && !slices.Contains(out, l.Holder) {
			out = append(out, l.Holder)
		}
	}
	return out
}

// OfFiles returns the leases of files. Those of refs last a moment and concern no file.
func OfFiles(ls []lockd.Lease) []lockd.Lease {
	return slices.DeleteFunc(ls, func(l lockd.Lease) bool { return !isFile(l) })
}

func isFile(l lockd.Lease) bool { return lockd.FileKey(lockd.FilePath(l.Path)) == l.Path }
