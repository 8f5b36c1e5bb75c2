package glob

import "strings"

// Idle returns the first negated pattern of a list that negates nothing: no pattern before it
// without "!" covers a path that it covers, too. Its author has usually meant a name that begins
// with "!". ok is false if there is none.
func Idle(list []*Pattern) (i int, ok bool) {
	for i, p := range list {
		if !p.negated {
			continue
		}
		idle := true
		for _, q := range list[:i] {
			if !q.negated && Overlap(q, p) {
				idle = false
				break
			}
		}
		if idle {
			return i, true
		}
	}
	return 0, false
}

// Literal returns a pattern in which every "[" and "]" is an ordinary character, and a leading "!"
// too; "*" and "?" stay wildcards. It is the pattern itself if there is nothing to escape.
func Literal(source string) string {
	var b strings.Builder
	for i := 0; i < len(source); i++ {
		switch c := source[i]; {
		case c == '\\' && i+1 < len(source):
			b.WriteByte(c)
			i++
		case c == '[', c == ']', c == '!' && i == 0:
			b.WriteByte('\\')
		}
		b.WriteByte(source[i])
	}
	return b.String()
}

// Brackets returns the pattern with its "[...]" read as ordinary characters. It is nil if the pattern
// has none.
func (p *Pattern) Brackets() *Pattern {
	body, neg := p.source, ""
	if p.negated {
		body, neg = body[1:], "!"
	}
	text := Literal(body)
	if strings.HasPrefix(body, "!") { // after the "!" of the negation it is an ordinary character
		text = strings.TrimPrefix(Literal(" "+body), " ")
	}
	if text == body {
		return nil
	}
	q, err := Compile(neg + text)
	if err != nil {
		return nil
	}
	return q
}
