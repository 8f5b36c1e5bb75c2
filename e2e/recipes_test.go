package e2e

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// recipe is a section of docs/gateway.md: a service, and commands that use it.
type recipe struct {
	config   string
	commands []string
}

// recipes are those of the page, by their headings.
func recipes(t *testing.T) map[string]recipe {
	page := readFile("../docs/gateway.md")
	_, page, ok := strings.Cut(page, "\n## Recipes\n")
	require.True(t, ok)
	page, _, _ = strings.Cut(page, "\n## ")
	all := map[string]recipe{}
	for _, section := range strings.Split(page, "\n### ")[1:] {
		name, text, _ := strings.Cut(section, "\n")
		r := recipe{}
		for _, b := range regexp.MustCompile("(?s)```(toml|sh)\n(.*?)```").FindAllStringSubmatch(text, -1) {
			if b[1] == "toml" {
				r.config += b[2]
			} else {
				r.commands = append(r.commands, b[2])
			}
		}
		all[name] = r
	}
	return all
}

var (
	serviceAddress = regexp.MustCompile(`(?m)^url = .*$`)
	serviceKey     = regexp.MustCompile(`(?m)^key_file = .*$`)
)

// keyed serves only requests with a header, and keeps what was requested.
type keyed struct {
	*httptest.Server
	mu       sync.Mutex
	requests []string
	refused  int
}

func startKeyed(t *testing.T, authorization string, h http.Handler) *keyed {
	k := &keyed{}
	k.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		good := r.Header.Get("Authorization") == authorization
		k.mu.Lock()
		k.requests = append(k.requests, r.Method+" "+r.URL.Path)
		if !good {
			k.refused++
		}
		k.mu.Unlock()
		if !good {
			w.Header().Set("WWW-Authenticate", `Basic realm="it"`)
			http.Error(w, `{"error":"who are you"}`, http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(k.Close)
	return k
}

func (k *keyed) got() (requests []string, refused int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.requests, k.refused
}

// TestRecipesOfServices runs the recipes of docs/gateway.md with the programs themselves, in agents that
// reach nothing else and have no key.
func TestRecipesOfServices(t *testing.T) {
	for _, p := range []string{"npm", "gh", "git", "/usr/bin/pip3"} {
		needProgram(t, p)
	}
	const key = "sk-recipe-Vb72Kq0xWd"
	basic := func(user string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+key))
	}
	bearer := "Bearer " + key
	dir := t.TempDir()
	keyFile := filepath.Join(dir, "key")
	require.NoError(t, os.WriteFile(keyFile, []byte(key), 0o600))
	registry := &npmRegistry{t: t, path: "/team", archives: map[string][]byte{"left": npmArchive(t, "left")}}
	version, err := exec.CommandContext(t.Context(), "/usr/bin/npm", "--version").Output()
	require.NoError(t, err)
	if major, _, _ := strings.Cut(string(version), "."); major == "9" { // as the page explains
		registry.path = ""
	}
	hub := &gitHub{}
	servers := map[string]*keyed{
		"npm": startKeyed(t, bearer, registry),
		"pip": startKeyed(t, basic("reader"), pipIndex(t)),
		"git": startKeyed(t, basic("x-access-token"), keyedGit(t, "example/app.git")),
		"gh":  startKeyed(t, bearer, hub),
	}
	checks := map[string]struct{ before, after string }{
		"npm": {
			`mkdir right && echo '{"name":"@example/right","version":"1.0.0"}' >right/package.json`,
			`test "$(node -p 'require("@example/left")')" = 7`,
		},
		"pip": {"", `test "$(PYTHONPATH=site /usr/bin/python3 -c 'import example_lib; print(example_lib.it)')" = 7`},
		"git": {
			"git config --global user.name a; git config --global user.email a@example.com",
			"test \"$(git ls-remote https://github.com/example/app.git work | cut -f1)\" = \"$(git rev-parse HEAD)\"",
		},
		"gh": {"", ""},
	}
	all := recipes(t)
	require.Len(t, all, len(servers))
	for name, srv := range servers {
		t.Run(name, func(t *testing.T) {
			r := all[name]
			if name == "npm" {
				r.config = strings.ReplaceAll(r.config, "/team/", registry.path+"/")
				for i := range r.commands {
					r.commands[i] = strings.ReplaceAll(r.commands[i], "/team/", registry.path+"/")
				}
			}
			require.Len(t, serviceAddress.FindAllString(r.config, -1), 1)
			require.Len(t, serviceKey.FindAllString(r.config, -1), 1)
			service := regexp.MustCompile(`\[services\.(.*)\]`).FindStringSubmatch(r.config)[1]
			local := serviceAddress.ReplaceAllLiteralString(r.config, fmt.Sprintf("url = %q", srv.URL))
			// The same without a key has no placeholder: it would hide a login.
			open := regexp.MustCompile(`(?m)^(header|key_file) = .*\n`).ReplaceAllLiteralString(strings.Replace(local, "[services."+service+"]", "[services.open]", 1), "")
			d := startDaemon(t, options{config: "[network]\negress = \"none\"\n" + serviceKey.ReplaceAllLiteralString(local, fmt.Sprintf("key_file = %q", keyFile)) + open +
				"[roles.with.gateway]\nservices = [\"" + service + "\"]\n[roles.without.gateway]\nservices = [\"open\"]\n"})
			d.up()
			d.add("ana", "--role", "with", "--memory", "1024")
			out := d.sh("ana", "set -e; export PATH=/usr/bin:/bin; mkdir ~/work; cd ~/work; "+checks[name].before+"\n"+strings.Join(r.commands, "\n")+"\n"+checks[name].after)
			requests, refused := srv.got()
			require.NotEmpty(t, requests)
			require.Zero(t, refused, "%s", requests)
			require.NotContains(t, out, key)
			d.sh("ana", `! grep -rIlF `+key[:12]+` /proc/*/environ ~ /run/polis /etc /tmp . 2>/dev/null`)
			require.Empty(t, d.keyOutside(key))
			switch name {
			case "npm":
				require.Contains(t, requests, "PUT "+registry.path+"/@example/right")
				require.Contains(t, requests, "GET "+registry.path+"/@example/left/-/left-1.0.0.tgz")
			case "gh":
				require.Equal(t, "the first\nby the gateway\n", out)
			}
			d.add("bob", "--role", "without")
			require.NotContains(t, d.sh("bob", "env"), "polis-gateway")
		})
	}
}

