package models

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api/wire"
	"polis/daemon/config"
)

const key = "sk-0123456789abcdef"

func source(t *testing.T, text string, env map[string]string) *Source {
	c, err := config.Parse(text)
	require.NoError(t, err)
	return &Source{Config: func() config.Config { return c }, Getenv: func(n string) string { return env[n] }, Owner: uint32(os.Geteuid()), Now: time.Now}
}

func write(t *testing.T, name, text string, mode os.FileMode) string {
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), mode))
	require.NoError(t, os.Chmod(path, mode))
	return path
}

func TestKeysAreReadFromFilesThatOnlyRootCanRead(t *testing.T) {
	good := write(t, "key", key+"\n", 0o600)
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(good, link))
	for name, c := range map[string]struct {
		file string
		ok   bool
	}{
		"good":              {good, true},
		"readable by all":   {write(t, "key", key, 0o644), false},
		"of a group":        {write(t, "key", key, 0o640), false},
		"writable by all":   {write(t, "key", key, 0o602), false},
		"a link":            {link, false},
		"a directory":       {t.TempDir(), false},
		"missing":           {filepath.Join(t.TempDir(), "none"), false},
		"empty":             {write(t, "key", "\n", 0o600), false},
		"two lines":         {write(t, "key", key+"\n"+key, 0o600), false},
		"too short":         {write(t, "key", "short", 0o600), false},
		"not a key at all":  {"/dev/zero", false},
		"of another's user": {"/proc/1/environ", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := source(t, "[models.m]\nkind = \"anthropic\"\nkey_file = \""+c.file+"\"\n[gateway]\nmodels = [\"m\"]", nil)
			if name == "of another's user" {
				s.Owner = 12345
			}
			got, err := s.For(t.Context(), "")
			if !c.ok {
				require.ErrorIs(t, err, errNoKey)
				require.NotContains(t, err.Error(), key)
				require.Empty(t, got.Models)
				return
			}
			require.NoError(t, err)
			require.Equal(t, key, got.Models[0].Key)
			require.Equal(t, "https://api.anthropic.com", got.Models[0].URL)
		})
	}
}

func TestKeysAreReadFromCredentials(t *testing.T) {
	const text = "[models.m]\nkind = \"openai\"\ncredential = \"a-key\"\n[gateway]\nmodels = [\"m\"]"
	_, err := source(t, text, nil).For(t.Context(), "")
	require.ErrorContains(t, err, "LoadCredential=")
	dir := filepath.Dir(write(t, "a-key", key, 0o400))
	got, err := source(t, text, map[string]string{"CREDENTIALS_DIRECTORY": dir, "https_proxy": "http://proxy.example.com:3128"}).For(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, key, got.Models[0].Key)
	require.Equal(t, "http://proxy.example.com:3128", got.Proxy.HTTPS)
}

func TestARoleHasItsOwnServicesAndBudget(t *testing.T) {
	s := source(t, `
[models.local]
url = "http://127.0.0.1:11434"
[models.big]
kind = "anthropic"
[gateway]
models = ["local"]
task_tokens = 5
day_tokens = 9
[roles.a.gateway]
models = ["big", "local"]
task_tokens = 7
[roles.none.gateway]
models = []
`, nil)
	for role, want := range map[string][]string{"": {"local"}, "gone": {"local"}, "a": {"big", "local"}, "none": nil} {
		got, err := s.For(t.Context(), role)
		require.NoError(t, err)
		var names []string
		for _, m := range got.Models {
			names = append(names, m.Name)
		}
		require.Equal(t, want, names, role)
		require.Equal(t, int64(9), got.Budget.DayTokens)
		require.Equal(t, map[bool]int64{true: 7, false: 5}[role == "a"], got.Budget.TaskTokens)
	}
}

