package home

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"polis/daemon/config"
)

// answer writes the answers for file into its content. It returns doc if they are there.
func (s Spec) answer(file string, doc []byte) ([]byte, error) {
	out := doc
	for _, a := range s.Answers {
		if a.File != file {
			continue
		}
		if !utf8.ValidString(s.Project) {
			return doc, fmt.Errorf("the project's path %q is not UTF-8", s.Project)
		}
		at := slices.Clone(a.At)
		for i := range at {
			at[i] = s.place(at[i])
		}
		set := setJSON
		if a.Format == config.AnswerTOML {
			set = setTOML
		}
		next, err := set(out, at, s.value(a.Value))
		if err != nil {
			return doc, err
		}
		if out = next; len(out) > maxFile {
			return doc, fmt.Errorf("it would have %d bytes: at most %d", len(out), maxFile)
		}
	}
	return out, nil
}

// place puts the project's path in.
func (s Spec) place(text string) string { return strings.ReplaceAll(text, "{project}", s.Project) }

func (s Spec) value(v any) any {
	switch v := v.(type) {
	case string:
		return s.place(v)
	case []string:
		out := make([]string, len(v))
		for i := range v {
			out[i] = s.place(v[i])
		}
		return out
	}
	return v
}
