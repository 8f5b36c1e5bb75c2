package e2e

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// Projects that are not the recorded ones, and directories that cannot be one.
func TestHintsAboutMovedProjects(t *testing.T) {
	x := newExchangers(t, false)
	moved := x.path("mallory/moved")
	x.add("alice")
	x.asMallory("mv a/project moved")
	x.trials(t,
		tried{hint: "polisctl agents stop NAME stops one: its sandbox shows the project as it was", refused: "workspace move ws " + moved,
			do: []string{"agents stop alice"}, then: true})
	x.asMallory("mv moved a/project")
	x.trials(t,
		tried{hint: "put the project back; if it was moved or cloned again on purpose: polisctl workspace move %s PATH", refused: "agents start alice",
			do: []string{"workspace move ws " + x.project}, then: true})
	x.must("agents", "stop", "alice")
	require.NoError(t, os.WriteFile(x.path("ws/.polis/project.json"), []byte("{"), 0o600))
	x.trials(t,
		tried{hint: "polisctl workspace move %s PATH records the project again", refused: "agents start alice",
			do: []string{"workspace move ws " + x.project}, then: true})
	x.must("agents", "stop", "alice")

	// Another repository, and another user's.
	x.asMallory("git init -q -b main other; git -C other -c user.name=x -c user.email=x@example.com commit -q --allow-empty -m other")
	x.trials(t,
		tried{hint: "polisctl up --repo %s makes a workspace for it", refused: "workspace move ws " + x.path("mallory/other"),
			do: []string{"up --repo " + x.path("mallory/other") + " " + x.path("ws2")}})
	require.NoError(t, os.Mkdir(x.path("victim/given"), 0o755))
	require.NoError(t, os.Chown(x.path("victim/given"), mallory, mallory))
	x.hinted("each directory above a project must belong to root or to the owner of the project: move it, or chown it", "up", "--repo", x.path("victim/given"), x.path("ws3"))
	require.NoError(t, os.Chown(x.path("victim"), mallory, mallory))
	x.must("up", "--repo", x.path("victim/given"), x.path("ws3"))

	// The owner of the shared repository has replaced its configuration.
	config := x.path("ws/.polis/bare-repo.git/config")
	was := readFile(config)
	require.NoError(t, os.Remove(config))
	require.NoError(t, os.WriteFile(config, []byte("[core]\n\tsshCommand = touch "+x.path("ran-as-mallory")+"\n"), 0o644))
	require.NoError(t, os.Chown(config, mallory, mallory))
	x.refused(api.CodeRepoCorrupt, "agents", "pr", "alice")
	require.NoFileExists(t, x.path("ran-as-mallory"))
	require.NoError(t, os.Remove(config))
	require.NoError(t, os.WriteFile(config, []byte(was), 0o644))
}
