package patrol

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestWhatWasLearnedOfAnAgentThatStandsCountsLonger(t *testing.T) {
	for _, c := range []struct {
		age   time.Duration
		stood bool
		want  bool
	}{
		{0, false, true}, {59 * time.Second, false, true}, {time.Minute, false, false}, {9 * time.Minute, false, false},
		{time.Minute, true, true}, {9 * time.Minute, true, true}, {10 * time.Minute, true, false}, {time.Hour, true, false},
	} {
		require.Equal(t, c.want, Recent(c.age, c.stood), "%+v", c)
	}
}

// TestASuspectThatStandsIsNotProbedAgain: what it waits for is known until it runs, is found in another
// state, or the knowledge is old.
func TestASuspectThatStandsIsNotProbedAgain(t *testing.T) {
	of := func(change func(*Suspect)) Suspect {
		s := Suspect{Observed: at(0), Class: api.PatrolStalled, Since: began}
		change(&s)
		s.key = keyOf(s.Observed)
		return s
	}
	same := func(*Suspect) {}
	var w Waited
	now := began.Add(time.Hour)
	_, ok := w.Known(now, of(same), true)
	require.False(t, ok, "nothing is known yet")
	w.Note(now, of(same), Waits{Unknown: true, For: "something unknown"})
	_, ok = w.Known(now, of(same), true)
	require.False(t, ok, "what could not be found out is tried again")

	w.Note(now, of(same), Waits{Connections: 2})
	for name, c := range map[string]struct {
		s     Suspect
		after time.Duration
		stood bool
		want  bool
	}{
		"it stands":                      {of(same), time.Minute, true, true},
		"it ran":                         {of(same), time.Second, false, false},
		"it is long ago":                 {of(same), 10 * time.Minute, true, false},
		"another class":                  {of(func(s *Suspect) { s.Class = api.PatrolTaskClosed }), time.Second, true, false},
		"since another time":             {of(func(s *Suspect) { s.Since = began.Add(1) }), time.Second, true, false},
		"another program":                {of(func(s *Suspect) { s.PID = 8 }), time.Second, true, false},
		"another generation":             {of(func(s *Suspect) { s.Generation = 9 }), time.Second, true, false},
		"another agent":                  {of(func(s *Suspect) { s.Agent = "b" }), time.Second, true, false},
		"another process of that number": {of(func(s *Suspect) { s.Began = 5 }), time.Second, true, false},
	} {
		got, ok := w.Known(now.Add(c.after), c.s, c.stood)
		require.Equal(t, c.want, ok, name)
		if ok {
			require.Equal(t, Waits{Connections: 2}, got, name)
		}
	}
	w.Forget([]Suspect{of(same)})
	_, ok = w.Known(now, of(same), true)
	require.True(t, ok)
	w.Forget(nil)
	_, ok = w.Known(now, of(same), true)
	require.False(t, ok, "it was no suspect in the meantime")
}
