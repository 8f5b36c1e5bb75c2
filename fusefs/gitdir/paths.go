package gitdir

import (
	"strings"

	"polis/fusefs"
)

// class is the kind of a name in the shared root, which selects its rules.
type class int

const (
	classForeign   class = iota // read-only, or not there at all
	classPrivate                // the agent's own copy, root 1
	classWorktree               // worktrees/<me>/...
	classObjectDir              // objects/xx
	classTemp                   // objects/xx/tmp_obj_..., objects/pack/tmp_...
	classObject                 // objects/xx/<rest of the hash>
	classPack                   // objects/pack/pack-<hash>.pack, .idx, .rev
	classPackKeep               // objects/pack/pack-<hash>.keep
	classRef                    // refs/<kind>/<name>
	classRefLock                // refs/<kind>/<name>.lock
	classReflog                 // logs/refs/<kind>/<name>
	classPacked                 // packed-refs
	classPackedTmp              // packed-refs.lock, packed-refs.new
	classSkeleton               // logs, logs/refs, refs/<kind>, logs/refs/<kind>: may be made
)

// shared lists the top-level names in the shared root.
var shared = map[string]bool{"HEAD": true, "refs": true, "packed-refs": true, "packed-refs.lock": true,
	"packed-refs.new": true, "worktrees": true, "logs": true, "FETCH_HEAD": true, "shallow": true, "shallow.lock": true, "HEAD.lock": true}

// kinds lists the ref namespaces in which an agent may own refs.
var kinds = map[string]bool{"heads": true, "tags": true, "notes": true, "remotes": true}

// Route returns the backing root of a path: 1 for the agent's own files. These include the agent's
// objects until a ref reaches them (see Publish). Git reads published objects from elsewhere,
// through objects/info/alternates. own is the name of the agent's worktree: the others of the shared root are hidden,
// and those that the agent makes itself (git worktree add) are its own files.
func Route(path, own string) int {
	top, rest, _ := strings.Cut(path, "/")
	switch {
	case path == "" || shared[top] && rest == "":
		return 0
	case !shared[top]:
		return 1
	case privateRef(path):
		return 1
	case top == "worktrees" && rest != "":
		if name, _, _ := strings.Cut(rest, "/"); name != own {
			return 1
		}
	}
	return 0
}

// privateRef reports whether a path is a ref, its lock or its log, or a directory of refs, in a namespace that
// is the agent's own: all but those of branches, tags, notes and remotes, which agents share, and those of polis.
// So refs/stash, refs/original, refs/replace and what tools keep in namespaces of theirs reach nobody else.
func privateRef(path string) bool {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(path, "logs/"), "refs/")
	if !ok {
		return false
	}
	space, _, _ := strings.Cut(rest, "/")
	space = strings.TrimSuffix(space, ".lock")
	// git renames the reflog of a branch to logs/refs/.tmp-renamed-log while it renames the branch.
	return space != "" && space[0] != '.' && !kinds[space] && space != "polis"
}

// classify returns the class of a path of the shared root. own is the name of the agent's
// worktree.
func classify(path, own string) class {
	part := strings.Split(path, "/")
	if part[0] == "objects" && !strings.HasPrefix(path, quarantine) {
		return classifyObject(part)
	}
	if Route(path, own) == 1 {
		return classPrivate
	}
	if skeleton(part) {
		return classSkeleton
	}
	switch part[0] {
	case "worktrees":
		if len(part) > 2 && part[1] == own && !fixed(part[2:]) {
			return classWorktree
		}
	case "refs":
		return classifyRef(part[1:], classRef)
	case "logs":
		if len(part) > 2 && part[1] == "refs" {
			return classifyRef(part[2:], classReflog)
		}
	case "packed-refs":
		return classPacked
	case "packed-refs.lock", "packed-refs.new":
		return classPackedTmp
	}
	return classForeign
}

// skeleton reports whether a path is a directory for the refs or logs of one kind.
func skeleton(part []string) bool {
	if part[0] == "logs" {
		if part = part[1:]; len(part) == 0 {
			return true
		}
	}
	return part[0] == "refs" && (len(part) == 1 || len(part) == 2 && kinds[part[1]])
}

