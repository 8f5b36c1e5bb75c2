package git

import (
	"context"
	"fmt"
	"time"

	"polis/daemon/host/cage"
)

// tipTimeout bounds the check of one commit.
const tipTimeout = 20 * time.Second

// integrityLimits allow a walk over some ten million objects.
var integrityLimits = cage.Limits{Data: 4 << 30, FileSize: 1}

// Check checks that everything that a full ref name reaches exists: commits, trees and files, as
// "git fsck --connectivity-only" does for all refs. It does not read the content of files. Without
// history it checks only the tip.
//
// Check returns ErrDamaged if an object is missing or unreadable. Every other error, such as a
// time-out, is no result.
func (r Repo) Check(ctx context.Context, ref string, history bool, timeout time.Duration) error {
	c := Cmd{Args: []string{"rev-list", "--single-worktree", "--objects", "--quiet"}, Limits: &integrityLimits, Timeout: timeout,
		Config: []string{"core.commitGraph=false"}} // a commit graph can name commits that do not exist
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
