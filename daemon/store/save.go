package store

import (
	"cmp"
	"crypto/sha256"
	"time"

	"polis/daemon/api"
)

// StateFile writes the state of one workspace. It is not safe for concurrent use.
type StateFile struct {
	// rights is the hash of the rights that the file and its backup grant.
	rights [sha256.Size]byte
}

// Save writes st to path with its version and time, after what an earlier Save wrote has become the backup.
func (f *StateFile) Save(path string, st State, now time.Time) error {
	st.Version, st.LastModified = StateVersion, now.UTC()
	if st.Agents == nil {
		st.Agents = []Agent{}
	}
	if err := WriteKept(path, st); err != nil {
		return err
	}
	// The backup can grant more rights than this state. The state is written twice, so that the file
	// that replaces a damaged one grants these rights too.
	rights, err := Rights(st.Agents)
	if err != nil || rights == f.rights {
		return err
	}
	if err := WriteKept(path, st); err != nil {
		return err
	}
	f.rights = rights
	return nil
}

// Allocations returns the port maps of all agents. first is the lowest external port, bind the
// address that is configured.
func Allocations(agents []Agent, first int, bind string) PortAllocations {
	out := PortAllocations{NextPort: first, Mappings: []api.PortMapping{}}
	for _, a := range agents {
		for _, p := range a.PortMappings {
			out.Mappings = append(out.Mappings, api.PortMapping{Agent: a.Name, Internal: p.Internal, External: p.External, Protocol: p.Protocol, Bind: cmp.Or(p.Bind, bind), Auto: p.Auto})
			out.NextPort = max(out.NextPort, p.External+1)
		}
	}
	return out
}
