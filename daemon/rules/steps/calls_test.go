package steps

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
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
