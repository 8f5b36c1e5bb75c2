package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
)

// misread reports whether a program that parses its options as usual takes a word of line
// that has the task in it for an option.
func misread(line []string, prompt string) bool {
	for _, w := range line {
		if w == "--" {
			return false
		}
		if strings.Contains(w, prompt) && strings.HasPrefix(w, "-") && (w == prompt || !strings.Contains(w[:strings.Index(w, prompt)], "=")) {
			return true
		}
	}
	return false
}

func TestNoTaskIsTakenForAnOption(t *testing.T) {
	types, err := LoadTypes(t.TempDir(), Sandbox{})
	require.NoError(t, err)
	for name, typ := range types {
		if name != "custom" {
			require.NotEqual(t, FormArgument, typ.PromptForm, name)
			require.NotEqual(t, FormArgument, promptForm(typ.TaskCommand([]string{"own"})), name)
		}
		stream, ok := typ.Streaming(nil)
		require.Equal(t, typ.Stream.Format != "", ok)
		require.Equal(t, promptForm(typ.Run), promptForm(stream.Run), name)
		rapid.Check(t, func(t *rapid.T) {
			if ok && rapid.Bool().Draw(t, "stream") {
				typ = stream
			}
			prompt := rapid.SampledFrom([]string{"", "-", "--", "- ", "--x=", "-p"}).Draw(t, "start") + rapid.StringMatching(`[a-z =\n-]{0,9}TASK`).Draw(t, "rest")
			own := rapid.SampledFrom([][]string{nil, {"tool"}, {"tool", "-x", "y"}, {"tool", "{prompt}"}, {"tool", "--say={prompt}", "{prompt}"}, {"tool", "--", "{prompt}"}}).Draw(t, "own")
			got := typ.PromptCommand(own, prompt)
			if got == nil {
				require.Empty(t, own)
				return
			}
			require.True(t, slices.ContainsFunc(got, func(w string) bool { return strings.Contains(w, prompt) }), "%q", got)
			require.False(t, misread(got, prompt), "%q", got)
		})
	}
}

func TestATaskForACommandOfTheAgentsOwn(t *testing.T) {
	types, err := LoadTypes(t.TempDir(), Sandbox{})
	require.NoError(t, err)
	own := []string{"claude", "--permission-mode", "plan"}
	require.Equal(t, []string{"claude", "--permission-mode", "plan", "-p", "--", "do it"}, types["claude"].PromptCommand(own, "do it"))
	require.Equal(t, []string{"claude", "--permission-mode", "plan"}, own)
	require.Equal(t, []string{"cat", " - one"}, types["custom"].PromptCommand([]string{"cat"}, "- one"))
	require.Equal(t, []string{"sh", "-c", "say 'x'"}, types["gemini"].PromptCommand([]string{"sh", "-c", "say '{prompt}'"}, "x"))

	require.Equal(t, own, types["claude"].StartCommand(own))
	require.Equal(t, []string{"claude"}, types["claude"].StartCommand(nil))
	require.Equal(t, []string{"claude"}, types["claude"].StartCommand([]string{"claude", "--", "{prompt}"}), "it is for tasks")
	require.Empty(t, types["custom"].StartCommand([]string{"sh", "-c", "{prompt}"}))
	require.Empty(t, types["custom"].TaskCommand(nil))

	for text, rule := range map[string]string{"prompt = [\"-p\"]": "{prompt}", "prompt = [\"\"]": "empty"} {
		require.ErrorContains(t, addType(map[string]BaseType{}, Sandbox{}, "x.toml", text), rule)
	}
}

