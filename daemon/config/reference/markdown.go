package reference

import (
	"fmt"
	"regexp"
	"strings"
)

var docPage = regexp.MustCompile(`docs/([a-z]+\.md)`)

// Markdown is the tables of the keys, for a page in docs/.
func (f File) Markdown() []byte {
	var b strings.Builder
	for _, t := range f.Tables {
		title := "Top level"
		if t.Name != "" {
			title = "`" + bracket(f, t) + "`"
		}
		fmt.Fprintf(&b, "### %s\n\n", title)
		if text := strings.TrimSpace(cell(t.Text) + " " + f.like(t)); text != "" {
			b.WriteString(text + "\n\n")
		}
		rows := f.rows(t)
		if len(rows) == 0 {
			continue
		}
		b.WriteString("| key | default | meaning |\n|---|---|---|\n")
		for _, r := range rows {
			def := cell(r.words)
			if r.value != "" {
				def = "`" + strings.ReplaceAll(r.value, "|", `\|`) + "`"
			}
			if len(def) > 120 {
				def = "see above"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.Name, def, strings.TrimSpace(cell(r.whole())+" "+cell(r.allowed())))
		}
		b.WriteString("\n")
	}
	return []byte(b.String())
}

func cell(s string) string {
	return docPage.ReplaceAllString(strings.ReplaceAll(s, "|", `\|`), "[$1]($1)")
}
