package agent

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"polis/daemon/api"
)

// envWords formats variables for execve(2).
func envWords(env map[string]string) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, name+"="+env[name])
	}
	return out
}

func checkUnset(req api.SetRequest) error {
	for _, name := range req.UnsetEnv {
		if _, both := req.Env[name]; both {
			return api.Errorf(api.CodeBadRequest, "env: %s is both set and unset", api.Shorten(name, api.MaxEnvName)).WithHint("give one of them")
		}
	}
	return nil
}

// changedEnv returns an agent's variables after the request. It does not change old.
func changedEnv(old map[string]string, req api.SetRequest) (map[string]string, error) {
	if len(req.Env) == 0 && len(req.UnsetEnv) == 0 {
		return old, nil
	}
	env := maps.Clone(old)
	if env == nil {
		env = map[string]string{}
	}
	for _, name := range req.UnsetEnv {
		if _, ok := env[name]; !ok {
			return old, api.Errorf(api.CodeBadRequest, "env: %q is no variable of the agent's own", api.Shorten(name, api.MaxEnvName)).
				WithHint("its own are %s; those of a role, a base type or polisd.toml are changed there", cmp.Or(strings.Join(slices.Sorted(maps.Keys(old)), ", "), "none"))
		}
		delete(env, name)
	}
	maps.Copy(env, req.Env)
	return env, api.CheckEnv(env)
}

// describeEnv names the variables of an agent that differ, without their values.
func describeEnv(old, now map[string]string) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if v, ok := old[name]; !ok || v != now[name] {
			out = append(out, "env "+name+" is set")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(old)) {
		if _, ok := now[name]; !ok {
			out = append(out, "env "+name+" is unset")
		}
	}
	return out
}