func TestVariablesLeadTheProgramToTheEndpointAndHaveNoKey(t *testing.T) {
	types, err := config.LoadTypes(t.TempDir(), config.Sandbox{})
	require.NoError(t, err)
	c, err := config.Parse(`
[models.claude]
kind = "anthropic"
[models.local]
url = "http://127.0.0.1:11434"
[models.g]
kind = "gemini"
[gateway]
models = ["claude", "local", "g"]
[roles.off.gateway]
models = []
`)
	require.NoError(t, err)
	for name, want := range map[string]map[string]string{
		"claude": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:11717/claude", "ANTHROPIC_AUTH_TOKEN": Placeholder, "KEEP": "1"},
		"codex":  {"OPENAI_BASE_URL": "http://127.0.0.1:11717/local/v1", "OPENAI_API_KEY": Placeholder, "CODEX_API_KEY": Placeholder, "KEEP": "1", "ANTHROPIC_API_KEY": key},
		"gemini": {"GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:11717/g", "GEMINI_API_KEY": Placeholder, "KEEP": "1", "ANTHROPIC_API_KEY": key, "OPENAI_API_KEY": key},
		"aider": {"ANTHROPIC_API_BASE": "http://127.0.0.1:11717/claude", "ANTHROPIC_BASE_URL": "http://127.0.0.1:11717/claude", "ANTHROPIC_API_KEY": Placeholder, "AIDER_ANTHROPIC_API_KEY": Placeholder,
			"OPENAI_API_BASE": "http://127.0.0.1:11717/local/v1", "OPENAI_BASE_URL": "http://127.0.0.1:11717/local/v1", "OPENAI_API_KEY": Placeholder,
			"AIDER_OPENAI_API_BASE": "http://127.0.0.1:11717/local/v1", "AIDER_OPENAI_API_KEY": Placeholder, "KEEP": "1"},
		"kiro": {"KEEP": "1", "ANTHROPIC_API_KEY": key, "OPENAI_API_KEY": key},
	} {
		vars := map[string]string{"KEEP": "1", "ANTHROPIC_API_KEY": key, "OPENAI_API_KEY": key}
		if name == "aider" {
			vars["AIDER_API_KEY"], vars["OPENAI_BASE_URL"], vars["AIDER_OPENAI_API_BASE"] = "anthropic="+key, "https://api.openai.com/v1", "https://api.openai.com/v1"
		}
		Variables(c, "", types[name], vars)
		if name == "aider" {
			require.NotContains(t, vars, "AIDER_API_KEY")
		}
		for n, v := range want {
			require.Equal(t, v, vars[n], "%s %s", name, n)
		}
		if name == "claude" {
			require.NotContains(t, vars, "ANTHROPIC_API_KEY")
		}
		files, answers := Home(c, "", types[name])
		if name != "kiro" {
			for _, f := range files {
				require.NotEqual(t, config.HomeCredentials, f.Mode, name)
			}
		}
		if name == "codex" {
			require.Contains(t, answers, config.Answer{File: ".codex/config.toml", Format: "toml", At: []string{"openai_base_url"}, Value: "http://127.0.0.1:11717/local/v1"})
		}
		files, answers = Home(c, "off", types[name])
		require.Equal(t, types[name].Home, files)
		require.Equal(t, types[name].Answers, answers)
		vars = map[string]string{}
		Variables(c, "off", types[name], vars)
		require.Empty(t, vars, "no placeholder hides a login")
	}
}

func TestAPauseIsNewsOnce(t *testing.T) {
	s := source(t, "[models.m]\nurl = \"http://127.0.0.1:1\"\n[gateway]\nmodels = [\"m\"]", nil)
	now := time.Now()
	require.False(t, s.Pause("other", "a", now.Add(time.Minute)))
	require.False(t, s.Pause("m", "a", now.Add(-time.Minute)))
	require.True(t, s.Pause("m", "a", now.Add(time.Minute)))
	require.False(t, s.Pause("m", "a", now.Add(30*time.Second)))
	require.True(t, s.Pause("m", "a", now.Add(24*time.Hour)))
	got, err := s.For(t.Context(), "")
	require.NoError(t, err)
	require.WithinDuration(t, now.Add(time.Hour), got.Models[0].PausedUntil, time.Minute)
}

