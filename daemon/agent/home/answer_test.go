package home

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
	"github.com/stretchr/testify/require"

	"polis/daemon/config"
)

func TestAnswersInJSONChangeNothingElse(t *testing.T) {
	trust := []string{"projects", "/p", "trusted"}
	for name, c := range map[string]struct {
		doc   string
		at    []string
		value any
		want  string // "": as it was
	}{
		"no document":            {"", trust, true, `{"projects":{"/p":{"trusted":true}}}`},
		"an empty one":           {" \n{}", []string{"done"}, true, `{"done":true}`},
		"other members":          {`{"z": 1.00, "projects": {"/q": {"trusted":false}}, "a":"\u00e4<"}`, trust, true, `{"z":1.00,"projects":{"/q":{"trusted":false},"/p":{"trusted":true}},"a":"\u00e4<"}`},
		"not accepted yet":       {`{"projects":{"/p":{"trusted":false,"x":[1]}}}`, trust, true, `{"projects":{"/p":{"trusted":true,"x":[1]}}}`},
		"accepted":               {`{"projects":{"/p":{"trusted":true}}}`, trust, true, ""},
		"a decision":             {`{"/p":"DO_NOT_TRUST"}`, []string{"/p"}, "TRUST_FOLDER", ""},
		"nothing decided":        {`{"/p":null}`, []string{"/p"}, "TRUST_FOLDER", `{"/p":"TRUST_FOLDER"}`},
		"null on the way":        {`{"projects":null}`, trust, true, `{"projects":{"/p":{"trusted":true}}}`},
		"a list":                 {`{"trusted":["/q",2]}`, []string{"trusted"}, []string{"/p", "/q"}, `{"trusted":["/q",2,"/p"]}`},
		"a list that has it":     {`{"trusted":["/q","/p"]}`, []string{"trusted"}, []string{"/p"}, ""},
		"no list yet":            {`{}`, []string{"trusted"}, []string{"/p"}, `{"trusted":["/p"]}`},
		"no list there":          {`{"trusted":"all"}`, []string{"trusted"}, []string{"/p"}, ""},
		"a number":               {`{}`, []string{"version"}, int64(1), `{"version":1}`},
		"false is wanted":        {`{"ask":false}`, []string{"ask"}, false, ""},
		"comments":               {"// of the program\n{\"a\":\"//\\\"/*\", /* b */ \"c\":1 // d\n}", []string{"e"}, true, `{"a":"//\"/*","c":1,"e":true}`},
		"the last of twins":      {`{"a":1,"a":false}`, []string{"a"}, true, `{"a":true}`},
		"a name with a quote":    {`{}`, []string{`/p "q"`}, true, `{"/p \"q\"":true}`},
		"an empty name in there": {`{"":1}`, []string{"a"}, true, `{"":1,"a":true}`},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := setJSON([]byte(c.doc), c.at, c.value)
			require.NoError(t, err)
			if c.want == "" {
				require.Equal(t, c.doc, string(out))
				return
			}
			require.JSONEq(t, c.want, string(out))
			again, err := setJSON(out, c.at, c.value)
			require.NoError(t, err)
			require.Equal(t, string(out), string(again))
		})
	}
	for _, doc := range []string{"[]", "1", "{", `{"a"`, `{"a":}`, `{} {}`, `{"a":1`, strings.Repeat("{\"a\":", 100_000), strings.Repeat("[", 1<<20), `{"projects":[]}`, `{"projects":{"/p":1}}`, "/*", "\x00"} {
		_, err := setJSON([]byte(doc), trust, true)
		if doc != "/*" { // an empty document
			require.ErrorIs(t, err, errNoObject, "%.20s", doc)
		}
	}
}

func TestAnswersInTOMLAddLines(t *testing.T) {
	trust := []string{"projects", "/p \"q\" é", "level"}
	has := `[projects."/p \"q\" é"]` + "\n"
	for name, c := range map[string]struct{ doc, want string }{
		"no document":     {"", "\n" + has + "\"level\" = \"trusted\"\n"},
		"others":          {"model = \"x\" # mine\n[projects.\"/q\"]\nlevel = \"untrusted\"", "model = \"x\" # mine\n[projects.\"/q\"]\nlevel = \"untrusted\"\n\n" + has + "\"level\" = \"trusted\"\n"},
		"a decision":      {has + "level = \"untrusted\"\n", has + "level = \"untrusted\"\n"},
		"it is there":     {has + "level = \"trusted\"\n", has + "level = \"trusted\"\n"},
		"there in a line": {"projects = { \"/p \\\"q\\\" é\" = { level = \"trusted\" } }", "projects = { \"/p \\\"q\\\" é\" = { level = \"trusted\" } }"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := setTOML([]byte(c.doc), trust, "trusted")
			require.NoError(t, err)
			require.Equal(t, c.want, strings.ReplaceAll(string(out), `["projects"`, `[projects`))
			var tree struct{ Projects map[string]map[string]string }
			require.NoError(t, toml.Unmarshal(out, &tree))
			require.NotEmpty(t, tree.Projects[trust[1]]["level"])
		})
	}
	out, err := setTOML([]byte("[a]\nb = 1\n"), []string{"top"}, true)
	require.NoError(t, err)
	require.Equal(t, "\"top\" = true\n[a]\nb = 1\n", string(out))
	for _, doc := range []string{"[analytics]\nenabled = false\n", "[analytics]\nenabled = true\n", "analytics = { enabled = false }\n"} {
		out, err = setTOML([]byte(doc), []string{"analytics", "enabled"}, false)
		require.NoError(t, err, doc)
		require.Equal(t, doc, string(out))
	}
	for name, doc := range map[string]string{
		"no TOML":            "[projects",
		"a table in a line":  "projects = {}",
		"a table without it": has + "x = 1",
		"no table":           "projects = 1",
		"nested":             "a = " + strings.Repeat("[", maxTOMLOpen+1),
		"a long key":         strings.Repeat("a.", maxTOMLDots+1) + "a = 1",
		"a long document":    strings.Repeat("# a\n", maxTOML/4+1),
	} {
		_, err := setTOML([]byte(doc), trust, "trusted")
		require.Error(t, err, name)
	}
}

