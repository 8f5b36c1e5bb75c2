package daemon

import (
	"context"

	"polis/daemon/git"
)

// charge returns a context whose git commands are charged to an agent.
func (d *Daemon) charge(ctx context.Context, agent string) context.Context {
	return git.Charged(ctx, d.gits.Account(agent))
}
