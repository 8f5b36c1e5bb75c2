package shim

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStepsAreUndoneInReverseOrder(t *testing.T) {
	var order []string
	step := func(name string, err error) func(context.Context) error {
		return func(context.Context) error {
			order = append(order, name)
			return err
		}
	}
	var s, network undoList
	broken := errors.New("broken")
	s.onClose("goroutines", step("goroutines", nil))
	s.onClose("network", network.unwind)
	// The network is opened beside the view, so its steps are registered at any time.
	wait := beside(func() error {
		network.onClose("namespace", step("namespace", nil))
		network.onClose("resolver", step("resolver", broken))
		return nil
	})
	s.onClose("view", step("view", nil))
	s.onEnd("leases", step("leases", nil))
	s.onClose("sandbox", step("sandbox", nil))
	require.NoError(t, wait())
	require.ErrorIs(t, s.unwind(t.Context()), broken)
	require.Equal(t, []string{"sandbox", "view", "resolver", "namespace", "goroutines", "leases"}, order)
	require.NoError(t, s.unwind(t.Context()), "nothing is undone twice")
	require.Len(t, order, 6)
}
