package access

import (
	"errors"
	"net/url"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxPath is the longest path of a request, in bytes.
const MaxPath = 4 << 10

// ErrPath is returned for a path that is not plain.
var ErrPath = errors.New("the path must be plain: no dot segments, empty segments, encoded separators, ';' or '%'")

// scoped is the name of a package as npm encodes it, with its scope: one encoded slash.
var scoped = regexp.MustCompile(`/@[A-Za-z0-9._~-]+(%2[fF])[A-Za-z0-9._~-]+(?:/|$)`)

// A Path is the path of a request in canonical form.
type Path struct {
	// Plain is the path that rules are compared with, without escapes.
	Plain string
	// sent is the path that is sent, escaped.
	sent string
	// scope is the segment with the scope of a package whose slash is encoded, 0 if none is. A server could
	// read what follows as a part of this segment, so that a rule has to name it; in the first segment, which
	// is 0 too, nothing else can be meant.
	scope int
}

// ParsePath reads the escaped path of a request. There is one form of each path: another one is an
// error, so that no server can read it in another way.
func ParsePath(escaped string) (Path, error) {
	if len(escaped) > MaxPath || !strings.HasPrefix(escaped, "/") {
		return Path{}, ErrPath
	}
	rest, npm := escaped, scoped.FindStringSubmatchIndex(escaped)
	if npm != nil {
		rest = escaped[:npm[2]] + "/" + escaped[npm[3]:]
	}
	plain, err := url.PathUnescape(rest)
	if err != nil || !utf8.ValidString(plain) || strings.ContainsFunc(plain, refused) || strings.Count(plain, "/") != strings.Count(rest, "/") {
		return Path{}, ErrPath
	}
	for i, segment := range strings.Split(plain[1:], "/") {
		last := i == strings.Count(plain, "/")-1
		if segment == "" && !last || segment != "" && strings.Trim(segment, ". ") == "" {
			return Path{}, ErrPath
		}
	}
	p := Path{Plain: plain, sent: (&url.URL{Path: plain}).EscapedPath()}
	if npm != nil {
		before := strings.Count(escaped[:npm[2]], "/")
		parts := strings.SplitAfterN(p.sent, "/", before+2)
		parts[before] = strings.TrimSuffix(parts[before], "/") + "%2f"
		p.sent, p.scope = strings.Join(parts, ""), before-1
	}
	return p, nil
}

// refused reports whether a path cannot have this character. Some servers take a backslash or a
// full-width stop for another character, and a percent sign for a second encoding.
func refused(r rune) bool {
	if r < utf8.RuneSelf {
		return r < ' ' || r == 0x7f || strings.ContainsRune(`\%;?#`, r)
	}
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
}

// Below sets the path of u to p below base, which is a plain path without a final slash.
func (p Path) Below(base string, u *url.URL) {
	u.Path = base + p.Plain
	u.RawPath = (&url.URL{Path: base}).EscapedPath() + p.sent
}
