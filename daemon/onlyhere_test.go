package daemon

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
	"polis/daemon/api/wire"
)

// Whatever an agent does in its repository, whenever its branch is merged, and wherever the daemon dies:
// the patrol removes nothing that exists only in the agent (seed 004, "Auto-Nuke Safety Protocol").
// The repositories, and all that measures, saves and removes, are real.
func TestWorkThatExistsOnlyInARepositoryIsNeverRemoved(t *testing.T) {
	h := newOnlyHere(t)
	defer func() { h.m.Close() }()
	ctx := context.Background()
	agents, files, removed, kept, deaths := 0, 0, 0, 0, map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		for _, a := range h.m.List(ctx, "") {
			_, err := h.m.Remove(ctx, a.Name, true, false)
			require.NoError(rt, err)
		}
		clear(h.queue.waits)
		agents++
		name := fmt.Sprintf("a%d", agents)
		_, err := h.m.Add(ctx, api.AddRequest{Name: name, BaseType: "custom", AgentSpec: api.AgentSpec{Command: []string{"do"}}, Ephemeral: true})
		require.NoError(rt, err)
		made := []string{} // all files that the agent ever made, none of which it removed
		write := func() {
			files++
			file := fmt.Sprintf("f%d", files)
			h.write(rt, name, file)
			made = append(made, file)
		}
		commit := func() {
			if asNobody(rt, h.tree(name), "status", "--porcelain") != "" {
				asNobody(rt, h.tree(name), "add", "-A")
				asNobody(rt, h.tree(name), "commit", "-qm", "work")
			}
		}
		end := func(done *wire.TaskDone) {
			st := h.shims.status[name]
			if st == nil || !st.Running {
				return
			}
			code := 0
			st.Running, st.ExitCode, st.Done = false, &code, done
			require.NoError(rt, h.m.Reconcile(ctx, name, h.created(name), st.Generation))
		}
		_, err = h.m.Run(ctx, name, api.RunRequest{Prompt: "work"})
		require.NoError(rt, err)
		cleanUp := func() {
			during := map[string]func(){"nothing": nil, "writes": write, "commits": func() { write(); commit() }, "lands": func() { h.land(rt, name) }}
			at := h.cleanUp(rt, name, rapid.IntRange(0, 16).Draw(rt, "dies at"), rapid.SampledFrom([]string{"cleanup:measured", "cleanup:stopped"}).Draw(rt, "during"),
				during[rapid.SampledFrom([]string{"nothing", "nothing", "writes", "commits", "lands"}).Draw(rt, "what")])
			deaths[at]++
		}
		for range rapid.IntRange(1, 6).Draw(rt, "steps") {
			if !h.there(name) {
				break
			}
			switch rapid.SampledFrom([]string{"write", "commit", "commit", "end", "stash", "detach", "land", "dies", "clean up", "clean up"}).Draw(rt, "step") {
			case "write":
				write()
			case "commit":
				write()
				commit()
			case "stash":
				write()
				if !h.stash(rt, name) {
					commit()
				}
			case "detach": // its commits are on no branch from here
				asNobody(rt, h.tree(name), "checkout", "-q", "--detach")
			case "end":
				end(&wire.TaskDone{At: time.Now(), By: api.EndDone, CleanupStatus: rapid.SampledFrom([]api.CleanupStatus{"", api.CleanupClean}).Draw(rt, "reports")})
			case "land":
				end(nil)
				h.land(rt, name)
			case "dies": // its shim
				if gen := h.shims.status[name]; gen != nil {
					delete(h.shims.status, name)
					require.NoError(rt, h.m.Reconcile(ctx, name, h.created(name), gen.Generation))
				}
			case "clean up":
				cleanUp()
			}
		}
		// The last word is the patrol's.
		if h.there(name) {
			if rapid.Bool().Draw(rt, "commits all") {
				commit()
			}
			end(nil)
			if rapid.IntRange(0, 3).Draw(rt, "is not merged") > 0 {
				h.land(rt, name)
			} else {
				delete(h.queue.waits, name)
				h.m.Dequeued(name)
			}
			cleanUp()
		}
		if h.there(name) {
			h.cleanUp(rt, name, 0, "", nil)
		}
		has := h.onTarget(rt)
		if h.there(name) {
			kept++
			has = append(has, h.of(rt, name)...)
		} else {
			removed++
		}
		for _, f := range made {
			require.Contains(rt, has, f, "agent %s, there: %v", name, h.there(name))
		}
	})
	t.Logf("%d removals, %d not, the daemon died at %v", removed, kept, deaths)
	if agents >= 50 { // with fewer runs, chance can leave out one of them
		require.NotZero(t, removed, "the test sees removals")
		require.NotZero(t, kept, "the test sees agents that stay")
	}
}
