package config

import (
	"cmp"
	"fmt"
	"maps"
	"net/textproto"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/setting"
	"polis/daemon/gateway/access"
	"polis/daemon/gateway/provider"
)

// KeySource is where the key of a service is: at most one of its fields is set.
type KeySource struct {
	// KeyFile is a file of root's with the key, Credential a credential of polisd's unit
	// (systemd.exec(5), LoadCredential=).
	KeyFile    string `toml:"key_file"`
	Credential string `toml:"credential"`
	// KeyCommand is a program with its arguments that prints the key, KeyUser the user that it runs as, and
	// KeyRefresh how long a key is used.
	KeyCommand []string         `toml:"key_command"`
	KeyUser    string           `toml:"key_user"`
	KeyRefresh setting.Duration `toml:"key_refresh"`
}

// DefaultKeyUser is who commands run as that print keys.
const DefaultKeyUser = "nobody"

// Refresh returns how long a key of a command is used.
func (k KeySource) Refresh() time.Duration { return cmp.Or(time.Duration(k.KeyRefresh), time.Hour) }

// Any reports whether there is a key.
func (k KeySource) Any() bool { return k.KeyFile != "" || k.Credential != "" || len(k.KeyCommand) > 0 }

func (k KeySource) check() error {
	command, refresh := len(k.KeyCommand) > 0, time.Duration(k.KeyRefresh)
	switch {
	case k.KeyFile != "" && k.Credential != "" || command && (k.KeyFile != "" || k.Credential != ""):
		return fmt.Errorf("key_file, credential and key_command: give one of them")
	case command && (!filepath.IsAbs(k.KeyCommand[0]) || filepath.Clean(k.KeyCommand[0]) != k.KeyCommand[0]):
		return fmt.Errorf("key_command = %q: the program must be a clean absolute path", k.KeyCommand)
	case len(k.KeyCommand) > maxKeyArgs || slices.ContainsFunc(k.KeyCommand, func(a string) bool { return len(a) > 4096 || strings.ContainsRune(a, 0) }):
		return fmt.Errorf("key_command: at most %d arguments of 4096 bytes, without NUL bytes", maxKeyArgs)
	case k.KeyUser != "" && !userName.MatchString(k.KeyUser):
		return fmt.Errorf("key_user = %q: must be the name of a user", api.Shorten(k.KeyUser, 64))
	case refresh != 0 && (refresh < time.Minute || refresh > 30*24*time.Hour):
		return fmt.Errorf("key_refresh = %q: must be from 1m to 720h", refresh)
	case k.KeyFile != "" && (!filepath.IsAbs(k.KeyFile) || filepath.Clean(k.KeyFile) != k.KeyFile):
		return fmt.Errorf("key_file = %q: must be a clean absolute path", k.KeyFile)
	case k.Credential != "" && !credentialName.MatchString(k.Credential):
		return fmt.Errorf("credential = %q: must be the name of a credential of polisd's unit", api.Shorten(k.Credential, 64))
	}
	return nil
}

// Service is [services.NAME]: a service that is no model service, and that agents reach by the gateway
// of their shims.
type Service struct {
	URL string `toml:"url"`
	// Header carries the key, as access.ParseHeader reads it.
	Header string `toml:"header"`
	KeySource
	// Methods and Paths are what agents may request, as access.ParseRules reads them.
	Methods []string `toml:"methods"`
	Paths   []string `toml:"paths"`
	// RequestHeaders are further headers of the agent's requests that reach the service.
	RequestHeaders []string `toml:"request_headers"`
	// Env are variables of the agents that use the service, Without those that they do not get. In values,
	// "{url}" is the address of the service in the sandbox, and "{key}" a word that is no key; a variable
	// with "{key}" is not set if the service has no key.
	Env     map[string]string `toml:"env"`
	Without []string          `toml:"without"`
	// RequestsPerMinute bounds what each agent sends to the service; 0 is no bound.
	RequestsPerMinute int `toml:"requests_per_minute"`
}

const (
	maxServices       = 64
	maxRequestHeaders = 32
	maxKeyArgs        = 64
	maxPerMinute      = 100_000
)

