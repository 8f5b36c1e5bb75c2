package reference

import (
	"fmt"
	"strings"

	"polis/daemon/config"
)

// ProtectedTable is the default of merge.protected with its reasons, for a page in docs/.
func ProtectedTable() []byte {
	var b strings.Builder
	for _, t := range config.ProtectedFiles() {
		fmt.Fprintf(&b, "Files that are acted on when %s:\n\n| files | the program | what it does |\n|---|---|---|\n", t.When)
		for _, f := range t.Files {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", cell(strings.Join(f.Patterns, "` `")), cell(f.Program), cell(f.Effect))
		}
		b.WriteString("\n")
	}
	return []byte(b.String())
}
