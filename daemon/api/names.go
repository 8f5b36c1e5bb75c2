package api

import "regexp"

var nameRule = regexp.MustCompile(`^[a-z][a-z0-9-]{1,30}$`)

// CheckName validates the name of an agent. The rule keeps every name derived
// from it (unit, branch, container, directory) legal without escaping.
func CheckName(name string) error {
	if nameRule.MatchString(name) {
		return nil
	}
	return Errorf(CodeInvalidName, "agent name %q is not valid", Shorten(name, 64)).
		WithHint("use 2 to 31 characters: a small letter first, then small letters, digits and '-'")
}

// Shorten cuts hostile or long text to n bytes for a message.
func Shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "..."
}
