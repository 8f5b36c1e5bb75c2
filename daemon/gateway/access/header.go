package access

import (
	"encoding/base64"
	"fmt"
	"net/textproto"
	"regexp"
	"slices"
	"strings"
)

// DefaultHeader is `header` of a service that has a key and does not set it.
const DefaultHeader = "Authorization: Bearer {key}"

// A Header is the header that carries the key of a service.
type Header struct {
	Name          string
	before, after string
	// basic: the key is the password of this user, in the encoding of RFC 7617.
	basic bool
	user  string
}

var (
	token     = regexp.MustCompile(`^[A-Za-z0-9!#$&'*+.^_|~-]{1,64}$`)
	basicForm = regexp.MustCompile(`^Basic \{base64:([^:{}]*):\{key\}\}$`)
)

// framing are headers that are about the message or its way, and cannot carry a key.
var framing = []string{"Host", "Content-Length", "Content-Type", "Content-Encoding", "Transfer-Encoding", "Connection", "Upgrade", "Te", "Trailer", "Keep-Alive",
	"Proxy-Authorization", "Proxy-Connection", "Expect", "Accept-Encoding", "Range"}

// ParseHeader reads `header` of a service: a name, and a value with "{key}" once.
// "Basic {base64:USER:{key}}" is HTTP basic authentication with the key as the password.
func ParseHeader(text string) (Header, error) {
	name, value, ok := strings.Cut(text, ": ")
	h := Header{Name: textproto.CanonicalMIMEHeaderKey(name)}
	switch {
	case !ok || !token.MatchString(name):
		return Header{}, fmt.Errorf("must be a name and a value, such as %q", DefaultHeader)
	case slices.Contains(framing, h.Name) || strings.HasPrefix(h.Name, "Sec-"):
		return Header{}, fmt.Errorf("%s cannot carry a key", h.Name)
	case strings.Count(value, "{key}") != 1:
		return Header{}, fmt.Errorf("the value must have {key} once")
	case len(value) > 1<<10 || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }):
		return Header{}, fmt.Errorf("the value must have printable ASCII characters, at most 1024")
	}
	if m := basicForm.FindStringSubmatch(value); m != nil {
		h.basic, h.user, h.before = true, m[1], "Basic "
		return h, nil
	}
	h.before, h.after, _ = strings.Cut(value, "{key}")
	if strings.ContainsAny(h.before+h.after, "{}") {
		return Header{}, fmt.Errorf("the value may have {key}, or %q, and no other braces", "Basic {base64:USER:{key}}")
	}
	return h, nil
}

// Value returns the value of the header with the key.
func (h Header) Value(key string) string { return h.before + h.encoded(key) + h.after }

func (h Header) encoded(key string) string {
	if h.basic {
		return base64.StdEncoding.EncodeToString([]byte(h.user + ":" + key))
	}
	return key
}

// Secrets returns the texts that must not be in an answer: the key, and the form of it that is sent.
func (h Header) Secrets(key string) []string {
	if key == "" {
		return nil
	}
	return slices.Compact([]string{key, h.encoded(key)})
}
