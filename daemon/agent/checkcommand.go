package agent

import (
	"strings"

	"polis/daemon/api"
)

// CheckCommand rejects commands that execve would not accept.
func CheckCommand(field string, words []string) error {
	total := 0
	for i, w := range words {
		if strings.ContainsRune(w, 0) {
			return api.Errorf(api.CodeBadRequest, "%s[%d] contains a NUL byte", field, i)
		}
		total += len(w) + 1
	}
	if len(words) > maxWords || total > maxCommand {
		return api.Errorf(api.CodeBadRequest, "%s has %d words and %d bytes: at most %d words and %d bytes", field, len(words), total, maxWords, maxCommand)
	}
	if len(words) > 0 && words[0] == "" {
		return api.Errorf(api.CodeBadRequest, "%s: the program's name is empty", field)
	}
	return nil
}
