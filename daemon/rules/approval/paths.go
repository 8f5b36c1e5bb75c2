package approval

import "polis/daemon/rules/codexpatch"

// pathKeys are the arguments by which tools of programs name a file or a directory.
var pathKeys = []string{"file_path", "absolute_path", "notebook_path", "path", "dir_path", "filePath"}

// patchKeys are those by which they give a patch.
var patchKeys = []string{"input", "patch", "patchText", "command"}

// pathsOf are the paths that a tool for files works on: the one that it names, or those of its
// patch.
func pathsOf(input map[string]any) []string {
	for _, k := range pathKeys {
		if p, ok := input[k].(string); ok && p != "" {
			return []string{p}
		}
	}
	for _, k := range patchKeys {
		switch v := input[k].(type) {
		case string:
			if paths := patched(v); len(paths) > 0 {
				return paths
			}
		case []any: // the words of a command, of which one is the patch
			for _, w := range v {
				if s, ok := w.(string); ok {
					if paths := patched(s); len(paths) > 0 {
						return paths
					}
				}
			}
		}
	}
	return nil
}

// patched are the files that a patch of Codex changes, each once, in order.
func patched(patch string) (paths []string) {
	seen := map[string]bool{}
	codexpatch.Rename(patch, func(p string) string {
		if !seen[p] {
			seen[p] = true
			paths = append(paths, p)
		}
		return p
	})
	return paths
}
