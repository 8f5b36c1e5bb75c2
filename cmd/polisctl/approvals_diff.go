package main

import (
	"fmt"
	"strings"

	"polis/daemon/api"
)

// diffLines prints what an edit would change. The lines come escaped; a colour is never the only
// difference between two of them.
func diffLines(p *page, v api.Approval) {
	if len(v.Diff) == 0 {
		return
	}
	p.line("  change")
	for _, line := range v.Diff {
		color := plain
		switch {
		case strings.HasPrefix(line, "+++ "), strings.HasPrefix(line, "--- "):
			color = bold
		case strings.HasPrefix(line, "@@"):
			color = dim
		case strings.HasPrefix(line, "+"):
			color = green
		case strings.HasPrefix(line, "-"):
			color = red
		}
		fmt.Fprintln(p.w, "    "+p.paint(color, clean(line)))
	}
	if v.DiffHidden > 0 {
		p.line("    [%s more are not shown]", api.Count(v.DiffHidden, "line"))
	}
}