// fixed reports whether a file ties a worktree to its repository.
func fixed(rest []string) bool {
	return len(rest) == 1 && (rest[0] == "gitdir" || rest[0] == "commondir" || rest[0] == "locked")
}

func classifyObject(part []string) class {
	switch {
	case len(part) == 2 && strings.HasPrefix(part[1], "tmp_obj_"):
		return classTemp // a large object whose name is not known yet
	case len(part) == 3 && part[1] == "pack":
		return classifyPack(part[2])
	case len(part) < 2 || len(part[1]) != 2 || !isHex(part[1]):
		return classForeign
	case len(part) == 2:
		return classObjectDir
	case len(part) > 3:
		return classForeign
	case strings.HasPrefix(part[2], "tmp_obj_"):
		return classTemp
	case (len(part[2]) == 38 || len(part[2]) == 62) && isHex(part[2]):
		return classObject
	}
	return classForeign
}

// classifyPack returns the class of the names that git's index-pack, bulk-checkin.c and repack make.
func classifyPack(name string) class {
	for _, p := range []string{"tmp_pack_", "tmp_idx_", "tmp_rev_", ".tmp-"} {
		if strings.HasPrefix(name, p) {
			return classTemp
		}
	}
	base, ext, _ := strings.Cut(name, ".")
	if hash, ok := strings.CutPrefix(base, "pack-"); !ok || !isHash(hash) {
		return classForeign
	}
	switch ext {
	case "pack", "idx", "rev":
		return classPack
	case "keep":
		return classPackKeep
	}
	return classForeign
}

func classifyRef(part []string, what class) class {
	if len(part) < 2 || !kinds[part[0]] {
		// git renames the reflog to this name while it renames a branch (refs/files-backend.c).
		if what == classReflog && len(part) == 1 && strings.HasPrefix(part[0], ".tmp-renamed-log") {
			return classWorktree
		}
		return classForeign
	}
	if what == classRef && strings.HasSuffix(part[len(part)-1], ".lock") {
		return classRefLock
	}
	return what
}

// ofRemote reports whether a ref is a remote-tracking ref. Those have no owner: every agent that
// may fetch writes them.
func ofRemote(ref string) bool { return strings.HasPrefix(ref, "refs/remotes/") }

// refName returns the ref that a ref, lock or log path belongs to.
func refName(path string) string {
	return strings.TrimSuffix(strings.TrimPrefix(path, "logs/"), ".lock")
}

// validRef reports whether a ref may have a name. Files with other names among the refs would only
// disturb git.
func validRef(name string) bool {
	// git branch and git tag refuse these as well.
	if _, short, ok := cutKind(name); ok && (short == "HEAD" || short[0] == '-') {
		return false
	}
	return refFormat(name)
}

// refFormat implements git-check-ref-format(1).
func refFormat(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c == 0x7f || strings.IndexByte(`~^:?*[\`, c) >= 0 {
			return false
		}
	}
	return !strings.Contains(name, "..") && !strings.Contains(name, "@{") && !strings.HasSuffix(name, ".") && name[len(name)-1] != '/'
}

// cutKind splits the full name of a branch or a tag.
func cutKind(name string) (kind, short string, ok bool) {
	for _, kind := range []string{"refs/heads/", "refs/tags/"} {
		if short, ok := strings.CutPrefix(name, kind); ok && short != "" {
			return kind, short, true
		}
	}
	return "", "", false
}

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// Visible hides other agents' worktrees, unfinished objects of other mounts and polis's own refs.
func (g *Guard) Visible(path string, _ bool) bool {
	if rest, ok := strings.CutPrefix(path, "worktrees/"); ok {
		name, _, _ := strings.Cut(rest, "/")
		return name == g.cfg.Worktree || g.cfg.PrivateFD != 0 // then the others are the agent's own
	}
	for _, p := range []string{"refs/polis", "logs/refs/polis"} {
		if path == p || strings.HasPrefix(path, p+"/") {
			return false
		}
	}
	if strings.HasPrefix(path, "objects/") && classify(path, g.cfg.Worktree) == classTemp {
		// A free name must not be hidden: it could not be made.
		return g.mine(path) || !g.exists(path)
	}
	return true
}

var _ fusefs.Guard = (*Guard)(nil)
