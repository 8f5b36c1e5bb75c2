package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/setting"
	"polis/daemon/shim/wire"
	"polis/fusefs/fdtree"
)

func lookupUID(uid int) (*user.User, error) { return user.LookupId(strconv.Itoa(uid)) }

// seedHome brings what the base type declares from the owner's home into the agent's own (the
// project's owner is who set the agents up): private copies once, so that the agent's changes
// stay its own and later starts keep them; read-only files at every start. Files that cannot be
// brought are logged, and the agent starts without them.
func seedHome(spec *wire.Spec, a *agent.Agent, log *slog.Logger) error {
	if u, err := lookupUID(a.WS.Owner); err == nil { // a user without an account has no home
		if err := bring(u.HomeDir, spec, a, log); err != nil {
			return err
		}
	}
	return seedIdentity(*spec, a)
}

func bring(home string, spec *wire.Spec, a *agent.Agent, log *slog.Logger) error {
	ro := filepath.Join(spec.RunDir, "home")
	if err := fdtree.Cleanup(ro); err != nil {
		return err
	}
	for i, h := range a.Type.Home {
		src, err := openHomeFile(home, h.Path, a.WS.Owner)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			log.Warn("file of the owner's home not brought into the sandbox", "agent", a.Name(), "path", h.Path, "err", err)
			continue
		}
		if h.Mode == config.HomeReadOnly {
			var m setting.Mount
			m, err = mountHomeFile(src, ro, strconv.Itoa(i), *spec)
			m.Dest = filepath.Join(spec.Home, h.Path)
			spec.Mounts = append(spec.Mounts, m)
		} else if cerr := copyHomeFile(src, spec.HomeDir, h.Path, spec.UID, spec.GID); cerr != nil {
			// Whatever the agent left in the way, it starts again.
			log.Warn("file of the owner's home not brought into the sandbox", "agent", a.Name(), "path", h.Path, "err", cerr)
		}
		if err = errors.Join(err, src.Close()); err != nil {
			return fmt.Errorf("bring %s into the sandbox: %w", h.Path, err)
		}
	}
	return nil
}

// identity is the author of an agent's commits unless a configuration sets one.
func identity(a *agent.Agent) (name, email string) {
	return cmp.Or(a.Identity.Name, a.Name()), cmp.Or(a.Identity.Email, a.Name()+"@"+api.Domain)
}

// seedIdentity makes commits possible if neither the user nor the project has an identity.
func seedIdentity(spec wire.Spec, a *agent.Agent) error {
	root, err := os.OpenRoot(spec.HomeDir)
	if err != nil {
		return fmt.Errorf("git identity: %w", err)
	}
	defer root.Close()
	f, err := root.OpenFile(".gitconfig", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("git identity: %w", err)
	}
	name, email := identity(a)
	_, err = fmt.Fprintf(f, "[user]\n\tname = %s\n\temail = %s\n", quoteConfig(name), quoteConfig(email))
	return errors.Join(err, f.Chown(spec.UID, spec.GID), f.Close())
}

// quoteConfig quotes a value as git-config(1) reads it.
func quoteConfig(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", " ", "\x00", "").Replace(s) + `"`
}

func pid() int { return os.Getpid() }
