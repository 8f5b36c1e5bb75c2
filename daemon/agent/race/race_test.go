package race

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestStat(t *testing.T) {
	for text, want := range map[string][3]int{
		"": {},
		" a | 2 +-\n 1 file changed, 1 insertion(+), 1 deletion(-)\n":                               {1, 1, 1},
		" a | 9 +\n b | 1 -\n 12 files changed, 345 insertions(+)\n":                                {12, 345, 0},
		" a | 0\n 1 file changed, 7 deletions(-)":                                                   {1, 0, 7},
		" a | 0\n 1 file changed, 7 deletions(-)\n more":                                            {},
		" 9 files changed, 9 insertions(+)\n b | 1 +\n 2 files changed, 3 insertions(+)":            {2, 3, 0},
		" 99999999999999999999999 files changed, 1 insertion(+), 99999999999999999999 deletions(-)": {0, 1, 0},
	} {
		files, ins, del := Stat(text)
		require.Equal(t, want, [3]int{files, ins, del}, text)
	}
}

func TestBest(t *testing.T) {
	zero, one := 0, 1
	racer := func(name string, f func(*api.Racer)) api.Racer {
		r := api.Racer{Agent: name, State: api.RacerEnded, OK: true, Commits: 1, Insertions: 10, Seconds: 5, CheckCode: &zero}
		if f != nil {
			f(&r)
		}
		return r
	}
	for _, c := range []struct {
		name   string
		racers []api.Racer
		want   string
	}{
		{"nobody", nil, ""},
		{"failed check", []api.Racer{racer("a", func(r *api.Racer) { r.CheckCode = &one })}, ""},
		{"no check", []api.Racer{racer("a", func(r *api.Racer) { r.CheckCode = nil })}, ""},
		{"nothing done", []api.Racer{racer("a", func(r *api.Racer) { r.Commits = 0 })}, ""},
		{"ended badly", []api.Racer{racer("a", func(r *api.Racer) { r.OK = false })}, ""},
		{"cancelled", []api.Racer{racer("a", func(r *api.Racer) { r.State = api.RacerCancelled })}, ""},
		{"fewer lines", []api.Racer{racer("a", nil), racer("b", func(r *api.Racer) { r.Insertions = 1 })}, "b"},
		{"fewer conflicts", []api.Racer{racer("a", nil), racer("b", func(r *api.Racer) { r.Insertions, r.Conflicts = 1, []string{"x"} })}, "a"},
		{"faster", []api.Racer{racer("a", nil), racer("b", func(r *api.Racer) { r.Seconds = 1 })}, "b"},
		{"the first of equals", []api.Racer{racer("a", nil), racer("b", nil)}, "a"},
	} {
		require.Equal(t, c.want, Best(api.Race{Request: api.RaceRequest{Check: "x"}, Racers: c.racers}), c.name)
	}
}

func TestRivals(t *testing.T) {
	x := api.Race{Racers: []api.Racer{{Agent: "a"}, {Agent: "b"}}}
	c := api.Conflicts{Target: "main", Merges: []api.ConflictMerge{{Agents: []string{"a", "b"}}, {Agents: []string{"c", "a"}}, {Agents: []string{"a"}}, {Agents: []string{"c", "d"}}, {Agents: []string{"a", "e"}, Error: "x"}}}
	require.Equal(t, []string{"c", "main"}, Rivals("a", x, c))
	require.Empty(t, Rivals("b", x, c))
}

func TestRequestsThatNoRaceIsMadeOf(t *testing.T) {
	ok := api.RaceRequest{Task: "x", Agents: []string{"custom"}}
	require.NoError(t, check(ok))
	for name, f := range map[string]func(*api.RaceRequest){
		"task":   func(r *api.RaceRequest) { r.Task = " " },
		"agents": func(r *api.RaceRequest) { r.Agents = nil },
		"many":   func(r *api.RaceRequest) { r.N = api.MaxRacers + 1 },
		"fewer":  func(r *api.RaceRequest) { r.N = -1 },
		"check":  func(r *api.RaceRequest) { r.Check = "a\x00b" },
		"time":   func(r *api.RaceRequest) { r.Seconds = -1 },
		"both":   func(r *api.RaceRequest) { r.First, r.Judge = true, true },
	} {
		req := ok
		f(&req)
		require.Equal(t, api.CodeBadRequest, api.CodeOf(check(req)), name)
	}
}
