package authorship

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
	"polis/daemon/history/receipt"
)

func id(n int) string { return fmt.Sprintf("%040x", n) }

const blamed = `0000000000000000000000000000000000000001 1 1 2
author Ann
author-mail <ann@example.com>
committer-time 1700000000
summary first
filename a
	one
0000000000000000000000000000000000000001 2 2
	author Mallory
0000000000000000000000000000000000000000 3 3 1
author Not Committed Yet
committer-time 1700000001
summary Version of a from standard input
filename a
	three
`

func TestBlameIsRead(t *testing.T) {
	lines, commits, err := ParseBlame(blamed)
	require.NoError(t, err)
	require.Equal(t, []api.BlameLine{{Line: 1, Commit: id(1), Text: "one"}, {Line: 2, Commit: id(1), Text: "author Mallory"}, {Line: 3, Text: "three"}}, lines)
	require.Equal(t, map[string]api.BlameCommit{id(1): {ID: id(1), Author: "Ann", Summary: "first", Time: time.Unix(1700000000, 0).UTC()}}, commits)
	for _, bad := range []string{"x", "x\n", blamed[:len(blamed)-1], strings.Replace(blamed, " 2 2\n", " 2 7\n", 1), strings.Replace(blamed, "00001 1", "0000Z 1", 1)} {
		_, _, err := ParseBlame(bad)
		require.Error(t, err)
	}
	require.Equal(t, []api.BlameLine{{Line: 1, Text: "a\uFFFD"}, {Line: 2, Text: "b"}}, Uncommitted("a\xff\nb"))
}

// TestCommitsAreOfTheMergeThatBroughtThem:
//
//	1 - 2 ------- 5 --- 8   target: 5 and 8 are merges
//	     \- 3 - 4 /    /
//	         \- 6 - 7-/
//	          \- 9           not merged
func TestCommitsAreOfTheMergeThatBroughtThem(t *testing.T) {
	h := History{}
	for _, l := range [][]int{{1}, {2, 1}, {3, 2}, {4, 3}, {5, 2, 4}, {6, 3}, {7, 6}, {8, 5, 7}, {9, 3}} {
		var text []string
		for _, n := range l {
			text = append(text, id(n))
		}
		h.Add(strings.Join(text, " "))
	}
	h.Add("not a commit")
	require.Len(t, h, 9)
	by := h.Introduced(id(8))
	for commit, merge := range map[int]int{1: 1, 2: 2, 3: 5, 4: 5, 5: 5, 6: 8, 7: 8, 8: 8} {
		require.Equal(t, id(merge), by[id(commit)], commit)
	}
	require.Empty(t, by[id(9)])
	own := map[string]string{}
	h.Between(id(8), id(9), func(c string) { own[c] = "bob" })
	require.Equal(t, map[string]string{id(9): "bob"}, own)
	a := Attribution{Introduced: by, Own: own, Tasks: map[string]string{id(6): "ann.2", id(2): "x.1"},
		Merges: map[string]Merge{id(8): {Agent: "ann", ID: id(8), Tasks: []string{"ann.1", "ann.2"}}}}
	for _, c := range []struct {
		commit int
		agent  string
		tasks  []string
	}{{6, "ann", []string{"ann.2"}}, {7, "ann", []string{"ann.1", "ann.2"}}, {9, "bob", nil}, {2, "", nil}, {3, "", nil}} {
		agent, tasks, _ := a.Of(id(c.commit))
		require.Equal(t, c.agent, agent, c.commit)
		require.Equal(t, c.tasks, tasks, c.commit)
	}
}

// TestPropertyEveryCommitIsIntroducedOnce, in any history, by a commit of the mainline.
func TestPropertyEveryCommitIsIntroducedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := History{}
		n := rapid.IntRange(1, 40).Draw(t, "commits")
		for i := 1; i <= n; i++ {
			line := id(i)
			if i > 1 {
				for range rapid.IntRange(1, 3).Draw(t, "parents") {
					line += " " + id(rapid.IntRange(max(1, i-6), i-1).Draw(t, "parent"))
				}
			}
			h.Add(line)
		}
		by := h.Introduced(id(n))
		main := map[string]bool{}
		for _, m := range h.mainline(id(n)) {
			main[m] = true
			require.Equal(t, m, by[m])
		}
		reached := map[string]bool{}
		h.Between("", id(n), func(c string) { reached[c] = true })
		require.Len(t, by, len(reached))
		for c, m := range by {
			require.True(t, reached[c])
			require.True(t, main[m])
		}
	})
}

