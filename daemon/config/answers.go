package config

import (
	"fmt"
	"slices"
	"strings"
)

// Answer is one value of a document in the agent's home that answers what a program asks
// at its first start, such as whether it may trust the project's directory.
type Answer struct {
	File   string `toml:"file" json:"file"`     // below the home directory
	Format string `toml:"format" json:"format"` // AnswerJSON or AnswerTOML
	// At is the way to the value through the document's objects. "{project}" in it, and in
	// Value, is the project's path as the agent sees it.
	At []string `toml:"at" json:"at"`
	// Value is a bool, a string, an int64 or a list of strings. What the document has there stays,
	// unless it is false or null; a list gets the members that it has not.
	Value any `toml:"value" json:"value"`
}

// Formats of documents that can be answered in.
const (
	AnswerJSON = "json"
	AnswerTOML = "toml"
)

// maxAnswers bounds the answers of one base type, maxDepth how deep one is.
const (
	maxAnswers = 64
	maxDepth   = 16
)

func (t *BaseType) checkAnswers() error {
	if len(t.Answers) > maxAnswers {
		return fmt.Errorf("answers: there are %d: at most %d", len(t.Answers), maxAnswers)
	}
	for i := range t.Answers {
		if err := t.checkAnswer(&t.Answers[i]); err != nil {
			return fmt.Errorf("answers[%d].%w", i, err)
		}
	}
	return nil
}

func (t *BaseType) checkAnswer(a *Answer) error {
	if err := checkHomePath("file", a.File); err != nil {
		return err
	}
	for _, h := range t.Home {
		if h.Path != a.File && (within(h.Path, a.File) || within(a.File, h.Path)) {
			return fmt.Errorf("file = %q: cannot be a file where %q is one", a.File, h.Path)
		}
		if h.Path == a.File && h.Mode == HomeReadOnly {
			return fmt.Errorf("file = %q: must not be a file of home with mode = %q", a.File, HomeReadOnly)
		}
	}
	if a.Format != AnswerJSON && a.Format != AnswerTOML {
		return fmt.Errorf("format = %q: must be %q or %q", a.Format, AnswerJSON, AnswerTOML)
	}
	for _, o := range t.Answers {
		if o.File == a.File && o.Format != a.Format {
			return fmt.Errorf("format = %q: another answer in %s has %q", a.Format, a.File, o.Format)
		}
	}
	if len(a.At) == 0 || len(a.At) > maxDepth || slices.ContainsFunc(a.At, func(k string) bool { return k == "" || strings.ContainsAny(k, "\x00\n") }) {
		return fmt.Errorf("at = %q: must have 1 to %d names, none of them empty", a.At, maxDepth)
	}
	switch v := a.Value.(type) {
	case bool, string:
		return nil
	case int64:
		if a.Format == AnswerJSON {
			return nil
		}
	case []any:
		words := make([]string, 0, len(v))
		for _, w := range v {
			s, ok := w.(string)
			if !ok {
				return fmt.Errorf("value = %v: a list must be of strings", a.Value)
			}
			words = append(words, s)
		}
		if len(words) > 0 && a.Format == AnswerJSON {
			a.Value = words
			return nil
		}
	}
	return fmt.Errorf("value = %v: must be true, false, a string or, in JSON, a whole number or a list of strings", a.Value)
}
