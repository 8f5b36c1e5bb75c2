package agent

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/api/wire"
)

// brokenPorts are shims that cannot make the way in to some external ports.
type brokenPorts struct {
	fakeShims
	broken map[int]api.Code
	asked  *[]int
}

func (b brokenPorts) Dial(name string) Shim { return brokenPort{fakeShim{b.k, name}, b} }

type brokenPort struct {
	fakeShim
	b brokenPorts
}

func (s brokenPort) AddPort(_ context.Context, r wire.PortRequest) error {
	*s.b.asked = append(*s.b.asked, r.External)
	if code := s.b.broken[r.External]; code != "" {
		return api.Errorf(code, "port %d cannot be opened", r.External)
	}
	return nil
}

func TestAPortThatCannotBeOpenedIsReplacedByAnother(t *testing.T) {
	const lo = 3001
	broken := func(code api.Code, n int) map[int]api.Code {
		m := map[int]api.Code{}
		for i := range n {
			m[lo+i] = code
		}
		return m
	}
	for name, c := range map[string]struct {
		broken map[int]api.Code
		tries  int
		code   api.Code
	}{
		"nothing is wrong":              {tries: 1},
		"its bridge failed":             {broken: broken(api.CodeBridgeFailed, 1), tries: 2},
		"three bridges failed":          {broken: broken(api.CodeBridgeFailed, 3), tries: 4},
		"every bridge failed":           {broken: broken(api.CodeBridgeFailed, 40), tries: 4, code: api.CodeBridgeFailed},
		"another program was quicker":   {broken: broken(api.CodePortInUse, 10), tries: 11},
		"the shim cannot be reached":    {broken: broken(api.CodeShimUnavailable, 1), tries: 1, code: api.CodeShimUnavailable},
		"the address is not the host's": {broken: broken(api.CodeBadRequest, 1), tries: 1, code: api.CodeBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t.TempDir())
			t.Cleanup(w.Close)
			w.mem.fakePorts = newFakePorts(lo, lo+40)
			w.Manager.Ports = w.mem
			var asked []int
			w.Shims = brokenPorts{fakeShims{thing{w.k, "shim"}}, c.broken, &asked}
			_, err := w.Add(t.Context(), api.AddRequest{Name: "a1", BaseType: "custom", AgentSpec: api.AgentSpec{Command: []string{"sleep"}}})
			require.NoError(t, err)
			added, err := w.MapPort(t.Context(), api.PortRequest{Agent: "a1", Protocol: api.ProtoTCP, Internal: 8080})
			require.Len(t, asked, c.tries)
			if c.code != "" {
				require.Equal(t, c.code, api.CodeOf(err))
				require.Empty(t, w.PortMappings())
				require.Empty(t, w.mem.pool.Held(), "what could not be opened is given back")
				return
			}
			require.NoError(t, err)
			require.Equal(t, asked[len(asked)-1], added.External)
		})
	}
}
