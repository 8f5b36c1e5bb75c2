// Package glob is gitignore's pattern language, compiled: `*`, `?`, `[...]`
// and `**` over slash-separated repository paths, byte for byte as git's
// wildmatch does it. It owns no rule and no path: package policy gives the
// patterns their meaning for an agent, package ignore their meaning for git.
//
// It never does I/O, never allocates while matching, and matching costs at
// most pattern length times path length, whatever the pattern: agents choose
// the names, and .gitignore files come from repositories.
package glob
