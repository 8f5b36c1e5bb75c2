package doctor

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/config"
)

const roomName = "room for agents"

func (d *Doctor) room(context.Context) api.Check {
	var s unix.Sysinfo_t
	if err := unix.Sysinfo(&s); err != nil {
		return bad(roomName, api.CheckWarn, err.Error(), "unknown how many agents there can be", "allow sysinfo(2) in the container of polisd").without(ofTheContainer)
	}
	return roomIn(d.config, int64(s.Totalram*uint64(s.Unit)))
}

// roomIn returns how many agents with the usual limits are let in at once; see
// [admission] and [limits.total] of polisd.toml(5).
func roomIn(c config.Config, memory int64) api.Check {
	const name, mb = roomName, 1 << 20
	each := int64(c.Limits.MemoryMB)
	have, of := memory/mb-int64(c.Admission.ReserveMB), fmt.Sprintf("%d MB of memory without admission.reserve_mb", memory/mb)
	if t := int64(c.Limits.Total.MemoryMB); t > 0 && t < have {
		have, of = t, fmt.Sprintf("limits.total.memory_mb = %d", t)
	}
	if each <= 0 {
		return ok(name, of+"; an agent's own is not limited")
	}
	fits := max(0, int64(float64(have)*c.Admission.Overcommit)/each)
	found := fmt.Sprintf("%d of %d MB each (%s, times %g)", fits, each, of, c.Admission.Overcommit)
	if fits >= int64(c.MaxAgents) {
		return ok(name, found)
	}
	f := bad(name, api.CheckWarn, found, fmt.Sprintf("agents are refused (%s) before max_agents = %d", api.CodeHostOvercommitted, c.MaxAgents),
		"nothing, if these are enough: the command has max_agents say so; for more, lower limits.memory_mb, raise admission.overcommit or limits.total, or add agents with --force")
	if fits == 0 {
		return f.without("not one agent of this size fits; how little memory yours need, only you know")
	}
	return f.by(reloaded(fmt.Sprintf("sudo polisctl config set max_agents %d", fits)))
}
