package provider

import (
	"fmt"
	"net"
	"net/url"
	"strings"
)

// ParseURL reads the address of a model service. A final /v1 is part of the API's own paths.
func ParseURL(text string) (*url.URL, error) {
	u, err := ParseAddress(text)
	if err == nil {
		u.Path = strings.TrimSuffix(u.Path, "/v1")
	}
	return u, err
}

// ParseAddress reads the address of a service: http or https, a host, and perhaps a path before that of
// the API.
func ParseAddress(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("url: must be an address such as %q", "https://models.example.com")
	case u.Scheme != "https" && u.Scheme != "http", u.Host == "", u.User != nil, u.RawQuery != "", u.Fragment != "", u.Opaque != "":
		return nil, fmt.Errorf("url: must be http:// or https://, a host, and perhaps a path; no user, query or fragment")
	case u.RawPath != "" || strings.Contains(u.Path, "..") || strings.Contains(u.Path, "//"):
		return nil, fmt.Errorf("url: its path must be plain")
	case u.Scheme == "http" && !Loopback(u.Hostname()):
		return nil, fmt.Errorf("url: http:// is for this machine's own servers (127.0.0.1); use https://")
	}
	u.Path = strings.TrimSuffix(u.Path, "/")
	return u, nil
}

// Loopback reports whether a host is this machine itself.
func Loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// minKey is the least length of a key, in bytes. A shorter one would occur in answers by chance.
const minKey = 8

// CheckKey returns an error if a key cannot be sent or recognised. The error does not have the key.
func CheckKey(key string) error {
	if key == "" {
		return nil
	}
	if len(key) < minKey || len(key) > 8<<10 || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("key: must have %d to 8192 printable ASCII characters and no space", minKey)
	}
	return nil
}
