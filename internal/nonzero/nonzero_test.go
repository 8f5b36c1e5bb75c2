package nonzero

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type part struct{ A, B string }

type whole struct {
	part
	Bool    bool
	Small   int8
	Byte    uint8
	Port    uint16
	Number  int64
	Part    float64
	Pointer *part
	List    []part
	Two     [2]string
	Map     map[string]part
	Time    time.Time
	Any     any
	own     int
}

type list struct{ Next *list }

func TestNoFieldIsZero(t *testing.T) {
	v := Of[whole]()
	require.Equal(t, []string{"A", "B"}, Missing(v), "an embedded struct that is not exported cannot be set")
	require.Zero(t, v.own)
	require.NotEqual(t, v.Two[0], v.Two[1])
	require.Empty(t, Missing(*v.Pointer))
	require.Empty(t, Missing(v.List[0]))
	for key, elem := range v.Map {
		require.NotEmpty(t, key)
		require.Empty(t, Missing(elem))
	}
	require.Len(t, v.Map, 1)
	require.Equal(t, v, Of[whole](), "always the same")
	v.Port = 0
	require.Equal(t, []string{"A", "B", "Port"}, Missing(v))
	require.NotNil(t, Of[list]().Next.Next, "it ends")
}
