package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxQuoted is the longest form of a controlled name, in bytes: each letter can be an escape.
const maxQuoted = 6*len("stream_options") + 2

var errObject = errors.New("the body must be one JSON object")

// member is the value of a member of an object, and where it is in the body.
type member struct {
	value      []byte
	start, end int
}

// object returns the controlled members of a JSON object, after which nothing follows. It copies and keeps
// nothing else: an agent can have many large bodies on their way.
func object(body []byte) (fields map[string]member, err error) {
	// Another parser could leave out what is no UTF-8, and read another name.
	if !utf8.Valid(body) || !json.Valid(body) {
		return nil, errObject
	}
	i := space(body, 0)
	if body[i] != '{' {
		return nil, errObject
	}
	fields = map[string]member{}
	for i = space(body, i+1); body[i] != '}'; {
		end := value(body, i)
		quoted := body[i:end]
		i = space(body, space(body, end)+1) // after the colon
		m := member{start: i, end: value(body, i)}
		m.value = body[m.start:m.end]
		if len(quoted) <= maxQuoted {
			c, exact := controls(quoted)
			if _, twice := fields[c]; c != "" && (!exact || twice) {
				return nil, fmt.Errorf("%s: the body has it twice, or in another spelling", c)
			}
			if c != "" {
				fields[c] = m
			}
		}
		if i = space(body, m.end); body[i] == ',' {
			i = space(body, i+1)
		}
	}
	return fields, nil
}

// controls returns the controlled name that a quoted name is, perhaps in another spelling; "" if it is none.
func controls(quoted []byte) (name string, exact bool) {
	plain := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(plain, '\\') >= 0 {
		var text string
		if err := json.Unmarshal(quoted, &text); err != nil { // the document is valid
			return controlled[0], false
		}
		plain = []byte(text)
	}
	for _, c := range controlled {
		if strings.EqualFold(string(plain), c) {
			return c, string(plain) == c
		}
	}
	return "", false
}

// space returns where the next thing begins that is no space.
func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// value returns the end of the value that begins at i, in a valid document.
func value(b []byte, i int) int {
	depth := 0
	for ; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 { // the end of what has this number or word
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return i
			}
		}
	}
	return i
}
