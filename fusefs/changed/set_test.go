package changed

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func names(c Cut) (out []string) {
	for _, p := range c.Paths {
		if p.Tree {
			out = append(out, p.Name+"/")
		} else {
			out = append(out, p.Name)
		}
	}
	return out
}

func TestACutHasWhatChangedSinceTheOneBefore(t *testing.T) {
	s := New()
	s.Add("a", false)
	first := s.Take("")
	require.NotEmpty(t, first.Whole)
	s.Add("b", false)
	s.Add("d", true)
	s.Add("d/e/f", false)
	second := s.Take(first.ID)
	require.Empty(t, second.Whole)
	require.Equal(t, []string{"b", "d/"}, names(second))
	s.Add("c", false)
	// The caller failed: it names the same cut again, and gets both.
	third := s.Take(first.ID)
	require.Equal(t, []string{"b", "c", "d/"}, names(third))
	require.Empty(t, names(s.Take(third.ID)))
}

func TestAnotherSetKnowsNoCut(t *testing.T) {
	s := New()
	id := s.Take("").ID
	require.Empty(t, s.Take(id).Whole)
	require.NotEmpty(t, New().Take(id).Whole)
	old := s.Take("").ID
	s.Take(old)
	require.NotEmpty(t, s.Take(id).Whole, "it is too old")
}

func TestAChangeThatACutInterruptedIsInTheNextSet(t *testing.T) {
	s := New()
	id := s.Take("").ID
	n := s.Add("a", false)
	cut := s.Take(id)
	require.Equal(t, []string{"a"}, names(cut))
	s.Again("a", false, n)
	cut = s.Take(cut.ID)
	require.Equal(t, []string{"a"}, names(cut))
	n = s.Add("b", false)
	s.Again("b", false, n)
	cut = s.Take(cut.ID)
	require.Equal(t, []string{"b"}, names(cut))
	require.Empty(t, names(s.Take(cut.ID)))
}

func TestALostSetSaysSoOnce(t *testing.T) {
	s := New()
	id := s.Take("").ID
	for i := range MaxPaths + 1 {
		s.Add(fmt.Sprint(i), false)
	}
	cut := s.Take(id)
	require.Contains(t, cut.Whole, "more files")
	require.Empty(t, cut.Paths)
	s.Add("x", false)
	next := s.Take(cut.ID)
	require.Equal(t, []string{"x"}, names(next))
	s.Lose("because")
	require.Equal(t, "because", s.Take(next.ID).Whole)
	require.NotEmpty(t, s.Take(next.ID).Whole, "what was lost is not known to a caller that failed")

	id = s.Take("").ID
	s.Add(strings.Repeat("x", MaxBytes+1), false)
	require.NotEmpty(t, s.Take(id).Whole)
}

// TestNoChangeIsMissing: what a caller saves at its cuts is what the tree has.
func TestNoChangeIsMissing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := New()
		version := map[string]int{} // of a path, in the tree
		saved := map[string]int{}   // as the caller knows it
		since := ""
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				cut := s.Take(since)
				next := map[string]int{}
				for p, v := range version {
					next[p] = saved[p]
					covered := cut.Whole != ""
					for _, c := range cut.Paths {
						covered = covered || c.Name == p || c.Tree && strings.HasPrefix(p, c.Name+"/")
					}
					if covered {
						next[p] = v
					}
				}
				if rapid.Bool().Draw(t, "saved") {
					since, saved = cut.ID, next
					if len(version) > 0 && fmt.Sprint(saved) != fmt.Sprint(version) {
						t.Fatalf("saved %v, but the tree has %v (%+v)", saved, version, cut)
					}
				}
			case 1:
				s.Lose("test")
			default:
				p := rapid.SampledFrom([]string{"a", "b", "d", "d/a", "d/b", "d/d/a"}).Draw(t, "path")
				tree := rapid.Bool().Draw(t, "tree")
				s.Add(p, tree)
				for q := range version {
					if tree && strings.HasPrefix(q, p+"/") {
						version[q]++
					}
				}
				version[p]++
			}
		}
	})
}
