package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServicesAreChecked(t *testing.T) {
	const good = "[services.git]\nurl = \"https://example.com/api\"\npaths = [\"/**\"]\n"
	_, err := Parse(good + "[gateway]\nservices = [\"git\"]")
	require.NoError(t, err)
	many := ""
	for i := range maxServices + 1 {
		many += strings.Replace(good, "git", fmt.Sprint("s", i), 1)
	}
	for want, text := range map[string]string{
		"services.git.url:":                  "[services.git]\npaths = [\"/**\"]",
		"use https://":                       strings.Replace(good, "https:", "http:", 1),
		"services.git.paths:":                "[services.git]\nurl = \"https://example.com\"",
		`services.git.paths[0] = "a"`:        strings.Replace(good, "/**", "a", 1),
		"services.git.methods:":              good + "methods = [\"TRACE\"]",
		"services.git.header =":              good + "key_file = \"/k\"\nheader = \"Host: {key}\"",
		"services.git.header: ":              good + "header = \"X: {key}\"",
		"services.git.key_file =":            good + "key_file = \"k\"",
		"must be a clean absolute path":      good + "key_command = [\"print-key\"]",
		"give one of ":                       good + "key_command = [\"/bin/k\"]\nkey_file = \"/k\"",
		"key_user = ":                        good + "key_command = [\"/bin/k\"]\nkey_user = \"a b\"",
		"key_refresh = ":                     good + "key_command = [\"/bin/k\"]\nkey_refresh = \"1s\"",
		"give one of them":                   good + "key_file = \"/k\"\ncredential = \"k\"",
		`request_headers[0] = "Cookie"`:      good + "request_headers = [\"Cookie\"]",
		`request_headers[0] = "x-http-`:      good + "request_headers = [\"x-http-method-override\"]",
		`request_headers[0] = "X-Tunneled`:   good + "request_headers = [\"X-Tunneled-Method\"]",
		`request_headers[0] = "Method-Over`:  good + "request_headers = [\"Method-Override\"]",
		`request_headers[0] = "x-token"`:     good + "key_file = \"/k\"\nheader = \"X-Token: {key}\"\nrequest_headers = [\"x-token\"]",
		"services.git.env.A-B":               good + "env = { \"A-B\" = \"\" }",
		"services.git.without[0]":            good + "without = [\"A-B\"]",
		"there is a table [models.git]":      good + "[models.git]\nkind = \"openai\"",
		"a name has small letters":           strings.Replace(good, "git", "Git", 1),
		`roles.a.gateway.services = "other"`: good + "[roles.a.gateway]\nservices = [\"other\"]",
		"at most 64":                         many,
	} {
		_, err := Parse(text)
		require.ErrorContains(t, err, want, text)
	}
}
