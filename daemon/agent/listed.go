package agent

import (
	"fmt"
	"strings"
)

// maxListed bounds the names in a sentence: a name that is cut could not be given.
const maxListed = 8

// listed returns names for a sentence, each of them whole.
func listed(names []string) string {
	if len(names) > maxListed {
		return fmt.Sprintf("%s and %d more (polisctl status lists them)", strings.Join(names[:maxListed], ", "), len(names)-maxListed)
	}
	return strings.Join(names, ", ")
}
