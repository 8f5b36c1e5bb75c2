package main

import (
	"fmt"
	"strings"

	"polis/daemon/api"
)

// maxSparse bounds the directories of a sparse checkout in one line.
const maxSparse = 8

// showSparse prints the sparse checkout of an agent, if it has one.
func showSparse(p *page, g api.Agent) {
	if g.Sparse == nil {
		return
	}
	dirs := g.Sparse.Directories
	text := "only the files at the top"
	if len(dirs) > 0 {
		text = strings.Join(dirs[:min(len(dirs), maxSparse)], ", ")
	}
	if more := len(dirs) - maxSparse; more > 0 {
		text += fmt.Sprintf(" and %d more (polisctl --json agents list has all)", more)
	}
	p.line("  sparse      %s", text)
}
