package authorship

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestALineIsFollowedToAnOlderContent(t *testing.T) {
	for _, c := range []struct {
		name, newer, older string
		at, want           int
	}{
		{"the same", "a b c", "a b c", 1, 1},
		{"lines before it were added", "x y a b", "a b", 3, 1},
		{"lines before it were removed", "b c", "a b c", 0, 1},
		{"lines after it changed", "a b x", "a b c d", 1, 1},
		{"it is new", "a x b", "a b", 1, -1},
		{"it was changed", "a x b", "a y b", 1, -1},
		{"it was moved", "x b a y", "p a b q", 2, 1},
		{"one of two equal lines is new", "a } b } c", "a } q c", 3, -1},
		{"the first of two equal lines is not", "a } b } c", "a } q c", 1, 1},
		{"there was no file", "a", "", 0, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, follow(strings.Fields(c.newer), strings.Fields(c.older), c.at))
		})
	}
}

// TestPropertyAFollowedLineHasTheSameText, and each line of a content that has not changed is found in its place.
func TestPropertyAFollowedLineHasTheSameText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", ""}), 1, 12)
		newer, older := lines.Draw(t, "newer"), lines.Draw(t, "older")
		for at, text := range newer {
			if i := follow(newer, older, at); i >= 0 {
				require.Equal(t, text, older[i])
			}
			require.Equal(t, at, follow(newer, newer, at))
		}
	})
}

func TestTheOwnerOfACommit(t *testing.T) {
	at := func(n int64) time.Time { return time.Unix(n, 0) }
	for _, c := range []struct {
		name  string
		all   []claim
		tasks map[string]string
		want  string
	}{
		{"nobody", nil, nil, ""},
		{"the only one", []claim{{"bob", at(2), true}}, nil, "bob"},
		{"the one that was forked", []claim{{"carol", at(3), true}, {"bob", at(2), true}}, nil, "bob"},
		{"the one that merged it has it, too", []claim{{"alice", at(1), false}, {"bob", at(2), true}}, nil, "bob"},
		{"the one with the task", []claim{{"alice", at(1), true}, {"bob", at(2), true}}, map[string]string{"bob": "bob.1"}, "bob"},
		{"a task of an agent that has not got it", []claim{{"alice", at(1), true}}, map[string]string{"bob": "bob.1"}, "alice"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, owner(c.all, c.tasks))
		})
	}
}
