package reference

import (
	"fmt"
	"strings"
)

const sampleWidth = 98

// Sample is the commented configuration that an installation has: every key with its default. A line
// of a default begins with # and the key; all other comments begin with # and a space.
func (f File) Sample() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "#:schema /usr/share/polis/%s.schema.json\n", strings.TrimSuffix(f.Page, ".toml"))
	fmt.Fprintf(&b, "# %s: %s. See %s(5).\n", f.Path, f.What, f.Page)
	b.WriteString("# Every key is shown with its default. An unknown key is an error.\n# \"systemctl reload polisd\" reads this file again.\n")
	for _, t := range f.Tables {
		if f.open(t) {
			if t.Example != "" {
				b.WriteString("\n")
				comment(&b, t.Text+" For example:")
				for line := range strings.Lines(t.Example) {
					b.WriteString(strings.TrimRight("#    "+line, "\n ") + "\n")
				}
			}
			continue
		}
		b.WriteString("\n")
		comment(&b, t.Text)
		switch {
		case strings.Contains(t.Name, "."):
			// In a comment, so that the table can be appended to the file.
			fmt.Fprintf(&b, "#[%s]\n", t.Name)
		case t.Name != "":
			fmt.Fprintf(&b, "[%s]\n", t.Name)
		}
		for _, r := range f.rows(t) {
			comment(&b, r.brief())
			if r.words != "" {
				comment(&b, "Default: "+r.words+".")
			}
			if r.Example != "" {
				comment(&b, "Example: "+r.Name+" = "+r.Example)
			}
			if r.value != "" {
				assign(&b, r.Name, r.value)
			}
		}
	}
	return []byte(b.String())
}

// comment writes a text in lines of a comment.
func comment(b *strings.Builder, text string) {
	for _, line := range wrap(plain(text), sampleWidth-2) {
		b.WriteString("# " + line + "\n")
	}
}

// assign writes a default; a long list has several lines.
func assign(b *strings.Builder, name, value string) {
	line := "#" + name + " = " + value
	if len(line) <= sampleWidth+20 {
		b.WriteString(line + "\n")
		return
	}
	b.WriteString("#" + name + " = [\n")
	for _, l := range wrap(strings.Trim(value, "[]"), sampleWidth-1) {
		b.WriteString("#" + l + "\n")
	}
	b.WriteString("#]\n")
}

func plain(text string) string { return strings.ReplaceAll(text, "`", "") }

func wrap(text string, width int) (lines []string) {
	line := ""
	for w := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(w) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+w, " ")
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
