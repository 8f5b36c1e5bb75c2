package nested

import (
	"regexp"
	"strings"
)

var (
	section = regexp.MustCompile(`^\s*\[\s*([A-Za-z0-9.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]`)
	scheme  = regexp.MustCompile(`^(https?|ssh|git|git\+ssh|ssh\+git)://[^/]`)
	// scp is the form of ssh without a scheme: the colon comes before the first slash.
	scp = regexp.MustCompile(`^[^/:\s]+:[^/]?`)
)

// networkRemotes returns the names of the remotes in a configuration whose addresses are all of other machines. The
// text is data: an include is not read, and a rewriting of addresses is not applied.
func networkRemotes(config string) (remotes []string) {
	far, near := map[string]bool{}, map[string]bool{}
	remote := ""
	for line := range strings.Lines(config) {
		if m := section.FindStringSubmatch(line); m != nil {
			remote = ""
			if strings.EqualFold(m[1], "remote") {
				remote = m[2]
			}
			line = line[len(m[0]):]
		}
		key, value, ok := strings.Cut(line, "=")
		key = strings.ToLower(strings.TrimSpace(key))
		if remote == "" || !ok || key != "url" && key != "pushurl" {
			continue
		}
		if u := strings.Trim(strings.TrimSpace(value), `"`); scheme.MatchString(u) || scp.MatchString(u) && !strings.Contains(u, "://") {
			far[remote] = true
		} else {
			near[remote] = true
		}
	}
	for r := range far {
		if !near[r] {
			remotes = append(remotes, r)
		}
	}
	return remotes
}
