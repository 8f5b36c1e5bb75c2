package access

import "encoding/json"

// jsonMembers reads the members of a JSON object. Those of objects within it are not compared.
type jsonMembers struct {
	field    func(name, value string) error
	depth    int
	object   bool // the outermost value is an object
	inString bool
	escaped  bool
	key      bool // the next string is a name
	text     []byte
	name     string
	named    bool // name has no value yet
}

func (j *jsonMembers) write(p []byte) error {
	for _, b := range p {
		if err := j.byte(b); err != nil {
			return err
		}
	}
	return nil
}

func (j *jsonMembers) byte(b byte) error {
	if j.inString {
		return j.inText(b)
	}
	switch b {
	case '"':
		j.inString, j.text = true, j.text[:0]
	case '{', '[':
		if err := j.unnamed(); err != nil {
			return err
		}
		if j.depth == 0 {
			j.object = b == '{'
		}
		j.depth++
		j.key = j.depth == 1 && j.object
	case '}', ']':
		j.depth, j.key = max(j.depth-1, 0), false
		return j.unnamed()
	case ',':
		j.key = j.depth == 1 && j.object
		return j.unnamed()
	}
	return nil
}

func (j *jsonMembers) inText(b byte) error {
	switch {
	case j.escaped:
		j.escaped = false
	case b == '\\':
		j.escaped = true
	case b == '"':
		j.inString = false
		return j.string()
	}
	if len(j.text) < maxField {
		j.text = append(j.text, b)
	}
	return nil
}

// string handles the end of a name or a value.
func (j *jsonMembers) string() error {
	if !j.key && !j.named {
		return nil
	}
	text := string(j.text)
	if err := json.Unmarshal([]byte(`"`+text+`"`), &text); err != nil {
		text = string(j.text) // a lenient service can accept it
	}
	if j.key {
		j.key, j.name, j.named = false, text, true
		return nil
	}
	j.named = false
	return j.field(j.name, text)
}

// unnamed ends a member whose value is no text.
func (j *jsonMembers) unnamed() error {
	if !j.named {
		return nil
	}
	j.named = false
	return j.field(j.name, "")
}

func (j *jsonMembers) end() error { return j.unnamed() }