// The built-in types' answers: the files that the programs read at their first start.
func TestDialogsAreAnsweredAtAFirstStart(t *testing.T) {
	types, err := config.LoadTypes(t.TempDir(), config.Sandbox{})
	require.NoError(t, err)
	for name, want := range map[string]map[string]string{
		"claude":  {".claude.json": `{"hasCompletedOnboarding":true,"projects":{"/srv/my project":{"hasTrustDialogAccepted":true,"hasCompletedProjectOnboarding":true}}}`},
		"codex":   {".codex/config.toml": "\n[\"projects\".\"/srv/my project\"]\n\"trust_level\" = \"trusted\"\n\n[\"analytics\"]\n\"enabled\" = false\n"},
		"gemini":  {".gemini/trustedFolders.json": `{"/srv/my project":"TRUST_FOLDER"}`, ".gemini/settings.json": `{"privacy":{"usageStatisticsEnabled":false}}`},
		"qwen":    {".qwen/trustedFolders.json": `{"/srv/my project":"TRUST_FOLDER"}`, ".qwen/settings.json": `{"privacy":{"usageStatisticsEnabled":false}}`},
		"copilot": {".copilot/config.json": `{"trustedFolders":["/srv/my project"],"trusted_folders":["/srv/my project"]}`},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHomes(t, types[name].Home...)
			h.spec.Answers = types[name].Answers
			h.bring()
			for file, text := range want {
				if strings.HasSuffix(file, ".toml") {
					require.Equal(t, text, h.copyOf(file))
				} else {
					require.JSONEq(t, text, h.copyOf(file))
				}
				fi, err := os.Stat(filepath.Join(h.spec.Dir, file))
				require.NoError(t, err)
				require.Equal(t, os.FileMode(0o600), fi.Mode().Perm())
				_, err = os.Stat(filepath.Join(h.owner, file))
				require.ErrorIs(t, err, os.ErrNotExist, "the owner's home is never written")
			}
			require.Empty(t, h.log.String())
		})
	}
}

// What was answered does not make a copy the agent's own: it still follows the owner's.
func TestAnAnsweredCopyFollowsTheOwnersFile(t *testing.T) {
	h := newHomes(t, config.HomeFile{Path: "c.json", Mode: config.HomeCopy})
	h.spec.Answers = []config.Answer{{File: "c.json", Format: config.AnswerJSON, At: []string{"{project}"}, Value: true}}
	h.bring()
	require.JSONEq(t, `{"/srv/my project":true}`, h.copyOf("c.json"))
	for _, text := range []string{`{"theme":"dark"}`, `{"theme":"light"}`} {
		h.has("c.json", text)
		h.bring()
		var have map[string]any
		require.NoError(t, json.Unmarshal([]byte(h.copyOf("c.json")), &have))
		require.Equal(t, true, have["/srv/my project"])
		require.Contains(t, text, have["theme"])
	}
	h.agent("c.json", `{"theme":"mine"}`)
	h.has("c.json", `{"theme":"other"}`)
	h.bring()
	require.JSONEq(t, `{"theme":"mine","/srv/my project":true}`, h.copyOf("c.json"))
	// One that cannot be edited is brought as it is.
	h.agent("c.json", "")
	h.has("c.json", "no JSON")
	h.bring()
	require.Equal(t, "no JSON", h.copyOf("c.json"))
	require.Contains(t, h.log.String(), "dialogs not answered")
	h.spec.Project = "/srv/\xff"
	_, err := h.spec.answer("c.json", nil)
	require.ErrorContains(t, err, "UTF-8")
}

func FuzzAnswers(f *testing.F) {
	f.Add([]byte(`{"a":{"b":false}} // x`), "a", "b")
	f.Add([]byte("[a.\"b\"]\nc = 1\n"), "a", "b")
	f.Fuzz(func(t *testing.T, doc []byte, a, b string) {
		if !utf8.ValidString(a) || !utf8.ValidString(b) {
			return // neither format has it; Spec.answer refuses it
		}
		if out, err := setJSON(doc, []string{a, b}, true); err == nil && json.Valid(stripComments(out)) {
			again, err := setJSON(out, []string{a, b}, true)
			require.NoError(t, err)
			require.Equal(t, string(out), string(again))
		}
		if out, err := setTOML(doc, []string{a, b}, "v"); err == nil {
			again, err := setTOML(out, []string{a, b}, "v")
			require.NoError(t, err)
			require.Equal(t, string(out), string(again))
		}
	})
}
