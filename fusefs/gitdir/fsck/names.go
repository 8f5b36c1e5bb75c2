package fsck

import (
	"strings"
	"unicode/utf8"
)

// dotGit reports whether some file system takes the name for ".git": HFS+ ignores some characters;
// NTFS ignores case, trailing spaces and dots, and streams, and has short names. As in
// is_hfs_dotgit and is_ntfs_dotgit of git, each part between backslashes counts as a name.
func dotGit(name string) bool {
	if hfsDot(name, "git") {
		return true
	}
	for part := range strings.SplitSeq(name, `\`) {
		part, _, _ = strings.Cut(part, ":")
		part = strings.TrimRight(part, " .")
		if strings.EqualFold(part, ".git") || strings.EqualFold(part, "git~1") {
			return true
		}
	}
	return false
}

// dotGitmodules is dotGit for ".gitmodules".
func dotGitmodules(name string) bool {
	return hfsDot(name, "gitmodules") || ntfsDot(name, "gitmodules", "gi7eba")
}

// hfsDot is is_hfs_dot_generic of git's utf8.c: it reports whether the name is "." and word,
// ignoring ASCII case and the characters that HFS+ ignores.
func hfsDot(name, word string) bool {
	rest := name
	next := func() rune { // 0 is the end, and invalid UTF-8
		for rest != "" {
			r, n := utf8.DecodeRuneInString(rest)
			if r == utf8.RuneError && n <= 1 {
				rest = ""
				return 0
			}
			rest = rest[n:]
			if !ignorable(r) {
				return r
			}
		}
		return 0
	}
	if next() != '.' {
		return false
	}
	for i := range len(word) {
		r := next()
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		if r != rune(word[i]) {
			return false
		}
	}
	end := next()
	return end == 0 || end == '/'
}

// ignorable reports whether HFS+ ignores a character when it compares names.
func ignorable(r rune) bool {
	return r >= 0x200c && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x206a && r <= 0x206f || r == 0xfeff
}

// ntfsDot is is_ntfs_dot_generic of git's path.c. short is the prefix of the short names that NTFS
// makes when its first four are taken.
func ntfsDot(name, word, short string) bool {
	at := func(i int) byte { // NUL after the end, as in C
		if i < len(name) {
			return name[i]
		}
		return 0
	}
	ends := func(i int) bool {
		for ; ; i++ {
			switch c := at(i); c {
			case 0, ':':
				return true
			case ' ', '.':
			default:
				return false
			}
		}
	}
	if at(0) == '.' && len(name) > len(word) && strings.EqualFold(name[1:1+len(word)], word) {
		return ends(1 + len(word))
	}
	if len(name) >= 8 && strings.EqualFold(name[:6], word[:6]) && name[6] == '~' && name[7] >= '1' && name[7] <= '4' {
		return ends(8)
	}
	tilde := false
	i := 0
	for ; i < 8; i++ {
		c := at(i)
		switch {
		case c == 0:
			return false
		case tilde:
			if c < '0' || c > '9' {
				return false
			}
		case c == '~':
			i++
			if c = at(i); c < '1' || c > '9' {
				return false
			}
			tilde = true
		case i >= 6 || c >= 0x80:
			return false
		default:
			if c >= 'A' && c <= 'Z' {
				c += 'a' - 'A'
			}
			if c != short[i] {
				return false
			}
		}
	}
	return ends(i)
}
