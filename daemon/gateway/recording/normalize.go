package recording

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// varying is what differs between two runs that do the same: dates and times, how long something took,
// numbers of processes, ids and hashes, and names in directories for temporary files. An id is known by
// its form, or by a name that ends in "id" before it: then it has a digit, or hexadecimal digits only.
var varying = regexp.MustCompile(strings.Join([]string{
	`(?i:\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b)`,
	`\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?)?(?:Z|[+-]\d{2}:?\d{2})?`,
	`\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? +)?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.? +\d{1,2}(?:,? +\d{4})?\b`,
	`\b\d{1,2}/\d{1,2}/\d{2,4}\b`,
	`\b\d{1,2}:\d{2}(?::\d{2})?(?:[.,]\d+)?(?: ?[AaPp][Mm]\b)?(?: ?(?:UTC|GMT)\b)?`,
	`\b\d+(?:\.\d+)? ?(?:ns|us|µs|ms|s|sec|secs|seconds?|m\d+(?:\.\d+)?s)\b`,
	`\b(?:\w*[a-z0-9]I[dD]|(?:[\w-]*[_-])?(?i:id|uuid|guid))\\?["']?\s*[:=#]\s*\\?["']?(?:[\w.-]*\d[\w.-]*|(?i:[0-9a-f]{4,64})\b)`,
	`(?i:\b0x[0-9a-f]+\b)`,
	`(?i:\b(?:pid|pgid|process id)s?\b[:= ]*\d+)`,
	`\b[0-9a-f]{7,64}\b`,
	`\b\d{10,}\b`,
	`/(?:var/)?tmp/[^\s"'\\<>:;,()]+`,
}, "|"))

// maxNames bounds the names that are replaced, in each text.
const maxNames = 8

// names replaces the names of the agents, as whole words: that of the recorded one and that of the
// replaying one are the same then.
func names(list []string) *regexp.Regexp {
	list = slices.DeleteFunc(slices.Clone(list), func(n string) bool { return n == "" })
	slices.SortFunc(list, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	list = list[:min(len(list), maxNames)]
	if len(list) == 0 {
		return nil
	}
	for i := range list {
		list[i] = regexp.QuoteMeta(list[i])
	}
	return regexp.MustCompile(`\b(?:` + strings.Join(list, "|") + `)\b`)
}

// maxText bounds the text of one message that is compared, in bytes.
const maxText = 64 << 10

// normal returns a text in the form that is compared.
func normal(text string, of *regexp.Regexp) string {
	if len(text) > maxText {
		text = text[:maxText]
	}
	if of != nil {
		text = of.ReplaceAllLiteralString(text, "{agent}")
	}
	text = varying.ReplaceAllLiteralString(text, "{varies}")
	return strings.Join(strings.Fields(text), " ")
}