// TestAStreamIsAskedForBeforeTheTask: of the type's own command line only.
func TestAStreamIsAskedForBeforeTheTask(t *testing.T) {
	types, err := LoadTypes(t.TempDir(), Sandbox{})
	require.NoError(t, err)
	with, ok := types["claude"].Streaming(nil)
	require.True(t, ok)
	require.Equal(t, []string{"claude", "-p", "--permission-mode", "bypassPermissions", "--output-format", "stream-json", "--verbose", "--", "do"}, with.PromptCommand(nil, "do"))
	require.NotContains(t, types["claude"].Run, "stream-json", "the type itself is as it was")
	for name, own := range map[string][]string{"claude": {"claude", "--x"}, "custom": nil, "aider": nil} {
		same, ok := types[name].Streaming(own)
		require.False(t, ok)
		require.Equal(t, types[name].Run, same.Run)
	}
	for text, rule := range map[string]string{
		"[stream]\nformat = \"x\"": "must be one of acp, claude, cline, codex", "[stream]\nargs = [\"--json\"]": "stream.format must say",
		"[stream]\nformat = \"codex\"\nargs = [\"{prompt}\"]": "must not have", "[stream]\nformat = \"codex\"\nargs = [\"\"]": "empty",
	} {
		require.ErrorContains(t, addType(map[string]BaseType{}, Sandbox{}, "x.toml", text), rule)
	}
}

func TestTheModelComesBeforeTheTask(t *testing.T) {
	typ := BaseType{Name: "x", Run: []string{"x", "-p", "--", "{prompt}"}, Model: []string{"--model", "{model}"}, Continue: []string{"-c"}}
	with, err := typ.With(nil, "big-1", true)
	require.NoError(t, err)
	require.Equal(t, []string{"x", "-p", "--model", "big-1", "-c", "--", "do"}, with.PromptCommand(nil, "do"))
	require.Equal(t, []string{"x", "-p", "--", "do"}, typ.PromptCommand(nil, "do"), "the type itself is as it was")
	same, err := typ.With([]string{"own"}, "", false)
	require.NoError(t, err)
	require.Equal(t, typ.Run, same.Run)
	for _, bad := range []string{"-x", "a b", "a\n", "--help"} {
		_, err = typ.With(nil, bad, false)
		require.Equal(t, api.CodeBadRequest, api.CodeOf(err), bad)
	}
	_, err = typ.With([]string{"own"}, "big-1", false)
	require.Equal(t, api.CodeBadRequest, api.CodeOf(err))
	_, err = BaseType{Name: "y", Run: []string{"y"}}.With(nil, "", true)
	require.Equal(t, api.CodeBadRequest, api.CodeOf(err))
}

// TestModelAndSessionAreChosenAsTheProgramsTakeIt: these command lines were run with the real programs
// (make e2e-agents), each with the model and the session they name.
func TestModelAndSessionAreChosenAsTheProgramsTakeIt(t *testing.T) {
	types, err := LoadTypes(t.TempDir(), Sandbox{})
	require.NoError(t, err)
	for name, want := range map[string]string{
		"claude":   "claude -p --permission-mode bypassPermissions --model m --continue -- - do",
		"codex":    "codex exec --sandbox danger-full-access --skip-git-repo-check --model m resume --last -- - do",
		"copilot":  "copilot --allow-all --model m --continue --prompt=- do",
		"gemini":   "gemini -y --model m --resume latest --prompt=- do",
		"opencode": "opencode run --auto --model m --continue -- - do",
		"pi":       "pi -p --model m --continue  - do",
		"qwen":     "qwen -y --model m --continue --prompt=- do",
	} {
		with, err := types[name].With(nil, "m", true)
		require.NoError(t, err, name)
		require.Equal(t, want, strings.Join(with.PromptCommand(nil, "- do"), " "))
	}
	with, err := types["cline"].With(nil, "m", false)
	require.NoError(t, err)
	require.Equal(t, []string{"cline", "--auto-approve", "true", "--model", "m", " - do"}, with.PromptCommand(nil, "- do"))
	_, err = types["cline"].With(nil, "", true)
	require.Equal(t, api.CodeBadRequest, api.CodeOf(err), "it continues with a session by its id only")
}
