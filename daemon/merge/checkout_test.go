package merge

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestARevertReportsTheCheckout(t *testing.T) {
	for _, c := range []struct {
		update        CheckoutUpdate
		err           error
		project, note string
	}{
		{CheckoutUpdate{Updated: true, Files: true}, nil, "updated", ""},
		{CheckoutUpdate{Updated: true, Target: "main"}, nil, "branch updated", "the checkout of the project is not on branch main; its files are as before"},
		{CheckoutUpdate{Reason: "it has changes", Command: "git merge x"}, nil, "left alone", "it has changes; git merge x"},
		{CheckoutUpdate{Reason: "it has changes"}, nil, "left alone", "it has changes"},
		{CheckoutUpdate{}, errors.New("no space"), "", "the revert is done, but the project's checkout could not be updated: no space"},
	} {
		project, note := c.update.AfterRevert(c.err)
		require.Equal(t, c.project, project)
		require.Equal(t, c.note, note)
	}
}
