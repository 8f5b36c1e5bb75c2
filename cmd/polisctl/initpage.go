package main

import (
	"fmt"
	"strings"

	"polis/daemon/api"
)

// nextCommands are the three that a newcomer types next.
func nextCommands(res initResult) []string {
	where := ""
	if res.Workspace.Agents > 0 {
		where = " --workspace " + res.Workspace.Name
	}
	if res.Base == "custom" {
		return []string{"polisctl agents add worker" + where + " --base custom", "polisctl agents shell worker", "polisctl status"}
	}
	return []string{
		fmt.Sprintf("polisctl agents add %s%s --base %s", res.Base, where, res.Base),
		fmt.Sprintf("polisctl run %s %q", res.Base, "explain what this project does, in NOTES.md"),
		"polisctl tui",
	}
}

// allChecks are the rows of the table: of the project, then of the machine. What doctor found about workspaces is left out.
func allChecks(project api.ProjectReport, machine api.DoctorReport) []api.Finding {
	rows := append([]api.Finding{}, project.Checks...)
	for _, c := range machine.Checks {
		if !strings.HasPrefix(c.Name, "links of ") && !strings.HasPrefix(c.Name, "repository of ") {
			rows = append(rows, c.Finding())
		}
	}
	return rows
}

func initPage(p *page, res initResult) {
	warnings := 0
	for _, c := range res.Doctor.Checks {
		if c.State == api.CheckWarn {
			warnings++
		}
	}
	p.line("machine     ready%s", map[bool]string{true: fmt.Sprintf(", with %s: polisctl doctor", api.Count(warnings, "warning"))}[warnings > 0])
	for _, c := range res.Doctor.Checks {
		if c.Code == api.CodeNetworkBlocked {
			p.warn("%s; %s: %s", c.Found, c.Cost, c.Fix)
		}
	}
	p.line("")
	findings(p, res.Checks)
	p.line("")
	p.line("agents      %s", orElse(strings.Join(res.Types, ", "), "no program is installed; custom runs any command"))
	p.line("workspace   %s at %s", res.Workspace.Name, res.Workspace.Path)
	if res.ClonedFrom != "" {
		p.line("            a clone of %s, which is a bare repository", res.ClonedFrom)
	}
	for _, c := range res.Changed {
		p.line("configured  %s in %s", c, res.Config)
	}
	shown := map[string]bool{}
	for _, c := range res.Checks {
		shown[c.Notice()], shown[c.Found] = true, true
	}
	for _, w := range res.Warnings {
		if !shown[w] { // the table has it
			p.warn("%s", w)
		}
	}
	p.line("")
	p.line("Next:")
	if res.Pending != "" {
		p.command("  ", res.Pending)
	}
	for _, n := range res.Next {
		p.line("  %s", n)
	}
}
