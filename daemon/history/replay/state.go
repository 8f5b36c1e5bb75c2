package replay

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"polis/daemon/api"
	"polis/daemon/history/receipt"
)

// maxItems bounds the leases, refs, snapshots, agents and merges that are kept, of each.
const maxItems = 20_000

// agent is an agent that exists.
type agent struct {
	api.ReplayedAgent
	began  time.Time // of its entry
	leases map[lease]held
	// ended are leases that ended after state.recent.
	ended map[lease]bool
}

type lease struct {
	path     string
	explicit bool
}

type held struct {
	tree bool
	at   time.Time
}

type ref struct{ agent, name string }

// state is what the receipts up to an entry add up to.
type state struct {
	first, entry uint64
	hash         string
	at           time.Time
	since        time.Time // the last start of polisd
	newest       uint64
	recent       time.Time // leases that end after it may be among the present ones
	agents       map[string]*agent
	removed      map[string]string // agents that were removed, with their policy hash
	targets      map[string]*api.ReplayedTarget
	merges       map[string]uint64 // commits of the target by merges and reverts, with their entries
	order        []string          // of merges
	refs         map[ref]bool
	snapshots    map[string]api.ReplayedSnapshot
	gone         map[string]bool          // snapshots that a later entry removed
	checkpoints  []api.ReplayedCheckpoint // the last ones of all agents that exist
	unknown      map[string]bool
	leases       int
}

func newState() *state {
	return &state{agents: map[string]*agent{}, removed: map[string]string{}, targets: map[string]*api.ReplayedTarget{}, merges: map[string]uint64{}, refs: map[ref]bool{},
		snapshots: map[string]api.ReplayedSnapshot{}, gone: map[string]bool{}, unknown: map[string]bool{}}
}

// data is what entries that matter have.
type data struct {
	Since    time.Time         `json:"since"`
	Branch   string            `json:"branch"`
	BaseType string            `json:"base_type"`
	Role     string            `json:"role"`
	Policy   json.RawMessage   `json:"policy"`
	Was      string            `json:"was"`
	Target   string            `json:"target"`
	Merge    string            `json:"merge_commit_sha"`
	Revert   string            `json:"revert_commit_sha"`
	Ref      string            `json:"ref"`
	Gone     bool              `json:"gone"`
	Snapshot string            `json:"snapshot"`
	Hash     string            `json:"hash"`
	Metadata string            `json:"metadata_hash"`
	Why      string            `json:"why"`
	List     string            `json:"list"`
	Delta    string            `json:"delta"`
	Leases   []api.LeaseChange `json:"leases"`
	Missed   int               `json:"missed"`
	Short    bool              `json:"truncated"`
}

