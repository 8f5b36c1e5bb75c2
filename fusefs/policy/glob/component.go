package glob

import "strings"

// matchComponent is wildmatch for one path component: no '/' on either side,
// so "**" is "*". Only the last star is retried.
func matchComponent(pattern, name string) bool {
	p, n := 0, 0
	starP, starN := -1, 0
	for {
		if p < len(pattern) && pattern[p] == '*' {
			p++
			starP, starN = p, n
			continue
		}
		if n == len(name) {
			return p == len(pattern)
		}
		if p < len(pattern) {
			if w, ok := matchOne(pattern[p:], name[n]); ok {
				p, n = p+w, n+1
				continue
			}
		}
		if starP < 0 {
			return false
		}
		starN++
		p, n = starP, starN
	}
}

// matchOne matches one byte against the first element of pattern and returns
// the element's width.
func matchOne(pattern string, c byte) (width int, ok bool) {
	switch pattern[0] {
	case '?':
		return 1, true
	case '\\':
		if len(pattern) < 2 {
			return 1, false
		}
		return 2, pattern[1] == c
	case '[':
		width, ok, _ = bracket(pattern, c)
		return width, ok
	}
	return 1, pattern[0] == c
}

// bracket matches c against the bracket expression pattern begins with.
// valid is false if there is no closing bracket or an unknown class; git
// then matches nothing.
func bracket(pattern string, c byte) (width int, ok, valid bool) {
	i := 1
	negated := i < len(pattern) && (pattern[i] == '!' || pattern[i] == '^')
	if negated {
		i++
	}
	matched := false
	var prev byte
	for first := true; ; first = false {
		if i >= len(pattern) {
			return len(pattern), false, false
		}
		ch := pattern[i]
		switch {
		case ch == ']' && !first:
			return i + 1, matched != negated, true
		case ch == '\\':
			i++
			if i >= len(pattern) {
				return len(pattern), false, false
			}
			ch = pattern[i]
			matched = matched || ch == c
			prev = ch
		case ch == '-' && prev != 0 && i+1 < len(pattern) && pattern[i+1] != ']':
			i++
			hi := pattern[i]
			if hi == '\\' {
				i++
				if i >= len(pattern) {
					return len(pattern), false, false
				}
				hi = pattern[i]
			}
			matched = matched || (prev <= c && c <= hi)
			prev = 0
		case ch == '[' && i+1 < len(pattern) && pattern[i+1] == ':':
			end := strings.IndexByte(pattern[i+2:], ']')
			if end < 0 {
				return len(pattern), false, false
			}
			body := pattern[i+2 : i+2+end]
			if !strings.HasSuffix(body, ":") {
				// Not a class after all: the bracket is itself.
				matched = matched || c == '['
				prev = '['
				break
			}
			in, known := class(body[:len(body)-1], c)
			if !known {
				return len(pattern), false, false
			}
			matched = matched || in
			i += 2 + end
			prev = 0
		default:
			matched = matched || ch == c
			prev = ch
		}
		i++
	}
}

func class(name string, c byte) (in, known bool) {
	lower, upper, digit := c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9'
	switch name {
	case "alnum":
		return lower || upper || digit, true
	case "alpha":
		return lower || upper, true
	case "blank":
		return c == ' ' || c == '\t', true
	case "cntrl":
		return c < 0x20 || c == 0x7f, true
	case "digit":
		return digit, true
	case "graph":
		return c > 0x20 && c < 0x7f, true
	case "lower":
		return lower, true
	case "print":
		return c >= 0x20 && c < 0x7f, true
	case "punct":
		return c > 0x20 && c < 0x7f && !lower && !upper && !digit, true
	case "space":
		return c == ' ' || (c >= '\t' && c <= '\r'), true
	case "upper":
		return upper, true
	case "xdigit":
		return digit || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'), true
	}
	return false, false
}

// checkComponent refuses what git would silently never match: a policy that
// protects nothing because of a typing error must not compile.
func checkComponent(s string) error {
	for i := 0; i < len(s); {
		switch s[i] {
		case '\\':
			if i+1 == len(s) {
				return ErrBackslash
			}
			i += 2
		case '[':
			width, _, valid := bracket(s[i:], 0)
			if !valid {
				return ErrBracket
			}
			i += width
		default:
			i++
		}
	}
	return nil
}
