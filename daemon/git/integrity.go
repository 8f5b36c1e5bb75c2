package git

import (
	"context"
	"fmt"
	"time"

	"polis/daemon/cage"
)

// tipTimeout bounds the look at one commit.
const tipTimeout = 20 * time.Second

// integrityLimits let git walk some ten million objects.
var integrityLimits = cage.Limits{Data: 4 << 30, FileSize: 1}

// Check looks whether everything is there that a full ref name leads to: commits,
// trees and the existence of files, as "git fsck --connectivity-only" does for all
// refs. A file's content is not read. Without history only the tip is looked at.
//
// ErrDamaged says that something is missing or cannot be read; every other error,
// such as that of a bound, says nothing about the repository.
func (r Repo) Check(ctx context.Context, ref string, history bool, timeout time.Duration) error {
	c := Cmd{Args: []string{"rev-list", "--single-worktree", "--objects", "--quiet"}, Limits: &integrityLimits, Timeout: timeout,
		Config: []string{"core.commitGraph=false"}} // which names commits that need not be there
	if !history {
		c.Args, c.Timeout = append(c.Args, "--no-walk"), tipTimeout
	}
	c.Args = append(c.Args, "--end-of-options", ref)
	_, err := r.Do(ctx, c)
	if code, ok := ExitCode(err); ok && code > 0 && c.outOfMemory(err.Error()) == "" {
		return fmt.Errorf("%s: %w: %w", shorten(ref), ErrDamaged, err)
	}
	return err
}
