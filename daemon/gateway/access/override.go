package access

import (
	"net/url"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// replacement is what a service can take a parameter for.
type replacement int

const (
	noReplacement replacement = iota
	// byValue: some services take the method from it if its value is one.
	byValue
	// byName: services of one framework or another take the method from it.
	byName
)

// overriding are names that mean the method in one framework at least, without case and punctuation: those of
// Rails, Rack, Laravel, Symfony, WordPress and others are "_method", of Google's services "$httpMethod", of Catalyst
// "x-tunneled-method". methodWords mean it with punctuation before them, or by their value.
var (
	overriding = []string{"methodoverride", "xmethodoverride", "httpmethodoverride", "xhttpmethodoverride", "xhttpmethod",
		"overridemethod", "xoverridemethod", "tunneledmethod", "xtunneledmethod"}
	methodWords = []string{"method", "httpmethod", "requestmethod"}
)

// maxNested bounds how often a name is decoded: a proxy can have decoded it before the service does.
const maxNested = 4

// Replaces reports whether a service can take the parameter or header of this name for the method of the request.
// Servers change names before they compare them: PHP makes "_" of leading ".", "[" and " ", and ends a
// name at NUL; Rack and qs drop brackets; "_method[]" is a list. So a name counts without case and punctuation.
func Replaces(name string) bool { return replacementOf(name) == byName }

// Replacement returns the method that a service can take from a parameter, in capitals; "" if the value is none.
// ok is false if no service does so.
func Replacement(name, value string) (method string, ok bool) {
	kind := replacementOf(name)
	if kind == noReplacement {
		return "", false
	}
	method = valueOf(value)
	return method, kind == byName || method != ""
}

func replacementOf(name string) replacement {
	best := noReplacement
	for range maxNested {
		best = max(best, classify(name))
		next, err := url.QueryUnescape(name)
		if err != nil || next == name {
			break
		}
		name = next
	}
	return best
}

// classify compares a name, and what is before the first bracket or control character after its beginning.
func classify(name string) replacement {
	var plain strings.Builder
	best, lead := noReplacement, false
	for _, r := range norm.NFKD.String(name) {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			plain.WriteRune(unicode.ToLower(r))
			continue
		}
		if cut := r == '[' || r == ']' || r == unicode.ReplacementChar || unicode.IsControl(r); cut {
			best = max(best, meaning(plain.String(), lead))
		}
		lead = lead || plain.Len() == 0
	}
	return max(best, meaning(plain.String(), lead))
}

func meaning(plain string, lead bool) replacement {
	switch {
	case slices.Contains(overriding, plain), lead && slices.Contains(methodWords, plain):
		return byName
	case slices.Contains(methodWords, plain):
		return byValue
	}
	return noReplacement
}

// valueOf returns the method that a value names, in capitals, or "".
func valueOf(value string) string {
	const longest = 64
	if len(value) > longest {
		return ""
	}
	m := strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) {
			return -1
		}
		return unicode.ToUpper(r)
	}, norm.NFKD.String(value))
	if slices.Contains(Methods(), m) || slices.Contains([]string{"TRACE", "CONNECT", "MERGE"}, m) {
		return m
	}
	return ""
}
