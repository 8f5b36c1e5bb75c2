package provenance

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/history/receipt"
)

// Receipts are the logs of a workspace.
type Receipts interface {
	Each(ctx context.Context, want func(log string) bool, visit receipt.Visit) (*api.BrokenReceipt, error)
}

// Commits are the commits of a workspace.
type Commits interface {
	Parents(ctx context.Context, commit string) ([]string, error)
	Changes(ctx context.Context, a, b string) ([]git.Change, error)
}

// Source has what statements are made of.
type Source struct {
	Workspace string
	Receipts  Receipts
	Commits   Commits
}

// maxPaths bounds the files that a statement names as inputs, and as outputs.
const maxPaths = 10_000

// Export writes one statement a line, for each merge, oldest first, or only for the receipt with this number;
// 0 is all. The first broken entry is an error before anything is written.
func (s *Source) Export(ctx context.Context, seq uint64, to io.Writer) error {
	merges, err := s.merges(ctx, seq)
	if err != nil {
		return err
	}
	if len(merges) == 0 && seq != 0 {
		return api.Errorf(api.CodeNotFound, "entry %d of the receipts of workspace %s is no merge", seq, s.Workspace).
			WithHint("polisctl receipts show --type agent:merged lists them")
	}
	enc := json.NewEncoder(to)
	enc.SetEscapeHTML(false)
	for _, m := range merges {
		st, err := s.statement(ctx, m)
		if err != nil {
			return fmt.Errorf("provenance of entry %d: %w", m.receipt.Seq, err)
		}
		if err := enc.Encode(st); err != nil {
			return err
		}
	}
	return nil
}

// merge is a merge with what the log of the workspace has about it.
type merge struct {
	receipt receipt.Receipt
	data    mergeData
	agent   agentData
	since   time.Time // of the agent's last merge, or creation
	prompts map[string]string
}

type mergeData struct {
	Commit string   `json:"merge_commit_sha"`
	Target string   `json:"target"`
	Branch string   `json:"branch"`
	Log    string   `json:"log"`
	Tasks  []string `json:"tasks"`
}

type agentData struct {
	BaseType string          `json:"base_type"`
	Role     string          `json:"role"`
	Policy   json.RawMessage `json:"policy"`
}

type taskData struct {
	ID     string `json:"id"`
	Prompt string `json:"prompt"`
}

