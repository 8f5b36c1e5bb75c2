package git

import "strings"

// QuoteConfig quotes a value of a configuration file (git-config(1), syntax). The result is one
// line: a line feed becomes a space, and a NUL is dropped.
func QuoteConfig(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", " ", "\x00", "").Replace(s) + `"`
}

// ConfigPerson returns the section "user", "author" or "committer" of a configuration file; empty fields are left out.
func ConfigPerson(section string, p Person) string {
	text := ""
	if p.Name != "" {
		text += "\tname = " + QuoteConfig(p.Name) + "\n"
	}
	if p.Email != "" {
		text += "\temail = " + QuoteConfig(p.Email) + "\n"
	}
	if text == "" {
		return ""
	}
	return "[" + section + "]\n" + text
}
