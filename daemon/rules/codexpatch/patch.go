package codexpatch

import "strings"

// Rename replaces the names of the files in a patch. Other text is returned as it is.
func Rename(patch string, name func(string) string) string {
	if !strings.Contains(patch, "*** Begin Patch") {
		return patch
	}
	var b strings.Builder
	for line := range strings.Lines(patch) {
		for _, head := range []string{"*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "} {
			p, ok := strings.CutPrefix(strings.TrimSpace(line), head)
			if p = strings.TrimSpace(p); ok && p != "" {
				if to := name(p); to != p {
					line = strings.Replace(line, head+p, head+to, 1)
				}
				break
			}
		}
		b.WriteString(line)
	}
	return b.String()
}
