package delegate

import (
	"fmt"
	"slices"
	"strings"

	"polis/daemon/api"
	"polis/fusefs/policy/glob"
)

// Rules returns the path rules of a worker: what it wants of its parent's rules. Without read and
// write rules of its own a worker has the parent's. What the parent's rules withhold or ask about
// stays so. A rule of a worker cannot begin with '!': what it negates could be the parent's.
func Rules(parent api.Policy, want *api.Policy) (api.Policy, error) {
	out := api.Policy{Read: slices.Clone(parent.Read), Write: slices.Clone(parent.Write), Temp: parent.Temp}
	if want == nil {
		want = &api.Policy{}
	}
	if len(want.Ask) > 0 {
		// A question about a path that no rule of the parent's allows could be approved.
		return out, api.Errorf(api.CodeForbidden, "ask = %q: a worker asks about what its parent asks about", want.Ask[0]).WithHint("leave ask out, or deny the path")
	}
	if len(want.Exclusive) > 0 {
		return out, api.Errorf(api.CodeForbidden, "exclusive = %q: a worker cannot keep paths to itself", want.Exclusive[0]).WithHint("leave exclusive out")
	}
	for _, l := range []struct {
		field string
		globs []string
	}{{"read", want.Read}, {"write", want.Write}, {"deny", want.Deny}, {"hide", want.Hide}} {
		for _, g := range l.globs {
			if strings.HasPrefix(g, "!") {
				return out, api.Errorf(api.CodeBadRequest, "policy.%s: %q: a rule of a worker cannot begin with '!'", l.field, g).
					With("field", "policy."+l.field).With("rule", g).With("escaped", `\`+g).
					WithHint(`name what the worker may do, and what it may not; for a name that begins with "!" write '\%s'`, g)
			}
		}
	}
	out.Ask, out.Deny, out.Hide = slices.Clone(parent.Ask), join(parent.Deny, want.Deny), join(parent.Hide, want.Hide)
	if len(want.Read)+len(want.Write) == 0 {
		return out, nil
	}
	if len(parent.Read)+len(parent.Write) == 0 { // the parent may do everything else
		out.Read, out.Write = slices.Clone(want.Read), slices.Clone(want.Write)
		return out, nil
	}
	var err error
	if out.Write, err = within("write", parent.Write, want.Write); err != nil {
		return out, err
	}
	if len(parent.Read) == 0 { // and may read everything else
		out.Read = slices.Clone(want.Read)
		return out, nil
	}
	// Rules to write are rules to read. Those of the read list come last, so that a '!' among the
	// rules to write takes nothing from them.
	readable := join(parent.Write, parent.Read)
	if len(want.Read) == 0 { // only write rules: it reads what its parent reads
		out.Read = readable
		return out, nil
	}
	out.Read, err = within("read", readable, want.Read)
	return out, err
}

// join appends rules to others.
func join(a, b []string) []string { return slices.Concat(a, b) }

// within returns rules that cover only what the parent's list covers. A wanted rule that lies in
// one of the parent's stays. One that is wider becomes those of the parent's that lie in it. The
// negated rules of the parent's list come last, so they count for all.
func within(field string, parent, want []string) ([]string, error) {
	if len(want) == 0 {
		return nil, nil
	}
	has, err := compile(field, parent)
	if err != nil {
		return nil, err
	}
	asks, err := compile(field, want)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, w := range asks {
		n := len(out)
		for _, p := range has {
			switch {
			case p.Negated():
			case contains(p, w):
				out = append(out[:n], w.String())
			case contains(w, p) && !slices.Contains(out[n:], w.String()):
				out = append(out, p.String())
			}
		}
		if len(out) == n {
			return nil, api.Errorf(api.CodeForbidden, "policy.%s: %q does not lie in what the parent may %s: %s", field, w.String(), field, api.Shorten(strings.Join(parent, " "), 200)).
				WithHint("choose a path in one of those rules; /run/polis/policy has them")
		}
	}
	for _, p := range has {
		if p.Negated() {
			out = append(out, p.String())
		}
	}
	return out, nil
}

// contains reports whether it is certain that p covers what q covers.
func contains(p, q *glob.Pattern) bool {
	switch p.String() {
	case "*", "/*", "**", "/**":
		// Every path. Only "**" covers the root itself, too.
		return p.CoversTree("", true) || !q.CoversTree("", true)
	}
	return glob.Contains(p, q)
}

func compile(field string, globs []string) ([]*glob.Pattern, error) {
	out := make([]*glob.Pattern, 0, len(globs))
	for _, g := range globs {
		p, err := glob.Compile(g)
		if err != nil {
			return nil, api.Errorf(api.CodeBadRequest, "policy.%s: %w", field, fmt.Errorf("%q: %w", g, err))
		}
		out = append(out, p)
	}
	return out, nil
}
