package store

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func drawPortMap(t *rapid.T) PortMap {
	return PortMap{Internal: rapid.IntRange(1, 65535).Draw(t, "in"), External: rapid.IntRange(1, 65535).Draw(t, "ex"),
		Protocol: rapid.SampledFrom([]string{"tcp", "udp"}).Draw(t, "protocol"), Bind: rapid.SampledFrom([]string{"", "::1", "0.0.0.0"}).Draw(t, "bind"),
		Auto: rapid.Bool().Draw(t, "auto"), Off: rapid.Bool().Draw(t, "off")}
}

func TestPortMapsAreWrittenAsPairs(t *testing.T) {
	for text, p := range map[string]PortMap{
		`[3000,3001]`:               {Internal: 3000, External: 3001, Protocol: "tcp"},
		`[3000,3001,{"auto":true}]`: {Internal: 3000, External: 3001, Protocol: "tcp", Auto: true},
		`[53,3001,{"protocol":"udp","bind":"::","off":true}]`: {Internal: 53, External: 3001, Protocol: "udp", Bind: "::", Off: true},
	} {
		b, err := json.Marshal(p)
		require.NoError(t, err)
		require.Equal(t, text, string(b))
		var got PortMap
		require.NoError(t, json.Unmarshal(b, &got))
		require.Equal(t, p, got)
		var older [2]int // how the polisd before read it
		require.NoError(t, json.Unmarshal(b, &older))
		require.Equal(t, [2]int{p.Internal, p.External}, older)
	}
	var newer PortMap
	require.NoError(t, json.Unmarshal([]byte(`[1,2,{"auto":true,"more":1},"more"]`), &newer))
	require.Equal(t, PortMap{Internal: 1, External: 2, Protocol: "tcp", Auto: true}, newer)
	rapid.Check(t, func(t *rapid.T) {
		p := drawPortMap(t)
		b, err := json.Marshal(p)
		require.NoError(t, err)
		var got PortMap
		require.NoError(t, json.Unmarshal(b, &got))
		require.Equal(t, p, got)
	})
}

func FuzzPortMap(f *testing.F) {
	for _, s := range []string{`[3000,3001]`, `[]`, `[1]`, `{}`, `[1,2,3]`, `["1",2]`, `[1,2,{"protocol":"udp"}]`, `null`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var p PortMap
		if json.Unmarshal(b, &p) != nil {
			return
		}
		out, err := json.Marshal(p)
		require.NoError(t, err)
		var again PortMap
		require.NoError(t, json.Unmarshal(out, &again))
		require.Equal(t, p, again)
	})
}
