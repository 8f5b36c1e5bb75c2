package launcher

import (
	"context"
	"fmt"
	"os/exec"
	"time"
)

// cleanupTime bounds the removal of what a dead shim left.
const cleanupTime = 30 * time.Second

// Cleanup has the shim program remove mounts, sandbox and control group of a
// shim that is gone: it alone knows them.
func Cleanup(ctx context.Context, shim, spec string) error {
	ctx, cancel := context.WithTimeout(ctx, cleanupTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, shim, "--cleanup", "--spec", spec)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.WaitDelay = 5 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out[:min(len(out), 2000)])
	}
	return nil
}
