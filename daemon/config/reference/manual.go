package reference

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
)

// Manual is the manual page of section 5.
func (f File) Manual() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, ".\\\" Made by \"make docs\" from daemon/config/reference.\n.TH %s 5 \"\" \"polis\" \"polis\"\n.SH NAME\n%s \\- %s\n.SH SYNOPSIS\n.I %s\n.SH DESCRIPTION\n",
		roff(strings.ToUpper(f.Page)), roff(f.Page), f.What, roff(f.Path))
	for i, p := range f.Intro {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		b.WriteString(sentences(p))
	}
	for _, t := range f.Tables {
		fmt.Fprintf(&b, ".SH %s\n", heading(f, t))
		b.WriteString(sentences(t.Text))
		b.WriteString(sentences(f.like(t)))
		for _, r := range f.rows(t) {
			fmt.Fprintf(&b, ".TP\n.B %s\n", roff(r.Name))
			for i, p := range strings.Split(r.Text, "\n\n") {
				if i > 0 {
					b.WriteString(".IP\n")
				}
				b.WriteString(sentences(p))
			}
			b.WriteString(sentences(r.allowed()))
			if d := cmp.Or(r.value, r.words); d != "" {
				b.WriteString(sentences("Default: " + d + "."))
			}
			if r.Example != "" {
				b.WriteString(sentences("Example: " + r.Example))
			}
		}
	}
	fmt.Fprintf(&b, ".SH EXAMPLE\n.nf\n%s\n.fi\n.SH SEE ALSO\n", roff(f.Example))
	for i, s := range f.SeeAlso {
		name, section, _ := strings.Cut(strings.TrimSuffix(s, ")"), "(")
		end := ","
		if i == len(f.SeeAlso)-1 {
			end = ""
		}
		fmt.Fprintf(&b, ".BR %s (%s)%s\n", roff(name), section, end)
	}
	return []byte(b.String())
}

func (f File) table(name string) Table {
	for _, t := range f.Tables {
		if t.Name == name {
			return t
		}
	}
	return Table{}
}

// bracket is the header of a table as the file has it.
func bracket(f File, t Table) string {
	switch {
	case t.Name == "":
		return "the top level"
	case f.repeated(t):
		return "[[" + t.Name + "]]"
	}
	return "[" + t.Name + "]"
}

// like names the keys that a table has from the table that it is like, as a sentence.
func (f File) like(t Table) string {
	if t.Like == "" {
		return ""
	}
	var names []string
	for _, r := range f.likeRows(t) {
		names = append(names, "`"+r.Name+"`")
	}
	if n := len(names); n > 1 {
		names = []string{strings.Join(names[:n-1], ", ") + " and " + names[n-1]}
	}
	if len(names) == 0 {
		return ""
	}
	return names[0] + ", as in `" + bracket(f, f.table(t.Like)) + "`. A missing key has the value that it has there."
}

func heading(f File, t Table) string {
	if t.Name == "" {
		return "TOP LEVEL"
	}
	return bracket(f, t)
}

var (
	code = regexp.MustCompile("`([^`]*)`")
	page = regexp.MustCompile(`\b([a-z][a-z0-9._]*(?:\\-[a-z0-9._]+)*)\((\d)\)`)
)

// roff escapes text.
func roff(s string) string {
	return strings.NewReplacer(`\`, `\\`, "-", `\-`, "'", `\(aq`).Replace(s)
}

// sentences writes text with a line for each sentence.
func sentences(text string) string {
	if text == "" {
		return ""
	}
	s := page.ReplaceAllString(roff(text), `\fB$1\fR($2)`)
	s = code.ReplaceAllString(s, `\fB$1\fR`)
	var b strings.Builder
	for line := range strings.SplitSeq(strings.ReplaceAll(s, ". ", ".\n"), "\n") {
		if strings.HasPrefix(line, ".") {
			line = `\&` + line
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}