// merges reads the log of the workspace.
func (s *Source) merges(ctx context.Context, seq uint64) ([]merge, error) {
	var out []merge
	agents, since, prompts := map[string]agentData{}, map[string]time.Time{}, map[string]map[string]string{}
	broken, err := s.Receipts.Each(ctx, func(log string) bool { return log == "" }, func(_ string, r *receipt.Receipt) error {
		switch r.Type {
		case api.EventAgentCreated, api.EventAgentSettings:
			var d agentData
			if json.Unmarshal(r.Data, &d) == nil && len(d.Policy) > 0 {
				agents[r.Agent] = d
			}
			if r.Type == api.EventAgentCreated {
				since[r.Agent], prompts[r.Agent] = r.Time, map[string]string{}
			}
		case api.EventTask:
			var d taskData
			if p := prompts[r.Agent]; p != nil && json.Unmarshal(r.Data, &d) == nil && d.ID != "" {
				p[d.ID] = d.Prompt
			}
		case api.EventAgentMerged:
			m := merge{receipt: *r, agent: agents[r.Agent], since: since[r.Agent], prompts: map[string]string{}}
			if err := json.Unmarshal(r.Data, &m.data); err != nil {
				return fmt.Errorf("entry %d: %w", r.Seq, err)
			}
			for _, id := range m.data.Tasks {
				m.prompts[id] = prompts[r.Agent][id]
			}
			since[r.Agent] = r.Time
			if seq == 0 || seq == r.Seq {
				out = append(out, m)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("provenance of merges: %w", err)
	}
	if broken != nil {
		return nil, receipt.Broken(s.Workspace, broken)
	}
	return out, nil
}

// used is what the log of the agent has about a merge.
type used struct {
	inputs, models []string
	opens, more    bool
}

// used reads what the log of an agent has from its last merge to this one. An entry is written after what it reports: an
// open counts by its own time, and the sums of models, which come up to a minute later, by their task.
func (s *Source) used(ctx context.Context, m *merge) (u used, err error) {
	inputs, models := map[string]bool{}, map[string]bool{}
	broken, err := s.Receipts.Each(ctx, func(log string) bool { return log == m.receipt.Agent }, func(_ string, r *receipt.Receipt) error {
		if r.Time.Before(m.since) {
			return nil
		}
		within := !r.Time.After(m.receipt.Time)
		switch r.Type {
		case api.ReceiptOpens:
			var d struct {
				Opens []api.Open `json:"opens"`
			}
			if err := json.Unmarshal(r.Data, &d); err != nil {
				return fmt.Errorf("entry %s:%d: %w", m.receipt.Agent, r.Seq, err)
			}
			for _, o := range d.Opens {
				if within = !o.Time.Before(m.since) && !o.Time.After(m.receipt.Time); within {
					u.opens = true
				}
				switch {
				case !within:
				case o.Write || inputs[o.Path]:
				case len(inputs) == maxPaths:
					u.more = true
				default:
					inputs[o.Path] = true
				}
			}
		case api.EventModelUsed:
			var d struct {
				Models []string `json:"models"`
				Task   string   `json:"task"`
			}
			if err := json.Unmarshal(r.Data, &d); err != nil {
				return fmt.Errorf("entry %s:%d: %w", m.receipt.Agent, r.Seq, err)
			}
			if d.Task == "" && !within || d.Task != "" && !slices.Contains(m.data.Tasks, d.Task) {
				return nil
			}
			for _, name := range d.Models {
				models[name] = true
			}
		}
		return nil
	})
	if err == nil && broken != nil {
		err = receipt.Broken(s.Workspace, broken)
	}
	u.inputs, u.models = sorted(inputs), sorted(models)
	return u, err
}

func sorted(set map[string]bool) []string {
	out := make([]string, 0, len(set))
	for k := range set {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// statement describes one merge.
func (s *Source) statement(ctx context.Context, m merge) (Statement, error) {
	u, err := s.used(ctx, &m)
	if err != nil {
		return Statement{}, err
	}
	parents, err := s.Commits.Parents(ctx, m.data.Commit)
	if err != nil {
		return Statement{}, err
	}
	if len(parents) == 0 {
		return Statement{}, api.Errorf(api.CodeRepoCorrupt, "merge %s has no parent", m.data.Commit)
	}
	changes, err := s.Commits.Changes(ctx, parents[0], m.data.Commit)
	if err != nil {
		return Statement{}, err
	}
	missing := []string{}
	lack := func(absent bool, what string) {
		if absent {
			missing = append(missing, what)
		}
	}
	lack(!u.opens, "inputs: the agent has no audit = \"full\"")
	lack(u.more, fmt.Sprintf("inputs: more than %d", maxPaths))
	lack(len(changes) > maxPaths, fmt.Sprintf("outputs: more than %d", maxPaths))
	lack(len(u.models) == 0, "models: the agent used no model service of the gateway")
	lack(len(m.agent.Policy) == 0, "policy: the receipts of its agent's beginning were removed")
	st := Statement{Type: StatementType, PredicateType: PredicateType, Subject: []Resource{{Name: "refs/heads/" + m.data.Target, Digest: commit(m.data.Commit)}}}
	by := []Resource{{Name: fmt.Sprintf("receipt %d of workspace %s", m.receipt.Seq, s.Workspace), Digest: map[string]string{"sha256": m.receipt.Hash}}}
	for _, c := range changes[:min(len(changes), maxPaths)] {
		name := api.EncodePath(c.Path)
		if c.Status == 'D' {
			by = append(by, Resource{Name: name, URI: worktreeURI(c.Path), Annotations: map[string]any{"change": "deleted"}})
			continue
		}
		st.Subject = append(st.Subject, Resource{Name: name, Digest: map[string]string{"gitBlob": c.ID}})
	}
	deps := []Resource{{Name: "target", URI: "git:refs/heads/" + m.data.Target, Digest: commit(parents[0])}}
	if len(parents) > 1 {
		deps = append(deps, Resource{Name: "branch", URI: "git:refs/heads/" + m.data.Branch, Digest: commit(parents[1])})
	}
	for _, p := range u.inputs {
		deps = append(deps, Resource{Name: p, URI: worktreeURI(p), Annotations: map[string]any{"opened": "read"}})
	}
	tasks := []Task{}
	for _, id := range m.data.Tasks {
		tasks = append(tasks, Task{ID: id, Prompt: m.prompts[id]})
	}
	var policy any
	if len(m.agent.Policy) > 0 {
		policy = m.agent.Policy
	}
	st.Predicate = Predicate{
		BuildDefinition: BuildDefinition{BuildType: BuildType, ResolvedDependencies: deps,
			ExternalParameters: ExternalParameters{Workspace: s.Workspace, Target: m.data.Target, Branch: m.data.Branch, Tasks: tasks},
			InternalParameters: InternalParameters{Agent: m.receipt.Agent, BaseType: m.agent.BaseType, Role: m.agent.Role, Policy: policy, Models: u.models, Checked: m.data.Log != "", NotRecorded: missing}},
		RunDetails: RunDetails{Builder: Builder{ID: BuilderID}, Byproducts: by,
			Metadata: Metadata{InvocationID: m.receipt.Hash, StartedOn: stamp(m.since), FinishedOn: stamp(m.receipt.Time)}},
	}
	return st, nil
}

func commit(id string) map[string]string { return map[string]string{"gitCommit": id} }

// worktreeURI names a file of a worktree.
func worktreeURI(path string) string {
	return "worktree:" + strings.ReplaceAll(url.PathEscape(path), "%2F", "/")
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
