package main

import (
	"strings"

	"polis/daemon/api"
)

// maxEgress bounds what --egress names, as polisd does.
const maxEgress = 256

// egressWords are the words of --egress; polisd interprets them.
func egressWords(words []string) ([]string, error) {
	if len(words) > maxEgress {
		return nil, usagef("--egress has %d names: at most %d", len(words), maxEgress)
	}
	var out []string
	for _, w := range words {
		w = strings.TrimSpace(w)
		if w == "" {
			return nil, usagef("--egress has an empty name").WithHint("separate names by one comma, or say none")
		}
		if err := checkWord("egress", strings.TrimPrefix(w, "-"), 256); err != nil {
			return nil, err
		}
		out = append(out, w)
	}
	return out, nil
}

// egressLine describes where an agent may connect to; it is empty for an older polisd.
func egressLine(entries []string) string {
	if len(entries) == 0 {
		return "open"
	}
	return clean(api.Shorten(strings.Join(entries, ", "), 200))
}
