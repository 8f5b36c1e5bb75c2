package authorship

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/history/receipt"
)

// Merge is a merge of an agent's branch, as a receipt has it.
type Merge struct {
	Agent string   `json:"-"`
	ID    string   `json:"merge_commit_sha"`
	Tasks []string `json:"tasks"`
}

// Record is what the receipts of a workspace have of merges, and of opens of a path.
type Record struct {
	// Path is what opens must be of: a file, or what is below a directory. "": none.
	Path string
	// Write selects opens for writing and changes, else opens for reading.
	Write bool
	// Agent, Since and Until select opens; empty for all.
	Agent        string
	Since, Until time.Time
	// after, if set, is a time before which they are left out by narrow.
	after time.Time
	// Max bounds the opens: the last ones.
	Max int

	Merges map[string]Merge
	Uses   []api.WhoUse
	More   bool
	// Missed is whether opens are missing.
	Missed bool
}

// Visit is a receipt.Visit.
func (p *Record) Visit(_ string, r *receipt.Receipt) error {
	switch r.Type {
	case api.EventAgentMerged:
		m := Merge{Agent: r.Agent}
		if json.Unmarshal(r.Data, &m) == nil && m.ID != "" {
			if p.Merges == nil {
				p.Merges = map[string]Merge{}
			}
			p.Merges[m.ID] = m
		}
	case api.ReceiptMissed:
		p.Missed = p.Missed || p.Path != "" && p.selects(r.Agent, r.Time)
	case api.ReceiptOpens:
		if p.Path == "" || p.Agent != "" && r.Agent != p.Agent {
			return nil
		}
		var data struct{ Opens []api.Open }
		if json.Unmarshal(r.Data, &data) != nil {
			p.Missed = true
		}
		for _, o := range data.Opens {
			p.open(r.Agent, o)
		}
	}
	return nil
}

func (p *Record) open(agent string, o api.Open) {
	at := o.Time
	if o.Last != nil {
		at = *o.Last
	}
	if o.Write != p.Write || !p.selects(agent, at) || !p.below(o.Path) && !p.below(o.To) {
		return
	}
	p.Uses = append(p.Uses, api.WhoUse{Source: api.UseOpen, Agent: agent, Open: o})
	if len(p.Uses) >= 2*p.Max+100 {
		p.Trim()
	}
}

func (p *Record) selects(agent string, at time.Time) bool {
	return (p.Agent == "" || agent == p.Agent) && (p.Since.IsZero() || !at.Before(p.Since)) && (p.Until.IsZero() || !at.After(p.Until))
}

func (p *Record) below(text string) bool {
	path := api.DecodePath(text)
	return text != "" && (path == p.Path || strings.HasPrefix(path, p.Path+"/"))
}

// Trim sorts the uses by time and leaves the last ones.
func (p *Record) Trim() {
	slices.SortStableFunc(p.Uses, func(a, b api.WhoUse) int { return a.Time.Compare(b.Time) })
	if n := len(p.Uses) - p.Max; n > 0 {
		p.Uses, p.More = slices.Delete(p.Uses, 0, n), true
	}
}

// Attribution knows the agents and tasks of commits.
type Attribution struct {
	// Introduced is History.Introduced of the target branch.
	Introduced map[string]string
	Merges     map[string]Merge
	// Own are commits that an agent has and the target has not, with that agent.
	Own map[string]string
	// Tasks are the tasks in which commits were made, as far as it is known.
	Tasks map[string]string
}

// knows reports whether the commits of lines of Git.Touched are known.
func (a *Attribution) knows(lines []string) bool {
	return !slices.ContainsFunc(lines, func(line string) bool {
		id, _, _ := strings.Cut(line, "\n")
		_, merged := a.Introduced[id]
		_, own := a.Own[id]
		return !merged && !own
	})
}

// Of returns the agent and the tasks of a commit; "" if polis does not know it.
func (a *Attribution) Of(id string) (agent string, tasks []string, merge string) {
	if m, ok := a.Merges[a.Introduced[id]]; ok {
		agent, tasks, merge = m.Agent, m.Tasks, m.ID
	} else if own := a.Own[id]; own != "" {
		agent = own
	}
	if t := a.Tasks[id]; t != "" && agent != "" {
		tasks = []string{t}
	}
	return agent, tasks, merge
}
