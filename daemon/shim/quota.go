package shim

import (
	"fmt"
	"time"

	"polis/daemon/api"
	"polis/fusefs"
)

// bounds are an agent's limits on the disk; 0 is no limit.
type bounds struct{ bytes, files int64 }

// Git may exceed the agent's limits a little, so that the files that exist when a limit is reached
// can be committed.
const (
	gitShare = 16      // at most one part in so many, but at least
	gitRoom  = 4 << 20 // bytes
	gitSpare = 64      // files
)

// forGit returns the limits for git.
func (b bounds) forGit() bounds {
	more := func(n, least int64) int64 {
		if n > 0 {
			n += max(n/gitShare, least)
		}
		return n
	}
	return bounds{bytes: more(b.bytes, gitRoom), files: more(b.files, gitSpare)}
}

// reached returns the name of the limit that an operation would exceed, or "".
func (b bounds) reached(op fusefs.Op, bytes, files int64) string {
	switch {
	case b.bytes > 0 && bytes >= b.bytes:
		return limitDisk
	case b.files > 0 && files >= b.files && op.Makes():
		return limitFiles
	}
	return ""
}

// Names of the limits.
const (
	limitDisk  = "disk"
	limitFiles = "files"
)

// quota is called by the view before an operation that takes space.
func (s *Shim) quota(op fusefs.Op) string {
	return s.usedUp(op, bounds{bytes: s.disk.limit.Load(), files: s.disk.most.Load()})
}

// gitQuota is quota for the git directory.
func (s *Shim) gitQuota(op fusefs.Op) string {
	return s.usedUp(op, bounds{bytes: s.disk.limit.Load(), files: s.disk.most.Load()}.forGit())
}

func (s *Shim) usedUp(op fusefs.Op, b bounds) string {
	what := b.reached(op, s.disk.used.Load(), s.disk.files())
	if what == "" && s.disk.blind() && (b.bytes > 0 || b.files > 0) {
		s.disk.doubted()
		return "the disk use of this agent cannot be measured (shim.log has the reason), so nothing can be added: remove what you made last, or ask the administrator"
	}
	if what == limitFiles {
		// The count has grown since the last measurement: report it now.
		s.disk.doubted()
		s.reportFiles()
	}
	return s.quotaHint(what)
}

// quotaHint describes the limit and what the user can do.
func (s *Shim) quotaHint(what string) string {
	const ask = ": remove what you do not need, or ask the administrator for more"
	switch what {
	case limitDisk:
		return fmt.Sprintf("this agent may have %d MB on the disk (disk_mb)", s.disk.limit.Load()>>20) + ask
	case limitFiles:
		return fmt.Sprintf("this agent may have %d files and directories (disk_files)", s.disk.most.Load()) + ask
	}
	return ""
}

// reportDisk emits the event that the agent has reached its limit of bytes, and reportFiles that
// of files. Both are rate-limited.
func (s *Shim) reportDisk() {
	if !s.hits.hit(limitDisk, 0, time.Now()) {
		return
	}
	used, limit := s.disk.used.Load(), s.disk.limit.Load()
	s.events.Publish(api.Event{Type: api.EventDisk, Agent: s.Spec.Agent, Code: api.CodeQuota,
		Message: fmt.Sprintf("agent %s has %d MB on the disk, and may have %d MB: nothing can be added", s.Spec.Agent, used>>20, limit>>20),
		Data:    map[string]any{"used_bytes": used, "limit_bytes": limit}})
}

func (s *Shim) reportFiles() {
	if !s.hits.hit(limitFiles, 0, time.Now()) {
		return
	}
	used, limit := s.disk.files(), s.disk.most.Load()
	s.events.Publish(api.Event{Type: api.EventFiles, Agent: s.Spec.Agent, Code: api.CodeQuota,
		Message: fmt.Sprintf("agent %s has %d files and directories, and may have %d: no more can be made", s.Spec.Agent, used, limit),
		Data:    map[string]any{"used_files": used, "limit_files": limit}})
}
