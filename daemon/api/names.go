package api

import "regexp"

var nameRule = regexp.MustCompile(`^[a-z][a-z0-9-]{1,30}$`)

// Domain is the domain of agents' host names and addresses. It is no domain of the
// internet's (RFC 2606).
const Domain = "polis.invalid"

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
