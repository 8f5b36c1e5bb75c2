package api

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheHintOfACauseIsKept(t *testing.T) {
	cause := Errorf(CodeNotFound, "the project is gone").WithHint("bring it back")
	require.Equal(t, "bring it back", Errorf(CodeInternal, "fetch: %w", cause).Hint)
	require.Equal(t, "bring it back", Errorf(CodeInternal, "fetch: %w", fmt.Errorf("read: %w", cause)).Hint, "wherever it is")
	require.Equal(t, "bring it back", Errorf(CodeInternal, "fetch: %w, %w", errors.New("x"), cause).Hint)
	require.Equal(t, "own", Errorf(CodeInternal, "fetch: %w", cause).WithHint("own").Hint, "one of its own takes precedence")
	require.Empty(t, Errorf(CodeInternal, "fetch: %v", cause).Hint)
}
