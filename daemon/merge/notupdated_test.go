package merge

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWhatIsTheOwnersIsNotCalledChanged: a file that git refused to overwrite is as before, too.
func TestWhatIsTheOwnersIsNotCalledChanged(t *testing.T) {
	full := errors.New("no space")
	err := notUpdated([]string{"a.txt"}, full)
	require.ErrorIs(t, err, full)
	require.EqualError(t, err, "the checkout could not be updated and is as before, with your own changes of \"a.txt\": no space")
	require.EqualError(t, notUpdated(nil, full), "the checkout could not be updated and is as before: no space")
}
