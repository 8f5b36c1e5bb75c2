package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/history/provenance"
)

// TestTheProvenanceOfAMerge has what git and the receipts have, in the same bytes each time, also after the agent is
// gone and polisd was started again.
func TestTheProvenanceOfAMerge(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.worker("alice")
	before := strings.TrimSpace(git(t, d.bare(), "rev-parse", "main"))
	d.task("alice", "cat docs/guide.md >/dev/null; git rm -q src/a.txt; "+commitOf("new.txt", "new"))
	d.fate("alice", api.MergeMerged)
	out := ""
	d.eventually("its receipt", func() bool {
		out = d.must("receipts", "export", "--format", "in-toto")
		return out != ""
	})
	var st provenance.Statement
	require.NoError(t, json.Unmarshal([]byte(out), &st))
	merged := strings.TrimSpace(git(t, d.bare(), "rev-parse", "main"))
	require.Equal(t, map[string]string{"gitCommit": merged}, st.Subject[0].Digest)
	require.Equal(t, provenance.Resource{Name: "new.txt", Digest: map[string]string{"gitBlob": strings.TrimSpace(git(t, d.bare(), "rev-parse", "main:new.txt"))}}, st.Subject[1])
	def := st.Predicate.BuildDefinition
	require.Equal(t, "alice", def.InternalParameters.Agent)
	require.Equal(t, "custom", def.InternalParameters.BaseType)
	require.Len(t, def.ExternalParameters.Tasks, 1)
	require.Contains(t, def.ExternalParameters.Tasks[0].Prompt, "docs/guide.md")
	require.Equal(t, map[string]string{"gitCommit": before}, def.ResolvedDependencies[0].Digest)
	require.Equal(t, map[string]string{"gitCommit": strings.TrimSpace(git(t, d.bare(), "rev-parse", "main^2"))}, def.ResolvedDependencies[1].Digest)
	require.Contains(t, strings.Join(def.InternalParameters.NotRecorded, "\n"), "inputs: ")

	all := d.receipts("--type", api.EventAgentMerged).Receipts
	require.Len(t, all, 1)
	require.Equal(t, all[0].Hash, st.Predicate.RunDetails.Metadata.InvocationID)
	d.must("agents", "remove", "alice")
	d.stop()
	d.start()
	require.Equal(t, out, d.must("receipts", "export", "--format", "in-toto", "--merge", fmt.Sprint(all[0].Seq)))
	d.trials(t, tried{hint: "polisctl receipts show --type agent:merged lists them", refused: "receipts export --format in-toto --merge 1", do: []string{"receipts show --type agent:merged"}})
}

// TestTheProvenanceOfAMergeWithEverythingRecorded names the agent, what it began with, its models, what it read, what it
// made and removed, and that the check passed; its structure is that of the published specifications.
func TestTheProvenanceOfAMergeWithEverythingRecorded(t *testing.T) {
	needProgram(t, "curl")
	s := startModelService(t)
	d := startDaemon(t, options{config: auditFull + "[merge]\ncheck = \"test -e new.txt\"\n[models.claude]\nkind = \"anthropic\"\nurl = \"" + s.URL + "\"\n[gateway]\nmodels = [\"claude\"]\n"})
	d.up()
	d.worker("alice", "--role", "audited")
	before := strings.TrimSpace(git(t, d.bare(), "rev-parse", "main"))
	d.task("alice", askModel+`'{"model":"good-1"}' >/dev/null; cat docs/guide.md >/dev/null; git rm -q src/a.txt; `+commitOf("new.txt", "new"))
	d.fate("alice", api.MergeMerged)
	d.eventually("everything is recorded", func() bool {
		return d.opened("alice", "open", "docs/guide.md") != nil && strings.Contains(d.must("--json", "receipts", "show", "alice", "--type", api.EventModelUsed), "good-1") &&
			len(d.receipts("--type", api.EventAgentMerged).Receipts) == 1
	})
	out := d.must("receipts", "export", "--format", "in-toto")
	require.Equal(t, 1, strings.Count(out, "\n"))

	var schema jsonschema.Schema
	decode(t, readFile("../daemon/history/provenance/testdata/statement.schema.json"), &schema)
	rules, err := schema.Resolve(nil)
	require.NoError(t, err)
	var whole any
	decode(t, out, &whole)
	require.NoError(t, rules.Validate(whole))

	var st provenance.Statement
	decode(t, out, &st)
	merged := strings.TrimSpace(git(t, d.bare(), "rev-parse", "main"))
	require.Equal(t, []provenance.Resource{{Name: "refs/heads/main", Digest: map[string]string{"gitCommit": merged}},
		{Name: "new.txt", Digest: map[string]string{"gitBlob": strings.TrimSpace(git(t, d.bare(), "rev-parse", "main:new.txt"))}}}, st.Subject)
	in := st.Predicate.BuildDefinition.InternalParameters
	require.Equal(t, "alice", in.Agent)
	require.Equal(t, []string{"good-1"}, in.Models)
	require.True(t, in.Checked)
	require.Empty(t, in.NotRecorded)
	var inputs []string
	for _, r := range st.Predicate.BuildDefinition.ResolvedDependencies {
		inputs = append(inputs, r.URI)
	}
	require.Equal(t, map[string]string{"gitCommit": before}, st.Predicate.BuildDefinition.ResolvedDependencies[0].Digest)
	require.Contains(t, inputs, "worktree:docs/guide.md")
	require.True(t, slices.ContainsFunc(st.Predicate.RunDetails.Byproducts, func(r provenance.Resource) bool {
		return strings.HasSuffix(r.URI, "src/a.txt") && r.Annotations["change"] == "deleted"
	}), "%+v", st.Predicate.RunDetails.Byproducts)
}
