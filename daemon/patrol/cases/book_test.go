package cases

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
)

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func sample(agent string) api.Case {
	return api.Case{State: api.CaseZombieDetected, Kind: "stalled", Workspace: "w", Agent: agent, Incident: "1/7/", Evidence: []string{"no output"}, Next: "do"}
}

func newBook() (b *Book, saved *Kept, said *[]string) {
	saved, said = &Kept{}, &[]string{}
	now := began
	b = &Book{Now: func() time.Time { now = now.Add(time.Second); return now },
		Save:    func(k Kept) error { *saved = k; return nil },
		Changed: func(what Change, c api.Case) { *said = append(*said, fmt.Sprintf("%s %s", c.ID, what)) }}
	return b, saved, said
}

func TestOneIncidentIsOneCase(t *testing.T) {
	b, saved, said := newBook()
	c, fresh, err := b.Open(sample("a"))
	require.NoError(t, err)
	require.True(t, fresh)
	require.Equal(t, "case-1", c.ID)
	again, fresh, err := b.Open(sample("a"))
	require.NoError(t, err)
	require.False(t, fresh)
	require.Equal(t, "case-1", again.ID)
	require.Equal(t, 2, again.Seen)
	more := sample("a")
	more.State, more.Evidence = api.CasePending, []string{"a file is not committed"}
	_, fresh, err = b.Open(more)
	require.NoError(t, err)
	require.False(t, fresh)
	other := sample("a")
	other.Incident = "2/7/"
	_, fresh, err = b.Open(other)
	require.NoError(t, err)
	require.True(t, fresh)
	require.Equal(t, []string{"case-1 opened", "case-1 updated", "case-2 opened"}, *said)
	require.Equal(t, api.CaseDigest{Open: 2, Pending: 1, ZombieDetected: 1}, b.Digest())
	require.Len(t, saved.Cases, 2)
	require.Empty(t, b.List("other", true))
}

func TestAPersonsAnswerHoldsForTheIncident(t *testing.T) {
	b, _, _ := newBook()
	c, _, err := b.Open(sample("a"))
	require.NoError(t, err)
	got, err := b.Resolve(c.ID, "root", "it may wait\nfor days")
	require.NoError(t, err)
	require.Equal(t, api.CaseResolved, got.State)
	require.Equal(t, "it may wait for days", got.Resolution.How)
	require.Equal(t, []string{"no output"}, got.Evidence)
	_, err = b.Resolve(c.ID, "root", "")
	require.Equal(t, api.CodeBadState, api.CodeOf(err))
	_, err = b.Resolve("case-99", "root", "")
	require.Equal(t, api.CodeNotFound, api.CodeOf(err))
	same, fresh, err := b.Open(sample("a"))
	require.NoError(t, err)
	require.False(t, fresh)
	require.False(t, same.Open())
	require.Empty(t, b.List("", false))
	require.Empty(t, b.List("", true)[0].Evidence, "the digest has none")
}

func TestWhatTheFactsSettledCanComeBack(t *testing.T) {
	b, _, said := newBook()
	_, _, err := b.Open(sample("a"))
	require.NoError(t, err)
	out, err := b.Settle(func(c api.Case) bool { return c.Agent == "a" }, "it prints")
	require.NoError(t, err)
	require.Len(t, out, 1)
	require.Empty(t, out[0].Resolution.By)
	spins := sample("a")
	spins.Kind = "spinning"
	c, fresh, err := b.Open(spins)
	require.NoError(t, err)
	require.True(t, fresh)
	require.Equal(t, "case-1", c.ID, "it is the same case")
	require.Equal(t, []any{"spinning", 2, out[0].Opened}, []any{c.Kind, c.Seen, c.Opened})
	require.Nil(t, c.Resolution)
	require.Equal(t, []string{"case-1 opened", "case-1 resolved", "case-1 updated"}, *said)
	_, err = b.Settle(func(c api.Case) bool { return c.Agent == "a" }, "it prints")
	require.NoError(t, err)
	b.Now = func() time.Time { return began.Add(2 * time.Hour) }
	c, fresh, err = b.Open(sample("a"))
	require.NoError(t, err)
	require.True(t, fresh)
	require.Equal(t, "case-2", c.ID, "that was long ago")
	dead := sample("a")
	dead.Kind = "agent-dead"
	for _, want := range []string{"case-3", "case-4"} {
		c, _, err = b.Open(dead)
		require.NoError(t, err)
		require.Equal(t, want, c.ID, "another kind is a case each time")
		_, err = b.Settle(func(c api.Case) bool { return c.ID == want }, "it lives")
		require.NoError(t, err)
	}
}