// npmRegistry is a registry at a path that has packages of @example.
type npmRegistry struct {
	t        *testing.T
	path     string
	mu       sync.Mutex
	archives map[string][]byte
}

// ServeHTTP is part of http.Handler.
func (n *npmRegistry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	name, file, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, n.path+"/@example/"), "/-/")
	archive, known := n.archives[name]
	switch {
	case r.Method == http.MethodPut:
		n.archives[name] = nil
		fmt.Fprint(w, `{"ok":true}`)
	case !known:
		http.Error(w, `{"error":"not found"}`, http.StatusNotFound)
	case file != "":
		_, _ = w.Write(archive)
	default:
		sum := sha512.Sum512(archive)
		// The archive's address is that of the registry itself, as registries give it.
		_ = json.NewEncoder(w).Encode(map[string]any{"name": "@example/" + name, "dist-tags": map[string]string{"latest": "1.0.0"},
			"versions": map[string]any{"1.0.0": map[string]any{"name": "@example/" + name, "version": "1.0.0", "main": "i.js", "dist": map[string]string{
				"tarball": "https://npm.example.com" + n.path + "/@example/" + name + "/-/" + name + "-1.0.0.tgz", "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:])}}}})
	}
}

func npmArchive(t *testing.T, name string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	tw := tar.NewWriter(z)
	for file, text := range map[string]string{"package/package.json": `{"name":"@example/` + name + `","version":"1.0.0","main":"i.js"}`, "package/i.js": "module.exports = 7\n"} {
		require.NoError(t, tw.WriteHeader(&tar.Header{Name: file, Mode: 0o644, Size: int64(len(text))}))
		_, err := tw.Write([]byte(text))
		require.NoError(t, err)
	}
	require.NoError(t, tw.Close())
	require.NoError(t, z.Close())
	return b.Bytes()
}

// pipIndex is an index at /team/simple with one package.
func pipIndex(t *testing.T) http.Handler {
	var wheel bytes.Buffer
	z := zip.NewWriter(&wheel)
	for _, f := range [][2]string{
		{"example_lib.py", "it = 7\n"},
		{"example_lib-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: example-lib\nVersion: 1.0\n"},
		{"example_lib-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{"example_lib-1.0.dist-info/RECORD", "example_lib.py,,\nexample_lib-1.0.dist-info/METADATA,,\nexample_lib-1.0.dist-info/WHEEL,,\nexample_lib-1.0.dist-info/RECORD,,\n"},
	} {
		w, err := z.Create(f[0])
		require.NoError(t, err)
		_, err = w.Write([]byte(f[1]))
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	const file = "example_lib-1.0-py3-none-any.whl"
	mux := http.NewServeMux()
	mux.HandleFunc("GET /team/simple/example-lib/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!DOCTYPE html><a href="../../packages/%s">%s</a>`, file, file)
	})
	mux.HandleFunc("GET /team/packages/"+file, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(wheel.Bytes()) })
	return mux
}

// gitHub is a tracker with one issue.
type gitHub struct{}

// ServeHTTP is part of http.Handler.
func (*gitHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch r.Method + " " + r.URL.Path {
	case "GET /repos/example/app/issues/1":
		fmt.Fprint(w, `{"number":1,"title":"the first"}`)
	case "POST /repos/example/app/issues":
		var issue struct{ Title string }
		_ = json.NewDecoder(r.Body).Decode(&issue)
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]any{"number": 2, "title": issue.Title})
	default:
		http.NotFound(w, r)
	}
}
