package wire

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestFramesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOfN(rapid.Byte(), 0, 3*MaxFrame).Draw(t, "payload")
		var buf bytes.Buffer
		require.NoError(t, NewWriter(&buf).Write(FrameStdout, p))
		var got []byte
		for buf.Len() > 0 {
			typ, q, err := Read(&buf, nil)
			require.NoError(t, err)
			require.Equal(t, FrameStdout, typ)
			require.LessOrEqual(t, len(q), MaxFrame)
			got = append(got, q...)
		}
		require.True(t, bytes.Equal(p, got))
	})
}

func TestReadRefuses(t *testing.T) {
	for name, b := range map[string][]byte{
		"type zero":  {0, 0, 0, 0, 0},
		"type high":  {99, 0, 0, 0, 0},
		"oversized":  {1, 0xff, 0xff, 0xff, 0xff},
		"cut header": {1, 0},
		"cut body":   {1, 0, 0, 0, 4, 'x'},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := Read(bytes.NewReader(b), nil)
			require.Error(t, err)
		})
	}
	_, _, err := Read(bytes.NewReader(nil), nil)
	require.ErrorIs(t, err, io.EOF)
}

func FuzzRead(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 1, 'x'})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		for {
			_, p, err := Read(r, nil)
			if err != nil {
				return
			}
			if len(p) > MaxFrame {
				t.Fatal("oversized frame")
			}
		}
	})
}
