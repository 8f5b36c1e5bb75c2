package fsck

import (
	"strings"
	"unicode/utf8"
)

// dotGit says that some file system takes the name for ".git": HFS+, which
// ignores some characters, and NTFS, which ignores case, trailing spaces and
// dots, streams, and knows short names. As is_hfs_dotgit and is_ntfs_dotgit of
// git do, each part between backslashes is a name of its own.
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

// dotGitmodules says the same of ".gitmodules".
func dotGitmodules(name string) bool {
	return hfsDot(name, "gitmodules") || ntfsDot(name, "gitmodules", "gi7eba")
}

// hfsDot is is_hfs_dot_generic of git's utf8.c: the name is "." and word, if
// ASCII case and the characters that HFS+ ignores do not count.
func hfsDot(name, word string) bool {
	rest := name
	next := func() rune { // 0 is the end, and also what is no UTF-8
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

// ignorable are the characters that HFS+ leaves out of names when it compares them.
func ignorable(r rune) bool {
	return r >= 0x200c && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x206a && r <= 0x206f || r == 0xfeff
}

// ntfsDot is is_ntfs_dot_generic of git's path.c. short is how the short names
// begin that NTFS makes when its first four are taken.
func ntfsDot(name, word, short string) bool {
	at := func(i int) byte { // NUL behind the end, as in C
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
