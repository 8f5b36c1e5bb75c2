package offer

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheSwitchIsTurnedAndTurnedBack(t *testing.T) {
	before, err := Given()
	if errors.Is(err, ErrNone) {
		_, err = Set(true)
		require.ErrorIs(t, err, ErrNone)
		return
	}
	require.NoError(t, err)
	if os.Geteuid() != 0 {
		_, err := Set(!before)
		require.ErrorIs(t, err, os.ErrPermission)
		return
	}
	for _, on := range []bool{!before, !before, before} {
		_, err := Set(on)
		require.NoError(t, err)
		now, err := Given()
		require.NoError(t, err)
		require.Equal(t, on, now)
	}
}
