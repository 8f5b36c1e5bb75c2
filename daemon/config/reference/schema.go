package reference

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

type object = map[string]any

// durationPattern is what time.ParseDuration reads, without a sign.
const durationPattern = `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$|^0$`

// Schema is a JSON schema (draft 7) of the file.
func (f File) Schema() ([]byte, error) {
	root := newTable("")
	root["$schema"], root["title"] = "http://json-schema.org/draft-07/schema#", f.Path
	for _, t := range f.Tables {
		at := f.place(root, t)
		if at["description"] == nil && t.Text != "" {
			at["description"] = plain(t.Text)
		}
		list := f.rows(t)
		if t.Like != "" {
			list = append(list, f.likeRows(t)...)
		}
		for _, r := range list {
			if properties := at["properties"].(object); properties[r.Name] == nil {
				properties[r.Name] = r.schema()
			}
		}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	err := enc.Encode(root)
	return b.Bytes(), err
}

// likeRows are the keys of the table that t is like, as far as t has them, without their defaults.
func (f File) likeRows(t Table) []row {
	if t.Like == "" {
		return nil
	}
	keys, _ := fields("", f.values())
	var out []row
	for _, r := range f.rows(f.table(t.Like)) {
		if slices.ContainsFunc(keys, func(k field) bool { return k.table == t.Name && k.name == r.Name }) {
			r.value, r.words = "", ""
			out = append(out, r)
		}
	}
	return out
}

func newTable(text string) object {
	o := object{"type": "object", "additionalProperties": false, "properties": object{}}
	if text != "" {
		o["description"] = text
	}
	return o
}

// place returns the object of a table, and makes it and those above it.
func (f File) place(at object, t Table) object {
	if t.Name == "" {
		return at
	}
	path := ""
	for part := range strings.SplitSeq(t.Name, ".") {
		path = join(path, part)
		if part == "NAME" {
			next, ok := at["additionalProperties"].(object)
			if !ok {
				next = newTable("")
				at["additionalProperties"] = next
			}
			at = next
			continue
		}
		properties := at["properties"].(object)
		next, ok := properties[part].(object)
		if !ok || next["type"] == "array" && next["items"] == nil {
			next = newTable("")
			if f.repeated(Table{Name: path}) {
				next = object{"type": "array", "items": next}
			}
			properties[part] = next
		}
		if items, ok := next["items"].(object); ok {
			next = items
		}
		at = next
	}
	return at
}

func (r row) schema() object {
	text := object{"type": "string"}
	o := object{}
	switch r.kind {
	case kindString:
		o["type"] = "string"
	case kindBool:
		o["type"] = "boolean"
	case kindInt:
		o["type"] = "integer"
	case kindNumber:
		o["type"] = "number"
	case kindDuration:
		o["type"], o["pattern"] = "string", durationPattern
	case kindWord:
		o["anyOf"] = []object{{"enum": r.Values}, {"type": "string", "pattern": durationPattern}}
	case kindWords:
		o["anyOf"] = []object{text, {"type": "array", "items": text}}
	case kindStrings:
		o["type"], o["items"] = "array", text
	case kindInts:
		o["type"], o["items"] = "array", object{"type": "integer"}
	case kindTables:
		o["type"] = "array"
	case kindMap:
		o["type"], o["additionalProperties"] = "object", text
	case kindLists:
		o["type"], o["additionalProperties"] = "object", object{"type": "array", "items": text}
	}
	o["description"] = plain(strings.TrimSpace(r.whole() + " " + r.allowed()))
	if r.kind == kindString && len(r.Values) > 0 {
		o["enum"] = r.Values
	}
	if r.kind == kindInt || r.kind == kindNumber {
		r.bounds(o)
	}
	var v struct {
		X any `toml:"x"`
	}
	if _, err := toml.Decode("x = "+r.value, &v); r.value != "" && err == nil {
		o["default"] = v.X
	}
	return o
}

// bounds adds the range of a number.
func (r row) bounds(o object) {
	if r.Range[0] == "" {
		return
	}
	least, most := json.Number(r.Range[0]), json.Number(r.Range[1])
	if !r.Zero {
		o["minimum"], o["maximum"] = least, most
		return
	}
	o["anyOf"] = []object{{"const": 0}, {"minimum": least, "maximum": most}}
}
