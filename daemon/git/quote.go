package git

import "strings"

// QuoteConfig quotes a value of a configuration file (git-config(1), syntax). The result is one
// line: a line feed becomes a space, and a NUL is dropped.
func QuoteConfig(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", " ", "\x00", "").Replace(s) + `"`
}
