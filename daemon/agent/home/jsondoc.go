package home

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"
)

// member is one member of a JSON object; raw is its value as the document has it.
type member struct {
	key string
	raw json.RawMessage
}

// setJSON sets the value at the path at of a JSON document, whose comments go. It returns doc if the
// document has a value there, see [config.Answer]. What is not on the path stays as it is, in its
// order.
func setJSON(doc []byte, at []string, value any) ([]byte, error) {
	plain := bytes.TrimSpace(stripComments(doc))
	if !utf8.Valid(plain) {
		return nil, fmt.Errorf("%w: it is not UTF-8", errNoObject)
	}
	if len(plain) == 0 {
		plain = []byte("{}")
	}
	out, err := setMember(plain, at, value, "")
	if err != nil {
		return nil, err
	}
	if out == nil {
		return doc, nil
	}
	return append(out, '\n'), nil
}

// setMember returns the object raw with the value at the path, or nil if it needs no change.
func setMember(raw []byte, at []string, value any, indent string) ([]byte, error) {
	members, err := parseObject(raw)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(members, func(m member) bool { return m.key == at[0] })
	if i < 0 {
		i, members = len(members), append(members, member{key: at[0]})
	}
	var set []byte
	old := members[i].raw
	switch {
	case len(at) > 1 && unanswered(old):
		set, err = setMember([]byte("{}"), at[1:], value, indent+"  ")
	case len(at) > 1:
		set, err = setMember(old, at[1:], value, indent+"  ")
	default:
		set, err = answered(old, value)
	}
	if set == nil || err != nil {
		return nil, err
	}
	members[i].raw = set
	return formatObject(members, indent)
}

// unanswered reports whether a value says that nobody answered: programs write false for that.
func unanswered(raw []byte) bool {
	return len(raw) == 0 || string(raw) == "false" || string(raw) == "null"
}

// answered is what takes the place of old to have value there, or nil if old stays.
func answered(old []byte, value any) ([]byte, error) {
	want, list := value.([]string)
	if !list || unanswered(old) {
		if !unanswered(old) {
			return nil, nil
		}
		set, err := json.Marshal(value)
		if bytes.Equal(set, old) {
			return nil, err
		}
		return set, err
	}
	var have []json.RawMessage
	if json.Unmarshal(old, &have) != nil {
		return nil, nil //nolint:nilerr // no list: what is there stays
	}
	n := len(have)
	for _, w := range want {
		if slices.ContainsFunc(have[:n], func(r json.RawMessage) bool {
			var s string
			return json.Unmarshal(r, &s) == nil && s == w
		}) {
			continue
		}
		raw, err := json.Marshal(w)
		if err != nil {
			return nil, err
		}
		have = append(have, raw)
	}
	if len(have) == n {
		return nil, nil
	}
	return json.Marshal(have)
}

var errNoObject = errors.New("it is not an object in JSON")

// parseObject returns the members of an object. Of members of one name the last counts, as for the
// programs that read it.
func parseObject(raw []byte) ([]member, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	t, err := d.Token()
	if err != nil || t != json.Delim('{') {
		return nil, errNoObject
	}
	var out []member
	index := map[string]int{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errNoObject, err)
		}
		var m member
		m.key, _ = t.(string) // the decoder returns nothing else here
		if err := d.Decode(&m.raw); err != nil {
			return nil, fmt.Errorf("%w: %w", errNoObject, err)
		}
		if i, ok := index[m.key]; ok {
			out[i] = m
			continue
		}
		index[m.key] = len(out)
		out = append(out, m)
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoObject, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: something follows it", errNoObject)
	}
	return out, nil
}

func formatObject(members []member, indent string) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("{")
	for i, m := range members {
		key, err := json.Marshal(m.key)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, "\n%s  %s: %s", indent, key, m.raw)
	}
	fmt.Fprintf(&b, "\n%s}", indent)
	return b.Bytes(), nil
}

// stripComments replaces the comments (// and /* */) of a document with spaces. Gemini CLI and
// Copilot CLI read their files so.
func stripComments(doc []byte) []byte {
	out := bytes.Clone(doc)
	for i := 0; i < len(out); i++ {
		switch {
		case out[i] == '"':
			for i++; i < len(out) && out[i] != '"'; i++ {
				if out[i] == '\\' {
					i++
				}
			}
		case bytes.HasPrefix(out[i:], []byte("//")):
			for ; i < len(out) && out[i] != '\n'; i++ {
				out[i] = ' '
			}
		case bytes.HasPrefix(out[i:], []byte("/*")):
			end := len(out)
			if n := bytes.Index(out[i+2:], []byte("*/")); n >= 0 {
				end = i + 2 + n + 2
			}
			for ; i < end; i++ {
				out[i] = ' '
			}
			i--
		}
	}
	return out
}