func entryOf(t *testing.T, typ, agent string, data any) *receipt.Receipt {
	b, err := json.Marshal(data)
	require.NoError(t, err)
	return &receipt.Receipt{Entry: receipt.Entry{Time: time.Unix(50, 0), Type: typ, Agent: agent, Data: b}}
}

func TestUsesOfAPathAreFound(t *testing.T) {
	at := func(sec int64) time.Time { return time.Unix(sec, 0).UTC() }
	last := at(40)
	opens := []api.Open{
		{Time: at(1), Op: "open", Path: "src/a"},
		{Time: at(2), Op: "open-write", Write: true, Path: "src/a"},
		{Time: at(3), Op: "rename", Write: true, Path: "x", To: "src/a"},
		{Time: at(4), Op: "create", Write: true, Path: "src/ab"},
		{Time: at(5), Op: "create", Write: true, Path: `"src/\xff"`},
		{Time: at(6), Last: &last, Op: "open-write", Write: true, Path: "src/a", Count: 3},
	}
	for _, c := range []struct {
		name string
		p    Record
		want []int64
	}{
		{"written", Record{Path: "src/a", Write: true, Max: 10}, []int64{2, 3, 6}},
		{"read", Record{Path: "src/a", Max: 10}, []int64{1}},
		{"below a directory", Record{Path: "src", Write: true, Max: 10}, []int64{2, 3, 4, 5, 6}},
		{"a name that is not text", Record{Path: "src/\xff", Write: true, Max: 10}, []int64{5}},
		{"since, by its last time", Record{Path: "src/a", Write: true, Since: at(10), Max: 10}, []int64{6}},
		{"until", Record{Path: "src/a", Write: true, Until: at(2), Max: 10}, []int64{2}},
		{"another agent", Record{Path: "src/a", Write: true, Agent: "bob", Max: 10}, nil},
		{"the last ones", Record{Path: "src", Write: true, Max: 2}, []int64{5, 6}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := c.p
			require.NoError(t, p.Visit("ann", entryOf(t, api.ReceiptOpens, "ann", map[string]any{"opens": opens})))
			require.NoError(t, p.Visit("", entryOf(t, api.EventAgentMerged, "ann", map[string]any{"merge_commit_sha": id(1), "tasks": []string{"ann.1"}})))
			require.NoError(t, p.Visit("ann", entryOf(t, api.ReceiptMissed, "ann", nil)))
			p.Trim()
			var got []int64
			for _, u := range p.Uses {
				got = append(got, u.Time.Unix())
				require.Equal(t, "ann", u.Agent)
			}
			require.Equal(t, c.want, got)
			require.Equal(t, Merge{Agent: "ann", ID: id(1), Tasks: []string{"ann.1"}}, p.Merges[id(1)])
			require.Equal(t, c.p.Agent == "" && c.p.Until.IsZero(), p.Missed)
			require.Equal(t, c.name == "the last ones", p.More)
		})
	}
}

// FuzzParseBlame: agents write the names, subjects and contents that git prints.
func FuzzParseBlame(f *testing.F) {
	f.Add(blamed)
	f.Add(strings.ReplaceAll(blamed, "1700000000", "9223372036854775807"))
	f.Fuzz(func(t *testing.T, text string) {
		lines, commits, err := ParseBlame(text)
		if err != nil {
			return
		}
		_, err = json.Marshal(commits)
		require.NoError(t, err)
		for i, l := range lines {
			require.Equal(t, i+1, l.Line)
			require.LessOrEqual(t, len(l.Text), maxText+3)
			if l.Commit != "" {
				require.Contains(t, commits, l.Commit)
			}
		}
	})
}
