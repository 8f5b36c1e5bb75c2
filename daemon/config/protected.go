package config

import "slices"

// maxProtected bounds merge.protected.
const maxProtected = 1000

// ProtectedDefault is an entry of merge.protected that stands for DefaultProtected.
const ProtectedDefault = "@default"

// expandProtected returns the list with the patterns of the default in the place of ProtectedDefault.
func expandProtected(list []string) []string {
	at := slices.Index(list, ProtectedDefault)
	if at < 0 {
		return list
	}
	rest := slices.DeleteFunc(slices.Clone(list[at+1:]), func(p string) bool { return p == ProtectedDefault })
	return slices.Concat(list[:at], DefaultProtected(), rest)
}

// DefaultProtected are the patterns of ProtectedFiles.
func DefaultProtected() []string {
	var out []string
	for _, t := range ProtectedFiles() {
		for _, f := range t.Files {
			out = append(out, f.Patterns...)
		}
	}
	return out
}

// ProtectedReasons returns what a refusal says about a pattern of the default: which program acts on the file, and how.
func ProtectedReasons() map[string]string {
	out := map[string]string{}
	for _, t := range ProtectedFiles() {
		for _, f := range t.Files {
			for _, p := range f.Patterns {
				out[p] = f.Program + " " + f.Effect
			}
		}
	}
	return out
}