var userName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}$`)

var headerName = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)

// never are headers of an agent's request that no service gets: they name the host, the way or the
// method in another manner than the request that was checked, or cut an answer.
var never = regexp.MustCompile(`(?i)^(host|connection|cookie|expect|forwarded|keep-alive|proxy-.*|range|if-range|te|trailer|transfer-encoding|content-length|accept-encoding|upgrade|x-forwarded-.*|x-http-method.*|x-original-.*|x-rewrite-.*|sec-.*)$`)

// HeaderTemplate returns the header that carries the key.
func (s Service) HeaderTemplate() string { return cmp.Or(s.Header, access.DefaultHeader) }

// AllowedMethods returns the methods of paths that have none of their own.
func (s Service) AllowedMethods() []string {
	if s.Methods == nil {
		return []string{"GET"}
	}
	return s.Methods
}

// Forward returns the further request headers in canonical form.
func (s Service) Forward() []string {
	var out []string
	for _, h := range s.RequestHeaders {
		out = append(out, textproto.CanonicalMIMEHeaderKey(h))
	}
	return out
}

func (c *Config) checkServices() error {
	if len(c.Services) > maxServices {
		return api.Errorf(api.CodeInvalidConfig, "services: there are %d: at most %d", len(c.Services), maxServices)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Services)) {
		if _, both := c.Models[name]; both {
			return api.Errorf(api.CodeInvalidConfig, "services.%s: there is a table [models.%s] of this name, too; both are at the same endpoint", name, name)
		}
		if !serviceName.MatchString(name) || strings.HasSuffix(name, "-") {
			return api.Errorf(api.CodeInvalidConfig, "services = %q: a name has small letters, digits and '-', and at most 31 of them", api.Shorten(name, 64))
		}
		if err := c.Services[name].check(); err != nil {
			return api.Errorf(api.CodeInvalidConfig, "services.%s.%w", name, err)
		}
	}
	tables := map[string][]string{"gateway": c.Gateway.Services}
	for name, r := range c.Roles {
		tables["roles."+name+".gateway"] = r.Gateway.Services
	}
	for _, table := range slices.Sorted(maps.Keys(tables)) {
		for _, name := range tables[table] {
			if _, ok := c.Services[name]; !ok {
				return api.Errorf(api.CodeInvalidConfig, "%s.services = %q: there is no table [services.NAME] of this name", table, api.Shorten(name, 64))
			}
		}
	}
	return nil
}

func (s Service) check() error {
	if _, err := provider.ParseAddress(s.URL); err != nil {
		return err
	}
	if err := s.KeySource.check(); err != nil {
		return err
	}
	h, err := access.ParseHeader(s.HeaderTemplate())
	if err != nil {
		return fmt.Errorf("header = %q: %w", api.Shorten(s.Header, 128), err)
	}
	if s.Header != "" && !s.Any() {
		return fmt.Errorf("header: the service has no key; set key_file, credential or key_command")
	}
	if _, err := access.ParseRules(s.AllowedMethods(), s.Paths); err != nil {
		return err
	}
	if s.RequestsPerMinute < 0 || s.RequestsPerMinute > maxPerMinute {
		return fmt.Errorf("requests_per_minute = %d: must be from 0 (no limit) to %d", s.RequestsPerMinute, maxPerMinute)
	}
	if len(s.RequestHeaders) > maxRequestHeaders {
		return fmt.Errorf("request_headers: there are %d: at most %d", len(s.RequestHeaders), maxRequestHeaders)
	}
	for i, name := range s.RequestHeaders {
		if !headerName.MatchString(name) || never.MatchString(name) || access.Replaces(name) || strings.EqualFold(name, h.Name) {
			return fmt.Errorf("request_headers[%d] = %q: cannot be forwarded", i, api.Shorten(name, 64))
		}
	}
	return checkVariables("", s.Env, s.Without)
}

// checkVariables checks variables of the gateway; before is what precedes their keys.
func checkVariables(before string, env map[string]string, without []string) error {
	for name, value := range env {
		if !envName.MatchString(name) || strings.ContainsRune(value, 0) {
			return fmt.Errorf("%senv.%s: must be a variable's name, and a value without NUL bytes", before, name)
		}
	}
	for i, name := range without {
		if !envName.MatchString(name) {
			return fmt.Errorf("%swithout[%d] = %q: must be a variable's name", before, i, name)
		}
	}
	return nil
}
