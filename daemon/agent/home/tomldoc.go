package home

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/BurntSushi/toml"
)

// Bounds of a TOML document that is edited: the parser calls itself for each level of an array, and
// its time grows with the square of the names in a key.
const (
	maxTOML     = 256 << 10
	maxTOMLDots = 64 // in one line
	maxTOMLOpen = 1024
)

// setTOML is setJSON for a TOML document. It adds lines and changes none: a document in which that
// cannot be done is an error.
func setTOML(doc []byte, at []string, value any) ([]byte, error) {
	if len(doc) > maxTOML || bytes.Count(doc, []byte("["))+bytes.Count(doc, []byte("{")) > maxTOMLOpen {
		return nil, errors.New("it is too large to be edited")
	}
	for line := range bytes.Lines(doc) {
		if bytes.Count(line, []byte(".")) > maxTOMLDots {
			return nil, errors.New("a line of it has too many names to be edited")
		}
	}
	if now, found, err := tomlAt(doc, at); err != nil || found || now == value { // an answer may be false
		return doc, err
	}
	if table, found, _ := tomlAt(doc, at[:len(at)-1]); len(at) > 1 && found && table != nil || assigns(doc, at[:len(at)-1]) {
		return nil, fmt.Errorf("%q cannot be added to it: it defines the table already", at)
	}
	text, err := tomlLines(at, value)
	if err != nil {
		return nil, err
	}
	var out []byte
	if len(at) == 1 {
		out = append(text, doc...) // below a table's header it would belong to that table
	} else {
		out = bytes.Clone(doc)
		if len(out) > 0 && out[len(out)-1] != '\n' {
			out = append(out, '\n')
		}
		out = append(out, text...)
	}
	v, _, err := tomlAt(out, at)
	if err == nil && v != value {
		err = errors.New("another line gives it a value")
	}
	if err != nil {
		return nil, fmt.Errorf("%q cannot be added to it: %w", at, err)
	}
	return out, nil
}

// assigns reports whether a line gives one of keys a value: a table in a line takes no more members,
// which the parser here does not notice.
func assigns(doc []byte, keys []string) bool {
	for line := range bytes.Lines(doc) {
		line = bytes.TrimLeft(line, " \t")
		for _, key := range keys {
			for _, form := range []string{key, "'" + key + "'", strconv.Quote(key)} {
				rest, ok := bytes.CutPrefix(line, []byte(form))
				if ok && bytes.HasPrefix(bytes.TrimLeft(rest, " \t"), []byte("=")) {
					return true
				}
			}
		}
	}
	return false
}

// tomlAt returns the value at a path; found is false for one that says that nobody answered.
func tomlAt(doc []byte, at []string) (v any, found bool, err error) {
	var tree map[string]any
	if err := toml.Unmarshal(doc, &tree); err != nil {
		return nil, false, fmt.Errorf("it is not TOML: %w", err)
	}
	v = tree
	for _, key := range at {
		table, ok := v.(map[string]any)
		if !ok {
			return nil, false, fmt.Errorf("what has %q in it is not a table", key)
		}
		if v, found = table[key]; !found {
			return nil, false, nil
		}
	}
	return v, v != false, nil
}

// tomlLines are the lines that define the value. Strings of JSON are strings of TOML.
func tomlLines(at []string, value any) ([]byte, error) {
	var b bytes.Buffer
	for i, key := range at[:len(at)-1] {
		k, err := json.Marshal(key)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteByte('.')
		}
		b.Write(k)
	}
	key, err := json.Marshal(at[len(at)-1])
	if err != nil {
		return nil, err
	}
	val, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	if b.Len() == 0 {
		return fmt.Appendf(nil, "%s = %s\n", key, val), nil
	}
	return fmt.Appendf(nil, "\n[%s]\n%s = %s\n", b.Bytes(), key, val), nil
}
