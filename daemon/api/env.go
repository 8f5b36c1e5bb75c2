package api

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// The bounds of an agent's variables.
const (
	MaxEnv      = 128       // of one table
	MaxEnvName  = 128       // bytes
	MaxEnvValue = 32 << 10  // bytes
	maxEnvTotal = 128 << 10 // bytes of one table, names and values
)

var envRule = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ownEnv are the variables by which the sandbox works: polis sets them.
func ownEnv(name string) bool {
	return strings.HasPrefix(name, "POLIS_") ||
		slices.Contains([]string{"PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "XDG_RUNTIME_DIR", "pnpm_config_store_dir"}, name)
}

// CheckEnv validates variables for an agent. No error contains a value: most are keys.
func CheckEnv(env map[string]string) error {
	if len(env) > MaxEnv {
		return Errorf(CodeBadRequest, "env has %d variables: at most %d", len(env), MaxEnv)
	}
	total := 0
	for _, name := range slices.Sorted(maps.Keys(env)) {
		value := env[name]
		total += len(name) + len(value) + 2
		switch {
		case !envRule.MatchString(name) || len(name) > MaxEnvName:
			return Errorf(CodeBadRequest, "env: %q is no name of a variable: letters, digits and '_', no digit first, at most %d", Shorten(name, 64), MaxEnvName)
		case name == "PATH":
			return Errorf(CodeBadRequest, "env: PATH is polis' own").WithHint("sandbox.path in polisd.toml adds directories to it")
		case ownEnv(name):
			return Errorf(CodeBadRequest, "env: %s is polis' own: the sandbox depends on it", name).WithHint("choose another name")
		case strings.ContainsRune(value, 0):
			return Errorf(CodeBadRequest, "env: the value of %s contains a NUL byte", name)
		case len(value) > MaxEnvValue:
			return Errorf(CodeBadRequest, "env: the value of %s has %d bytes: at most %d", name, len(value), MaxEnvValue)
		}
	}
	if total > maxEnvTotal {
		return Errorf(CodeBadRequest, "env has %d bytes: at most %d", total, maxEnvTotal)
	}
	return nil
}
