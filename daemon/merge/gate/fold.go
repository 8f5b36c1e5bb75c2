package gate

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// fold returns the name that a path has for a file system that folds names, for comparison: the case does
// not count (ext4 with casefold, vfat, NTFS, APFS), nor the form of composed characters, nor invisible ones (ext4),
// nor dots and spaces at the end of a name, or what follows a colon (NTFS). Two paths that one of them takes for the
// same have the same folded form, apart from letters outside of ASCII.
func fold(path string) string {
	path = foldRunes(path)
	if !strings.ContainsAny(path, ". :") {
		return path
	}
	names := strings.Split(path, "/")
	for i, n := range names {
		if at := strings.IndexByte(n, ':'); at > 0 {
			n = n[:at]
		}
		if t := strings.TrimRight(n, ". "); t != "" {
			n = t
		}
		names[i] = n
	}
	return strings.Join(names, "/")
}

func foldRunes(s string) string {
	ascii := true
	for i := 0; i < len(s) && ascii; i++ {
		ascii = s[i] < utf8.RuneSelf
	}
	if ascii {
		return strings.ToLower(s)
	}
	return strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) {
			return -1
		}
		// Some characters fold to a letter of ASCII: the sign of Kelvin, and the long s.
		for f := unicode.SimpleFold(r); r >= utf8.RuneSelf && f != r; f = unicode.SimpleFold(f) {
			if f < utf8.RuneSelf {
				r = f
			}
		}
		return unicode.ToLower(r)
	}, norm.NFD.String(s))
}
