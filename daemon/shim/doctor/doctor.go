package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"polis/daemon/api"
	"polis/daemon/config"
)

// limit bounds one check; a machine that hangs is a finding too.
const limit = 10 * time.Second

// Doctor checks the machine for one configuration.
type Doctor struct {
	// ConfigFile is polisd.toml; a missing default file is the defaults.
	ConfigFile string

	config config.Config
}

// Run makes every check, in a fixed order. A check that cannot be made is a
// failure of that check, never of Run.
func (d *Doctor) Run(ctx context.Context) api.DoctorReport {
	var r api.DoctorReport
	r.Checks = append(r.Checks, d.readConfig())
	for _, check := range []func(context.Context) []api.Check{
		one(d.privileges), one(d.kernel), d.fuse, d.isolation, d.agentsNetwork, one(d.routes), one(d.forwarding), one(d.ports), one(d.refusals), one(d.calls), one(d.connections), d.cgroups, one(d.room), one(d.git), one(d.cage), one(d.systemd), d.disk, one(d.clock), one(d.descriptors), one(d.inotify),
	} {
		cctx, cancel := context.WithTimeout(ctx, limit)
		r.Checks = append(r.Checks, check(cctx)...)
		cancel()
	}
	return r
}

func one(f func(context.Context) api.Check) func(context.Context) []api.Check {
	return func(ctx context.Context) []api.Check { return []api.Check{f(ctx)} }
}

func (d *Doctor) readConfig() api.Check {
	c := api.Check{Name: "configuration", State: api.CheckOK, Found: d.ConfigFile + " is valid"}
	var err error
	if d.config, err = config.Load(d.ConfigFile); err != nil {
		d.config = config.Default()
		return bad(c.Name, api.CheckFail, err.Error(), "polisd does not start", "correct the file; polisd.toml(5) and docs/configuration.md list the keys").
			without("the value that is meant, only its author knows")
	}
	if _, err := config.LoadTypes(d.config.AgentsDir, d.config.Sandbox); err != nil {
		return bad(c.Name, api.CheckFail, err.Error(), "agents of the types in that directory cannot be added", "correct or remove the file in "+d.config.AgentsDir).
			without("what is meant, only its author knows")
	}
	if _, err := os.Stat(d.ConfigFile); errors.Is(err, fs.ErrNotExist) {
		c.Found = "the defaults: there is no " + d.ConfigFile
	}
	return c
}

func ok(name, found string) api.Check {
	return api.Check{Name: name, State: api.CheckOK, Found: found}
}
