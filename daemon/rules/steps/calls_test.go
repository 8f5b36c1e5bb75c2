package steps

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestAProgramThatReportsCallsAtTheirEndDoesNotBegin: the patrol must know that one can be under way.
func TestAProgramThatReportsCallsAtTheirEndDoesNotBegin(t *testing.T) {
	require.False(t, New("opencode").Begins())
	for _, format := range Formats() {
		require.Equal(t, format != "opencode", New(format).Begins(), format)
	}
	s := New("claude")
	for i := range maxPending {
		s.await(fmt.Sprint(i), "a call")
	}
	require.True(t, s.Begins())
	s.await("more", "a call")
	require.False(t, s.Begins(), "some were forgotten")
	s = New("claude")
	s.await("", "a call")
	require.False(t, s.Begins(), "it has no name by which its end is known")
}

// TestAStepHasHowItsCallEnded, and how long it took, also if others began meanwhile or older ones were dropped.
func TestAStepHasHowItsCallEnded(t *testing.T) {
	at := time.Unix(1000, 0)
	s := New("claude")
	s.Now = func() time.Time { return at }
	s.call("a", "Bash", []byte(`{"command":"make"}`))
	s.call("b", "Bash", []byte(`{"command":"make test"}`))
	s.say("I wait.")
	at = at.Add(12340 * time.Millisecond)
	s.ended("a")
	s.ended("a") // it is reported twice
	at = at.Add(time.Second)
	s.failed("b", "exit status 2")
	kept, _ := s.Kept()
	require.Len(t, kept, 4)
	require.True(t, kept[0].Passed)
	require.InDelta(t, 12.3, kept[0].Took, 0.001)
	require.False(t, kept[1].Passed)
	require.InDelta(t, 13.3, kept[1].Took, 0.001)
	require.Equal(t, api.StepFailed, kept[3].Kind)
	require.Zero(t, kept[3].Took)

	s.call("old", "Bash", []byte(`{"command":"one"}`))
	for i := range MaxKept {
		s.say(fmt.Sprint("text ", i))
	}
	s.ended("old")
	kept, _ = s.Kept()
	for _, st := range kept {
		require.False(t, st.Passed, "the step of the call is not kept any more")
	}
	late := New("opencode")
	late.Now = func() time.Time { return at }
	late.call("x", "bash", []byte(`{"command":"make"}`))
	at = at.Add(time.Minute)
	late.ended("x")
	kept, _ = late.Kept()
	require.True(t, kept[0].Passed)
	require.Zero(t, kept[0].Took, "it is not known when it began")
}
