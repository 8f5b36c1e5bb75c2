package reference

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// A row is a key with its description, its type and its default.
type row struct {
	Key
	table, kind string
	// value is the default in TOML, words the one in words; at most one of them is set.
	value, words string
}

// open reports whether the administrator chooses a part of a table's name, or repeats the table.
func (f File) open(t Table) bool { return strings.Contains(t.Name, "NAME") || f.repeated(t) }

// repeated reports whether a table is [[such]] or an element of a list.
func (f File) repeated(t Table) bool {
	keys, _ := fields("", f.values())
	return t.Name != "" && slices.ContainsFunc(keys, func(k field) bool { return k.kind == kindTables && k.key() == t.Name })
}

// rows returns the keys of a table, without those of the table it is like.
func (f File) rows(t Table) []row {
	keys, _ := fields("", f.values())
	repeated := f.repeated(t)
	var out []row
	for _, k := range t.Keys {
		r := row{Key: k, table: t.Name}
		i := slices.IndexFunc(keys, func(f field) bool { return f.table == t.Name && f.name == k.Name })
		if i < 0 {
			continue // Check finds it
		}
		r.kind, r.value = keys[i].kind, keys[i].value
		switch {
		case k.Default != "" && isTOML(k.Default):
			r.value = k.Default
		case k.Default != "":
			r.value, r.words = "", k.Default
		case repeated:
			r.value = ""
		}
		out = append(out, r)
	}
	return out
}

func isTOML(value string) bool {
	var v map[string]any
	_, err := toml.Decode("x = "+value, &v)
	return err == nil
}

// Check returns an error for each key without a description, and for each description without a key.
func (f File) Check() error {
	keys, tables := fields("", f.values())
	have := map[string]bool{}
	for _, k := range keys {
		have[k.key()] = k.kind != kindTables
	}
	described := map[string]bool{}
	byName := map[string]Table{}
	var errs []error
	for _, t := range f.Tables {
		if _, twice := byName[t.Name]; twice {
			errs = append(errs, fmt.Errorf("table [%s] is described twice", t.Name))
		}
		byName[t.Name] = t
		if !slices.Contains(tables, t.Name) {
			errs = append(errs, fmt.Errorf("table [%s] does not exist", t.Name))
		}
		all := t.Keys
		if t.Like != "" {
			all = slices.Concat(all, byName[t.Like].Keys)
		}
		for _, k := range all {
			_, ok := have[join(t.Name, k.Name)]
			described[join(t.Name, k.Name)] = ok
		}
		for _, k := range t.Keys {
			if _, ok := have[join(t.Name, k.Name)]; !ok {
				errs = append(errs, fmt.Errorf("key %s does not exist", join(t.Name, k.Name)))
			}
			if k.Text == "" {
				errs = append(errs, fmt.Errorf("key %s has no description", join(t.Name, k.Name)))
			}
		}
		if t.Like != "" && len(byName[t.Like].Keys) == 0 {
			errs = append(errs, fmt.Errorf("table [%s] is like [%s], which is not described before it", t.Name, t.Like))
		}
	}
	for _, k := range keys {
		if have[k.key()] && !described[k.key()] {
			errs = append(errs, fmt.Errorf("key %s is not described", k.key()))
		}
	}
	for _, t := range tables {
		if _, ok := byName[t]; !ok && slices.ContainsFunc(keys, func(k field) bool { return k.table == t }) {
			errs = append(errs, fmt.Errorf("table [%s] is not described", t))
		}
	}
	return errors.Join(errs...)
}

// allowed describes the values that a key can have, as a sentence; "" if the description suffices.
func (r row) allowed() string {
	var words []string
	for _, w := range r.Values {
		words = append(words, `"`+w+`"`)
	}
	list := strings.Join(words, ", ")
	switch {
	case r.kind == kindWord:
		return "A duration, or " + list + "."
	case len(words) > 0:
		return "One of " + list + "."
	case r.Range[0] != "":
		zero := ""
		if r.Zero {
			zero = ", or " + cmp.Or(map[string]string{kindDuration: "0s"}[r.kind], "0")
		}
		return fmt.Sprintf("%s from %s to %s%s.", article(r.kind), r.Range[0], r.Range[1], zero)
	case r.kind == kindString, r.kind == kindAny:
		return ""
	}
	return article(r.kind) + "."
}

func article(kind string) string {
	if strings.ContainsAny(kind[:1], "aeiou") {
		return "An " + kind
	}
	return "A " + kind
}

// brief is the first paragraph of the description, whole all of it.
func (r row) brief() string { b, _, _ := strings.Cut(r.Text, "\n\n"); return b }
func (r row) whole() string { return strings.ReplaceAll(r.Text, "\n\n", " ") }
