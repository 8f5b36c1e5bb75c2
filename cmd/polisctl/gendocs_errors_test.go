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

This page is made by ` + "`make docs`" + `; change daemon/api/codes.go or cmd/polisctl/exit.go instead.

Every refusal of polis has a code that never changes its meaning, a message for people that may, and mostly a hint
that says what to do. ` + "`polisctl --json`" + ` prints ` + "`{\"error\":{\"code\":...,\"message\":...,\"hint\":...,\"details\":...}}`" + ` on standard
error; the API sends the same object (without "error" around it) with the HTTP status below. What a program in a
sandbox meets is an errno; the code is in ` + "`/run/polis/why`" + ` there, in ` + "`polisctl agents why NAME`" + ` and in the events.

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
