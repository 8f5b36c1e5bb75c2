package tomledit

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/BurntSushi/toml"
)

// Differs returns an error unless after is before with "key = value" in the table, and nothing else is another. Edits
// of text are checked with it: a line of a list, for example, can look like a header.
func Differs(before, after, table, key, value string) error {
	was, is, to := map[string]any{}, map[string]any{}, map[string]any{}
	for text, v := range map[*map[string]any]string{&was: before, &is: after, &to: "v = " + value} {
		if _, err := toml.Decode(v, text); err != nil {
			return err
		}
	}
	if len(to) != 1 {
		return fmt.Errorf("%q is not one value", value)
	}
	in := was
	for name := range strings.SplitSeq(table, ".") {
		if name == "" {
			continue
		}
		next, ok := in[name].(map[string]any)
		if _, has := in[name]; has && !ok {
			return fmt.Errorf("%s is set, and is not a table", name)
		}
		if !ok {
			next = map[string]any{}
			in[name] = next
		}
		in = next
	}
	in[key] = to["v"]
	if !reflect.DeepEqual(was, is) {
		return errors.New("the file is written in a way that cannot be changed here")
	}
	return nil
}

// Get returns the value of a key of a table; ok is false if the text does not set it.
func Get(text, table, key string) (value any, ok bool, err error) {
	all := map[string]any{}
	if _, err := toml.Decode(text, &all); err != nil {
		return nil, false, err
	}
	for name := range strings.SplitSeq(table, ".") {
		if name == "" {
			continue
		}
		if all, ok = all[name].(map[string]any); !ok {
			return nil, false, nil
		}
	}
	value, ok = all[key]
	return value, ok, nil
}