func TestWhatIsNotSavedDoesNotHappen(t *testing.T) {
	b, _, said := newBook()
	c, _, err := b.Open(sample("a"))
	require.NoError(t, err)
	full := errors.New("no space")
	b.Save = func(Kept) error { return full }
	_, _, err = b.Open(sample("b"))
	require.ErrorIs(t, err, full)
	_, err = b.Resolve(c.ID, "root", "")
	require.Equal(t, api.CodeStateNotSaved, api.CodeOf(err))
	out, err := b.Settle(func(api.Case) bool { return true }, "")
	require.ErrorIs(t, err, full)
	require.Empty(t, out)
	require.Len(t, b.List("", false), 1)
	require.Len(t, *said, 1)
}

func TestWrongCasesAreNotOpened(t *testing.T) {
	for name, f := range map[string]func(c *api.Case){
		"no agent": func(c *api.Case) { c.Agent = "" }, "no kind": func(c *api.Case) { c.Kind = "" },
		"resolved": func(c *api.Case) { c.State = api.CaseResolved }, "unknown state": func(c *api.Case) { c.State = "x" },
	} {
		t.Run(name, func(t *testing.T) {
			b, _, _ := newBook()
			c := sample("a")
			f(&c)
			_, _, err := b.Open(c)
			require.ErrorContains(t, err, "all must be given")
		})
	}
}

func TestCasesAreBounded(t *testing.T) {
	b, _, _ := newBook()
	c := sample("a")
	c.Evidence = slices.Repeat([]string{strings.Repeat("x", 5000)}, 100)
	c.Incident = "0"
	kept, _, err := b.Open(c)
	require.NoError(t, err)
	require.Len(t, kept.Evidence, maxEvidence)
	require.LessOrEqual(t, len(kept.Evidence[0]), maxText+3)
	for i := 1; i < maxOpen; i++ {
		c.Incident = fmt.Sprint(i)
		_, _, err = b.Open(c)
		require.NoError(t, err)
	}
	c.Incident = "one more"
	_, _, err = b.Open(c)
	require.ErrorIs(t, err, ErrFull)
	_, err = b.Settle(func(api.Case) bool { return true }, "")
	require.NoError(t, err)
	require.Equal(t, maxResolved, b.Digest().Resolved)
	require.Equal(t, fmt.Sprintf("case-%d", maxOpen), b.List("", true)[maxResolved-1].ID, "the newest stay")
}

func TestLoadDropsWhatIsNoCase(t *testing.T) {
	b, _, _ := newBook()
	good := sample("a")
	good.ID = "case-7"
	wrong := []api.Case{{ID: "case-8"}, {ID: "x", Agent: "a", Kind: "k", State: api.CasePending},
		{ID: "case-9", Agent: "a", Kind: "k", State: "y"}, {ID: "case-10", Agent: "a", Kind: "k", State: api.CaseResolved}}
	b.Load(Kept{Last: 2, Cases: append(wrong, good)})
	require.Equal(t, []api.Case{good}, b.List("", true))
	c, _, err := b.Open(sample("b"))
	require.NoError(t, err)
	require.Equal(t, "case-8", c.ID, "numbers are not given out again")
}

// Over any sequence of changes and restarts, a case is open until something resolved it, one per
// incident, and numbers are never given out again.
func TestBookModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b, saved, _ := newBook()
		open, settled, answered, last := map[string]string{}, map[string]string{}, map[string]bool{}, 0
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			c := sample(rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "agent"))
			c.Incident = rapid.SampledFrom([]string{"1", "2"}).Draw(rt, "incident")
			key := c.Agent + c.Incident
			switch rapid.IntRange(0, 3).Draw(rt, "step") {
			case 0:
				kept, fresh, err := b.Open(c)
				require.NoError(rt, err)
				require.Equal(rt, open[key] == "" && !answered[key], fresh)
				if fresh {
					want := settled[key]
					if want == "" {
						last++
						want = fmt.Sprintf("case-%d", last)
					}
					require.Equal(rt, want, kept.ID)
					open[key] = kept.ID
				}
			case 1:
				if id := open[key]; id != "" {
					_, err := b.Resolve(id, "root", "")
					require.NoError(rt, err)
					answered[key] = true
					delete(open, key)
				}
			case 2:
				_, err := b.Settle(func(o api.Case) bool { return o.Agent == c.Agent }, "")
				require.NoError(rt, err)
				for _, key := range []string{c.Agent + "1", c.Agent + "2"} {
					if id := open[key]; id != "" {
						settled[key] = id
					}
					delete(open, key)
				}
			case 3: // a restart
				text, err := json.Marshal(*saved)
				require.NoError(rt, err)
				var k Kept
				require.NoError(rt, json.Unmarshal(text, &k))
				b, saved, _ = newBook()
				*saved = k
				b.Load(k)
			}
			require.Equal(rt, len(open), b.Digest().Open)
		}
	})
}
