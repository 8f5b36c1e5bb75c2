package api

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// EncodePath returns a path as text that JSON can hold without loss: a path that is not UTF-8, or
// begins with a double quote, is quoted as strconv.Quote does.
func EncodePath(path string) string {
	if utf8.ValidString(path) && !strings.HasPrefix(path, `"`) {
		return path
	}
	return strconv.Quote(path)
}

// DecodePath returns the path that EncodePath encoded. Text that it cannot have written is returned
// as it is.
func DecodePath(text string) string {
	if !strings.HasPrefix(text, `"`) {
		return text
	}
	path, err := strconv.Unquote(text)
	if err != nil {
		return text
	}
	return path
}

// PrintPath returns a path as a part of a message: a path with bytes that are not printed, such as a
// newline, is quoted as strconv.Quote does.
func PrintPath(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool { return r == utf8.RuneError || !strconv.IsPrint(r) }) {
		return strconv.Quote(path)
	}
	return EncodePath(path)
}
