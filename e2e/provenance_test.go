package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/provenance"
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
