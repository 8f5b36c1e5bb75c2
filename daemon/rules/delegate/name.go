package delegate

import (
	"iter"
	"strconv"
	"strings"

	"polis/daemon/api"
)

// maxStem leaves room for a number in an agent's name, in bytes.
const maxStem = 24

// Names yields names for the worker of a branch, the best first: feat/OAuth is feat-oauth,
// feat-oauth-2 and so on. They are names of agents.
func Names(branch string) iter.Seq[string] {
	return func(yield func(name string) bool) {
		stem := stem(branch)
		for n := 1; n < 10000; n++ {
			name := stem
			if n > 1 {
				name += "-" + strconv.Itoa(n)
			}
			if api.CheckName(name) == nil && !yield(name) {
				return
			}
		}
	}
}

// stem makes a name of a branch: small letters, digits and single dashes, a letter first.
func stem(branch string) string {
	var b strings.Builder
	for _, c := range strings.ToLower(branch) {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9' && b.Len() > 0:
			b.WriteRune(c)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() == maxStem {
			break
		}
	}
	if s := strings.Trim(b.String(), "-"); len(s) >= 2 {
		return s
	}
	return "worker"
}
