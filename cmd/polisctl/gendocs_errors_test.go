package main

import (
	"fmt"
	"slices"
	"strings"

	"polis/daemon/api"
)

const errorsDoc = "docs/errors.md"

// statusOf is the exit status of a code.
func statusOf(code api.Code) int {
	for _, row := range exitTable() {
		if slices.Contains(row.Codes, code) {
			return row.Status
		}
	}
	return exitFailure
}

// errorsPage is the reference of codes and exit statuses in Markdown.
func errorsPage() []byte {
	var b strings.Builder
	b.WriteString(`# Errors and exit statuses

` + "`make docs`" + ` generates this page from daemon/api/codes.go and cmd/polisctl/exit.go.

Every error of polis has a code and a message. The meaning of a code never changes; the text of a message can. Most errors
have a hint with the next step. ` + "`polisctl --json`" + ` prints ` + "`{\"error\":{\"code\":...,\"message\":...,\"hint\":...,\"details\":...}}`" + ` on standard
error; the API sends the same object (without "error" around it) with the HTTP status below. A program in a
sandbox gets an errno; ` + "`/run/polis/why`" + ` there, ` + "`polisctl agents why NAME`" + ` and the events have the code.

## Exit statuses of polisctl

| status | meaning |
|---|---|
`)
	for _, row := range exitTable() {
		status := fmt.Sprint(row.Status)
		if row.Status == exitSignal {
			status += "+N"
		}
		fmt.Fprintf(&b, "| %s | %s |\n", status, row.Meaning)
	}
	b.WriteString("\n`agents exec`, `shell` and `attach` pass on the status of the command.\n")
	group := ""
	for _, c := range api.Codes() {
		if c.Group != group {
			group = c.Group
			fmt.Fprintf(&b, "\n## %s\n\n| code | exit | HTTP | what happened | what to do |\n|---|---|---|---|---|\n", group)
		}
		fmt.Fprintf(&b, "| `%s` | %d | %d | %s | %s |\n", c.Code, statusOf(c.Code), c.Code.Status(), c.About, c.Do)
	}
	return []byte(b.String())
}