// PolicyHash is the hash of an agent's rules.
func PolicyHash(p api.Policy) string {
	text, err := json.Marshal(p)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func hashOf(policy json.RawMessage) string {
	var p api.Policy
	if len(policy) == 0 || json.Unmarshal(policy, &p) != nil {
		return ""
	}
	return PolicyHash(p)
}

// lack notes a part of the state that is not known.
func (s *state) lack(format string, args ...any) {
	if len(s.unknown) < 100 {
		s.unknown[fmt.Sprintf(format, args...)] = true
	}
}

// room reports whether one more item may be kept.
func (s *state) room(n int, what string) bool {
	if n >= maxItems {
		s.lack("%s: more than %d are not kept", what, maxItems)
	}
	return n < maxItems
}

// workspace applies an entry of the workspace's log, up to seq; 0 is all.
func (s *state) workspace(r *receipt.Receipt, seq uint64) error {
	if s.first == 0 {
		s.first = r.Seq
	}
	s.newest = r.Seq
	var d data
	if len(r.Data) > 0 {
		if err := json.Unmarshal(r.Data, &d); err != nil {
			return fmt.Errorf("entry %d: %w", r.Seq, err)
		}
	}
	if seq > 0 && r.Seq > seq {
		if _, known := s.snapshots[d.Snapshot]; known && r.Type == api.EventSnapshotRemoved {
			s.gone[d.Snapshot] = true
		}
		return nil
	}
	s.entry, s.hash, s.at = r.Seq, r.Hash, r.Time
	if d.Short {
		s.lack("entry %d was too large to be recorded whole", r.Seq)
	}
	switch r.Type {
	case api.ReceiptOpened:
		s.since = d.Since
	case api.ReceiptMissed:
		s.lack("entries of the workspace are missing before entry %d", r.Seq)
	case api.EventAgentCreated, api.EventAgentForked, api.EventAgentRestored, api.EventAgentSettings:
		s.agent(r, &d)
	case api.EventAgentRemoved:
		if a := s.agents[r.Agent]; a != nil && len(s.removed) < maxItems {
			s.removed[r.Agent] = a.PolicyHash
		}
		delete(s.agents, r.Agent)
	case api.EventAgentMerged:
		s.merged(r, d.Target, d.Merge)
	case api.EventAgentReverted:
		s.merged(r, d.Target, d.Revert)
	case api.EventSnapshot:
		if s.room(len(s.snapshots), "snapshots") {
			s.snapshots[d.Snapshot] = api.ReplayedSnapshot{ID: d.Snapshot, Agent: r.Agent, Hash: d.Hash, Metadata: d.Metadata, Entry: r.Seq}
		}
	case api.EventSnapshotRemoved:
		delete(s.snapshots, d.Snapshot)
	}
	return nil
}

// agent applies an entry about what an agent is.
func (s *state) agent(r *receipt.Receipt, d *data) {
	a := s.agents[r.Agent]
	begins := r.Type == api.EventAgentCreated || a == nil && r.Type != api.EventAgentSettings
	if a == nil || r.Type == api.EventAgentCreated {
		if !s.room(len(s.agents), "agents") {
			return
		}
		a = &agent{ReplayedAgent: api.ReplayedAgent{Name: r.Agent}, leases: map[lease]held{}, ended: map[lease]bool{}}
		s.agents[r.Agent] = a
	}
	if begins {
		a.Entry, a.began = r.Seq, r.Time
		if d.Was != "" {
			a.PolicyHash = s.removed[d.Was]
		}
	}
	for to, from := range map[*string]string{&a.Branch: d.Branch, &a.BaseType: d.BaseType, &a.PolicyHash: hashOf(d.Policy)} {
		if from != "" {
			*to = from
		}
	}
	if len(d.Policy) > 0 {
		a.Role = d.Role
	}
}

// merged applies a new commit of a target.
func (s *state) merged(r *receipt.Receipt, target, commit string) {
	if target == "" || commit == "" { // a merge into a plain project
		return
	}
	t := s.targets[target]
	if t == nil {
		if !s.room(len(s.targets), "targets") {
			return
		}
		t = &api.ReplayedTarget{Branch: target}
		s.targets[target] = t
	}
	t.Commit, t.Entry, t.Merges = commit, r.Seq, t.Merges+1
	if len(s.order) == maxItems { // the newest are the ones that are searched for
		delete(s.merges, s.order[0])
		s.order = s.order[1:]
		s.lack("merges: only the last %d are searched for in the history", maxItems)
	}
	if _, again := s.merges[commit]; !again {
		s.order = append(s.order, commit)
	}
	s.merges[commit] = r.Seq
}

// own applies an entry of an agent's log.
func (s *state) own(a *agent, r *receipt.Receipt) error {
	if r.Time.Before(a.began) { // of an earlier agent with the same name
		return nil
	}
	switch r.Type {
	case api.ReceiptLeases, api.ReceiptCheckpoint, api.EventAgentRef, api.ReceiptMissed:
	default:
		return nil
	}
	var d data
	if len(r.Data) > 0 {
		if err := json.Unmarshal(r.Data, &d); err != nil {
			return fmt.Errorf("entry %s:%d: %w", a.Name, r.Seq, err)
		}
	}
	switch r.Type {
	case api.ReceiptMissed:
		s.lack("agent %s: entries are missing, so leases and refs may differ", a.Name)
	case api.EventAgentRef:
		key := ref{a.Name, d.Ref}
		if d.Gone {
			delete(s.refs, key)
		} else if s.room(len(s.refs), "refs") {
			s.refs[key] = true
		}
	case api.ReceiptCheckpoint:
		s.checkpoint(a, r, &d)
	case api.ReceiptLeases:
		s.leasesOf(a, r, &d)
	}
	return nil
}

// leasesOf applies changes of leases.
func (s *state) leasesOf(a *agent, r *receipt.Receipt, d *data) {
	if d.Missed > 0 || d.Short {
		s.lack("agent %s: changes of leases were too many to be recorded", a.Name)
	}
	if r.Time.Before(s.since) { // polisd was started after it: what is held since then is recorded again
		return
	}
	for _, l := range d.Leases {
		key := lease{l.Path, l.Explicit}
		if _, has := a.leases[key]; has {
			s.leases--
			delete(a.leases, key)
		}
		if !l.Held && l.Time.After(s.recent) && !s.recent.IsZero() && len(a.ended) < maxItems {
			a.ended[key] = true
		}
		if l.Held && s.room(s.leases, "leases") {
			s.leases++
			a.leases[key] = held{l.Tree, l.Time}
		}
	}
}
