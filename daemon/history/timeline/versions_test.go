package timeline

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/fusefs/changed"
)

// TestTheContentsOfAFileInCheckpoints are listed once each, with the time in which each was written.
func TestTheContentsOfAFileInCheckpoints(t *testing.T) {
	w := start(t)
	w.h.set = changed.New()
	none, err := w.l.Versions(t.Context(), "a", "dir/f")
	require.NoError(t, err)
	require.Empty(t, none)
	w.put("other", "1")
	first, _ := w.checkpoint()
	w.put("dir/f", "one\n")
	second, _ := w.checkpoint()
	w.put("other", "2")
	third, _ := w.checkpoint()
	w.put("dir/f", "two\n")
	fourth, _ := w.checkpoint()
	require.NoError(t, os.RemoveAll(filepath.Join(w.h.dir, "dir")))
	w.h.set.Add("dir", true)
	fifth, _ := w.checkpoint()
	w.restart()

	agents, err := w.l.Agents(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, agents)
	all, err := w.l.Versions(t.Context(), "a", "dir/f")
	require.NoError(t, err)
	type row struct {
		id, text    string
		after, last time.Time
	}
	var got []row
	for _, v := range all {
		text := "-"
		if v.Hash != "" {
			b, err := w.l.Text(t.Context(), v.Hash, v.Size)
			require.NoError(t, err)
			text = string(b)
		}
		got = append(got, row{v.ID, text, v.After, v.Last})
	}
	require.Equal(t, []row{{first.ID, "-", time.Time{}, first.Time}, {second.ID, "one\n", first.Time, third.Time}, {fourth.ID, "two\n", third.Time, fourth.Time},
		{fifth.ID, "-", fourth.Time, fifth.Time}}, got)
	_, err = w.l.Text(t.Context(), all[1].Hash, 1)
	require.Error(t, err, "it has more bytes")
	dir, err := w.l.Versions(t.Context(), "a", "dir")
	require.NoError(t, err)
	require.Len(t, dir, 1)
	require.Empty(t, dir[0].Hash, "a directory has no content")
	_, err = w.l.Text(t.Context(), "zz", 1)
	require.Equal(t, api.CodeNotFound, api.CodeOf(err))
}
