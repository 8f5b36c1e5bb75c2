package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// exitCodesCmd is a topic of help: cobra shows a command that cannot run as one.
func (a *app) exitCodesCmd() *cobra.Command {
	var b strings.Builder
	b.WriteString("The exit statuses of polisctl, and the error codes that end it with them. Both are stable;\ndocs/errors.md says what the codes mean and what to do.\n")
	for _, row := range exitTable() {
		fmt.Fprintf(&b, "\n%5d  %s\n", row.Status, row.Meaning)
		line := "      "
		for _, c := range row.Codes {
			if len(line)+len(c) > 95 {
				b.WriteString(line + "\n")
				line = "      "
			}
			line += " " + string(c)
		}
		if strings.TrimSpace(line) != "" {
			b.WriteString(line + "\n")
		}
	}
	return &cobra.Command{Use: "exit-codes", Short: "Exit statuses and error codes", Long: strings.TrimRight(b.String(), "\n")}
}
