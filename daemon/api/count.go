package api

import (
	"fmt"
	"strings"
)

// Count returns a number of things in words for people: "1 file", "2 files", "3 branches".
func Count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	for _, end := range []string{"ch", "s", "x"} {
		if strings.HasSuffix(one, end) {
			return fmt.Sprintf("%d %ses", n, one)
		}
	}
	return fmt.Sprintf("%d %ss", n, one)
}