func TestReachNeedsNoHostOfAProviderWithTheGateway(t *testing.T) {
	types, err := config.LoadTypes(t.TempDir(), config.Sandbox{})
	require.NoError(t, err)
	c, err := config.Parse("[models.m]\nkind = \"anthropic\"\n[roles.a.gateway]\nmodels = [\"m\"]\n[network]\negress = [\"example.org\"]")
	require.NoError(t, err)
	r, err := c.Reach("a", types["claude"], config.Own{})
	require.NoError(t, err)
	require.Equal(t, []string{"example.org"}, r.Policy.Entries())
	r, err = c.Reach("", types["claude"], config.Own{})
	require.NoError(t, err)
	require.Contains(t, r.Policy.Entries(), "api.anthropic.com")
}

func TestServicesAreThoseOfTheRole(t *testing.T) {
	file := write(t, "key", key, 0o600)
	s := source(t, `
[services.git]
url = "https://example.com"
key_file = "`+file+`"
paths = ["/**"]
request_headers = ["x-trace"]
env = { GIT_URL = "{url}/x", GIT_TOKEN = "{key}", SHARED = "git" }
without = ["GH_TOKEN"]
[services.npm-mirror]
url = "https://npm.example.com"
methods = ["GET", "PUT"]
paths = ["/@acme/*"]
env = { NPM_CONFIG_REGISTRY = "{url}/", NPM_TOKEN = "{key}" }
[services.lost]
url = "https://example.com"
key_file = "/nonexistent/key"
paths = ["/**"]
[gateway]
services = ["npm-mirror"]
[roles.dev.gateway]
services = ["git", "npm-mirror"]
[roles.none.gateway]
services = []
[roles.lost.gateway]
services = ["lost", "git"]
`, nil)
	got, err := s.For(t.Context(), "dev")
	require.NoError(t, err)
	require.Equal(t, wire.Service{Name: "git", URL: "https://example.com", Key: key, Header: "Authorization: Bearer {key}", Methods: []string{"GET"}, Paths: []string{"/**"}, Forward: []string{"X-Trace"}}, got.Services[0])
	require.Len(t, got.Services, 2)
	require.NotContains(t, fmt.Sprintf("%v %+v %#v %s", got, got, got, got.Services[0]), key)
	got, err = s.For(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, []string{"GET", "PUT"}, got.Services[0].Methods)
	got, err = s.For(t.Context(), "none")
	require.NoError(t, err)
	require.Empty(t, got.Services)
	got, err = s.For(t.Context(), "lost")
	require.ErrorIs(t, err, errNoKey)
	require.Len(t, got.Services, 1, "the others are there")

	for role, want := range map[string]map[string]string{
		"dev": {"KEEP": "1", "POLIS_SERVICE_GIT": "http://git.polis.internal:11717", "GIT_URL": "http://git.polis.internal:11717/x", "GIT_TOKEN": Placeholder, "SHARED": "git", "NPM_TOKEN": "real",
			"POLIS_SERVICE_NPM_MIRROR": "http://npm-mirror.polis.internal:11717", "NPM_CONFIG_REGISTRY": "http://npm-mirror.polis.internal:11717/"},
		"":     {"KEEP": "1", "GH_TOKEN": "real", "NPM_TOKEN": "real", "POLIS_SERVICE_NPM_MIRROR": "http://npm-mirror.polis.internal:11717", "NPM_CONFIG_REGISTRY": "http://npm-mirror.polis.internal:11717/"},
		"none": {"KEEP": "1", "GH_TOKEN": "real", "NPM_TOKEN": "real"},
	} {
		vars := map[string]string{"KEEP": "1", "GH_TOKEN": "real", "NPM_TOKEN": "real"}
		ServiceVariables(s.Config(), role, vars)
		require.Equal(t, want, vars, "a placeholder hides no login: "+role)
	}
}
