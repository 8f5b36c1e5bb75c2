package agenttext

import (
	"os/user"
	"regexp"
	"strings"
	"sync"
)

// Who is the name of the one who did something, for people: of "user:1007", also at the end of "answer ann.k3f9q2ab of
// user:1007", the name of that user here. The API has the number, which does not depend on the machine's list of users.
func Who(by string) string {
	const mark = "user:"
	i := strings.LastIndex(by, mark)
	if i < 0 || i > 0 && by[i-1] != ' ' {
		return by
	}
	name := nameOf(by[i+len(mark):])
	if name == "" {
		return by
	}
	return by[:i] + name
}

// names has the names of users by their numbers, "" of those that have none: a screen draws the same ones again and again.
var names = struct {
	mu sync.Mutex
	of map[string]string
}{of: map[string]string{}}

// maxNames bounds names.
const maxNames = 1024

func nameOf(number string) string {
	names.mu.Lock()
	defer names.mu.Unlock()
	name, known := names.of[number]
	if known {
		return name
	}
	if u, err := user.LookupId(number); err == nil {
		name = u.Username
	}
	if len(names.of) >= maxNames {
		clear(names.of)
	}
	names.of[number] = name
	return name
}

var numbered = regexp.MustCompile(`\buser:[0-9]+\b`)

// Named is a message of polisd for people, with the names of the users who did what it is about. data is that of the event
// or error, which has their numbers: other text, such as a path, stays.
func Named(message string, data map[string]any) string {
	for _, key := range []string{"by", "holder", "waiter"} {
		by, ok := data[key].(string)
		if !ok || !strings.HasPrefix(by, "user:") {
			continue
		}
		name := Who(by)
		message = numbered.ReplaceAllStringFunc(message, func(is string) string {
			if is == by {
				return name
			}
			return is
		})
	}
	return message
}
