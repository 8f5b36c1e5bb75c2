package delegate

import (
	"cmp"
	"slices"

	"polis/daemon/api"
	"polis/netbridge/egress"
)

// Rights are what an agent may do and use.
type Rights struct {
	Policy   api.Policy
	MemoryMB int
	// Limits are those in effect: 0 and -1 are no limit.
	Limits api.Limits
	// Egress are the entries in effect, with those of the base type.
	Egress []string
	// HostPorts are those in effect.
	HostPorts []uint16
}

// Want is what a worker asks for. The zero value asks for all that the parent has.
type Want struct {
	Policy   *api.Policy
	MemoryMB int
	Limits   api.Limits
	// Egress and HostPorts are the parent's if they are nil.
	Egress    []string
	HostPorts []uint16
}

// Narrow returns the rights of a worker that wants this, or an error that names the first wish that
// is wider than the parent's rights.
func Narrow(parent Rights, want Want) (Rights, error) {
	out := Rights{MemoryMB: cmp.Or(want.MemoryMB, parent.MemoryMB)}
	if out.MemoryMB > parent.MemoryMB {
		return Rights{}, wider("memory_limit_mb", want.MemoryMB, parent.MemoryMB)
	}
	var err error
	if out.Policy, err = Rules(parent.Policy, want.Policy); err != nil {
		return Rights{}, err
	}
	if out.Limits, err = limits(parent.Limits, want.Limits); err != nil {
		return Rights{}, err
	}
	if out.Egress, err = reach(parent.Egress, want.Egress); err != nil {
		return Rights{}, err
	}
	out.HostPorts = slices.Clone(parent.HostPorts)
	if want.HostPorts != nil {
		out.HostPorts = slices.Clone(want.HostPorts)
	}
	for _, p := range out.HostPorts {
		if !slices.Contains(parent.HostPorts, p) {
			return Rights{}, wider("host_ports", p, parent.HostPorts)
		}
	}
	return out, nil
}

// limits returns the wanted limits, and the parent's for those that are not wanted. A weight of 0
// is the kernel's default, which cannot be compared: it stays as it is.
func limits(parent, want api.Limits) (api.Limits, error) {
	out := want.Over(parent)
	for _, f := range []struct {
		name        string
		worker, own int
		weight      bool
	}{{"pids", out.Pids, parent.Pids, false}, {"cpu_percent", out.CPUPercent, parent.CPUPercent, false}, {"cpu_weight", out.CPUWeight, parent.CPUWeight, true},
		{"io_weight", out.IOWeight, parent.IOWeight, true}, {"disk_mb", out.DiskMB, parent.DiskMB, false}, {"disk_files", out.DiskFiles, parent.DiskFiles, false},
		{"connections", out.Connections, parent.Connections, false}} {
		switch {
		case f.worker == f.own:
		case f.weight && f.own <= 0, !f.weight && f.own > 0 && f.worker <= 0, f.own > 0 && f.worker > f.own:
			return out, wider(f.name, f.worker, f.own)
		}
	}
	return out, nil
}

// reach returns the wanted egress if the parent's contains it.
func reach(parent, want []string) ([]string, error) {
	has, err := egress.Parse(parent)
	if err != nil {
		return nil, api.Errorf(api.CodeBadRequest, "egress of the parent: %w", err)
	}
	if want == nil {
		return has.Entries(), nil
	}
	p, err := egress.Parse(want)
	if err != nil {
		return nil, api.Errorf(api.CodeBadRequest, "egress: %w", err).WithHint(`"none", or names such as "api.example.org" that the parent reaches, too`)
	}
	if outside, ok := has.Contains(p); !ok {
		return nil, wider("egress", outside, has.String())
	}
	return p.Entries(), nil
}

func wider(field string, want, has any) error {
	return api.Errorf(api.CodeForbidden, "%s = %v: a worker has at most what its parent has, %v", field, want, has).
		WithHint("leave %s out, or ask for less; /run/polis/policy has the parent's rules", field)
}
