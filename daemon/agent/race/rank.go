package race

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"

	"polis/daemon/api"
)

// Passed reports whether a racer may win: its task ended well, it has commits, and its check passed.
func Passed(r api.Racer, check string) bool {
	return r.State == api.RacerEnded && r.OK && r.Commits > 0 && (check == "" || r.CheckCode != nil && *r.CheckCode == 0)
}

// Best returns the agent of the best result that passed, or "": with the fewest conflicts, then the
// fewest changed lines, then the shortest time.
func Best(race api.Race) string {
	var all []api.Racer
	for _, r := range race.Racers {
		if Passed(r, race.Request.Check) {
			all = append(all, r)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return slices.MinFunc(all, func(a, b api.Racer) int {
		return cmp.Or(cmp.Compare(len(a.Conflicts), len(b.Conflicts)), cmp.Compare(a.Insertions+a.Deletions, b.Insertions+b.Deletions), cmp.Compare(a.Seconds, b.Seconds))
	}).Agent
}

// statRE matches the last line of git diff --stat.
var statRE = regexp.MustCompile(`(?m)^ (\d+) files? changed(?:, (\d+) insertions?\(\+\))?(?:, (\d+) deletions?\(-\))?\n?\z`)

// Stat reads what git diff --stat printed.
func Stat(text string) (files, insertions, deletions int) {
	m := statRE.FindStringSubmatch(text)
	if m == nil {
		return 0, 0, 0
	}
	n := func(s string) int {
		v, err := strconv.Atoi(s)
		if err != nil {
			return 0 // the part is missing
		}
		return v
	}
	return n(m[1]), n(m[2]), n(m[3])
}

// Rivals returns the agents that a racer conflicts with, beside the others of the race. A conflict
// with the target has its name.
func Rivals(racer string, race api.Race, c api.Conflicts) []string {
	var out []string
	add := func(name string) {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	for _, m := range c.Merges {
		if !slices.Contains(m.Agents, racer) || m.Error != "" {
			continue
		}
		if len(m.Agents) == 1 {
			add(c.Target)
		}
		for _, other := range m.Agents {
			if !slices.ContainsFunc(race.Racers, func(r api.Racer) bool { return r.Agent == other }) {
				add(other)
			}
		}
	}
	slices.Sort(out)
	return out
}
