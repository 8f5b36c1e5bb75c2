package egress

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Relative reports whether words change a list: each begins with "+" or "-". Words of both sorts are an error.
func Relative(words []string) (bool, error) {
	n := 0
	for _, w := range words {
		if strings.HasPrefix(w, "+") || strings.HasPrefix(w, "-") {
			n++
		}
	}
	if n != 0 && n != len(words) {
		return false, errors.New("some entries have a sign and some have none: +NAME and -NAME change the list, NAME replaces it")
	}
	return n != 0, nil
}

// Change adds the words with "+" to a list that Parse reads, and removes those with "-", in their order. What is
// there already is not added twice. The error names the word.
func Change(list, words []string) ([]string, error) {
	p, err := Parse(list)
	if err != nil {
		return nil, err
	}
	if p.open {
		return nil, errors.New("the list is \"open\": nothing can be added to it or taken from it")
	}
	out := slices.DeleteFunc(p.Entries(), func(e string) bool { return e == None })
	for _, w := range words {
		one, err := Parse([]string{w[1:]})
		if err == nil && (one.open || slices.Equal(one.entries, []string{None})) {
			err = errors.New("is a whole list: without a sign it replaces the list")
		}
		if err != nil {
			return nil, fmt.Errorf("%q: %w", shorten(w), err)
		}
		e := one.entries[0]
		at := slices.Index(out, e)
		switch {
		case w[0] == '+' && at < 0:
			out = append(out, e)
		case w[0] == '-' && at < 0:
			return nil, fmt.Errorf("%q is not in the list, which is %s", shorten(e), shortList(p))
		case w[0] == '-':
			out = slices.Delete(out, at, at+1)
		}
	}
	if len(out) == 0 {
		out = []string{None}
	}
	if _, err := Parse(out); err != nil { // the bound of a list
		return nil, err
	}
	return out, nil
}

// shortList is a list for an error.
func shortList(p Policy) string {
	const most = 8
	e := p.Entries()
	if len(e) <= most {
		return strings.Join(e, ", ")
	}
	return fmt.Sprintf("%s and %d more (polisctl --json agents list has all)", strings.Join(e[:most], ", "), len(e)-most)
}
