package cleanup

import (
	"context"
	"log/slog"
	"time"
)

// remoteTime bounds the query of one remote, remotesTime that of all, before an agent is removed.
const (
	remoteTime  = 20 * time.Second
	remotesTime = time.Minute
)

// Remotes are the remotes of a project.
type Remotes interface {
	// Names lists them.
	Names(ctx context.Context) ([]string, error)
	// DefaultHas reports whether the default branch of one has all of the commits.
	DefaultHas(ctx context.Context, remote string, tips []string) (bool, error)
}

// Elsewhere reports whether it matters that another branch or a remote has the commits: all else
// would let the agent go.
func (m *Measured) Elsewhere() bool { return m.Unmerged > 0 && m.Uncommitted == 0 && !m.Stash }

// Query queries every remote of the project for the commits. One that does not answer in time has
// none of them.
func (m *Measured) Query(ctx context.Context, r Remotes, tips []string, log *slog.Logger) {
	if len(tips) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, remotesTime)
	defer cancel()
	names, err := r.Names(ctx)
	if err != nil {
		log.Warn("remotes of the project not read", "err", err)
		return
	}
	for _, name := range names {
		m.Asked = append(m.Asked, name)
		rctx, cancel := context.WithTimeout(ctx, remoteTime)
		has, err := r.DefaultHas(rctx, name, tips)
		cancel()
		switch {
		case err != nil:
			log.Warn("remote not queried before an agent is removed", "path", name, "err", err)
			m.Silent = append(m.Silent, name)
		case has && m.Remote == "":
			m.Remote = name
		}
	}
}
