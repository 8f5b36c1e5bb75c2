package access

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"slices"
	"strings"
)

// ErrForm is returned for a form that a service could read in another way than it was checked.
var ErrForm = errors.New("a form, or a body without a Content-Type, must have no Content-Encoding, one media type, a charset such as UTF-8, and parts as browsers send them")

// ErrField is returned for a field that replaces the method by one that is not allowed.
var ErrField = errors.New("a field replaces the method by one that is not allowed for this path")

// maxField is how much of a name is compared, in bytes, and maxValue of a value.
const (
	maxField = 4 << 10
	maxValue = 65
)

// A checker reads a body in parts. It returns an error before the service has the part that is not allowed.
type checker interface {
	write(p []byte) error
	// end is called after the last part.
	end() error
}

// CheckFields returns a reader of a body that fails at a field that replaces the method of the request, as services
// find it in the fields of a form and in the members of a JSON object, unless allow accepts the method of its value.
// types and encodings are the values of Content-Type and Content-Encoding. A body that is no form, and JSON
// in an encoding, is not read.
func CheckFields(in io.Reader, types, encodings []string, allow func(method string) bool) (io.Reader, error) {
	c, err := checkerFor(types, encodings, func(name, value string) error {
		if m, ok := Replacement(name, value); ok && !allow(m) {
			return ErrField
		}
		return nil
	})
	if c == nil || err != nil {
		return in, err
	}
	return &fieldReader{in: in, check: c}, nil
}

// fieldReader reads what the checker has accepted.
type fieldReader struct {
	in    io.Reader
	check checker
	err   error
}

// Read is part of io.Reader.
func (f *fieldReader) Read(p []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	n, err := f.in.Read(p)
	f.err = f.check.write(p[:n])
	if f.err == nil && errors.Is(err, io.EOF) {
		f.err = f.check.end()
	}
	if f.err != nil {
		return 0, f.err
	}
	return n, err
}

// Charsets in which the characters of ASCII are the bytes of ASCII. In another one, such as UTF-16 or IBM037, a service
// would read other names than the checker.
var charsets = []string{"", "utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "iso-8859-15", "latin1", "windows-1252"}

func checkerFor(types, encodings []string, field func(name, value string) error) (checker, error) {
	all := strings.ToLower(strings.Join(types, ","))
	if strings.TrimSpace(all) == "" { // a form for Rack
		all = "application/x-www-form-urlencoded"
	}
	form := strings.Contains(all, "urlencoded") || strings.Contains(all, "form-data") || strings.Contains(all, "multipart/")
	if !form && !strings.Contains(all, "json") {
		return nil, nil
	}
	media, params, err := mime.ParseMediaType(all)
	encoded := slices.ContainsFunc(encodings, func(e string) bool { return e != "" && !strings.EqualFold(e, "identity") })
	switch {
	case err != nil || len(types) > 1 || !slices.Contains(charsets, params["charset"]) || form && encoded:
		return nil, ErrForm
	case strings.HasPrefix(media, "multipart/"):
		// In the case of the header: params are in small letters.
		_, params, err = mime.ParseMediaType(types[0])
		if b := params["boundary"]; err != nil || b == "" || len(b) > 200 || strings.Count(all, "boundary") != 1 || strings.ContainsAny(b, "\r\n\x00") || strings.Contains(all, "boundary*") {
			return nil, fmt.Errorf("%w: and one boundary", ErrForm)
		}
		return &multipartFields{field: field, delimiter: "--" + params["boundary"]}, nil
	case form:
		return &urlencodedFields{field: field}, nil
	case encoded:
		return nil, nil
	}
	return &jsonMembers{field: func(name, value string) error {
		if Replaces(name) { // "method" is a member of JSON-RPC
			return field(name, value)
		}
		return nil
	}}, nil
}
