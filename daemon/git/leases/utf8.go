package leases

import (
	"unicode/utf8"

	"polis/daemon/api"
)

// Lockable rejects a path that no explicit lock can have: their records are JSON, which would name another file.
func Lockable(path string) error {
	if utf8.ValidString(path) {
		return nil
	}
	return api.Errorf(api.CodeBadRequest, "path %s is not UTF-8, which an explicit lock needs", api.PrintPath(path))
}
