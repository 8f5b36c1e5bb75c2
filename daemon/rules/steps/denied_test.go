package steps

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
)

func texts(s *Stream) (out []string) {
	kept, _ := s.Kept()
	for _, st := range kept {
		out = append(out, string(st.Kind)+": "+st.Text)
	}
	return out
}

// claudeCall is what Claude Code prints of a call, and of its result if that is an error.
func claudeCall(id, command, result string) string {
	return fmt.Sprintf(`{"type":"assistant","message":{"content":[{"type":"tool_use","id":%[1]q,"name":"Bash","input":{"command":%[2]q}}]}}
{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":%[1]q,"is_error":true,"content":%[3]q}]}}
`, id, command, result)
}

const permissionDenials = `{"type":"result","result":"","permission_denials":[{"tool_name":"Bash","tool_use_id":"1","tool_input":{"command":"make deploy"}}]}` + "\n"

// A program that reports what polis denied words it as it likes. It is the denial by the person, and one step.
func TestADenialOfPolisIsNoRefusalByOwnRules(t *testing.T) {
	input := []byte(`{"command":"make deploy"}`)
	for name, printed := range map[string]string{
		"as its own refusal":  claudeCall("1", "make deploy", "Permission to use Bash has been denied."),
		"as a failure":        claudeCall("1", "make deploy", "hook: not today"),
		"at the end as well":  claudeCall("1", "make deploy", "Permission to use Bash has been denied.") + permissionDenials,
		"only at the end":     permissionDenials,
		"a failure, and then": claudeCall("1", "make deploy", "hook: not today") + permissionDenials,
	} {
		t.Run(name, func(t *testing.T) {
			s := New("claude")
			s.Denied(Call("", "Bash", input), "ann denied Bash make deploy: not today", "not today")
			s.Note(api.StepRefused, "ann denied Bash make deploy: not today")
			s.Write([]byte(printed))
			if r := s.Report(); r != nil {
				require.Zero(t, r.OwnRefusals)
			}
			all := strings.Join(texts(s), "\n")
			require.Equal(t, 1, strings.Count(all, "ann denied Bash make deploy: not today"), all)
			require.NotContains(t, all, "by its own rules")
			require.NotContains(t, all, "failed: ")
		})
	}
	s := New("claude")
	s.Denied(Call("", "Bash", input), "ann denied Bash make deploy: not today", "not today")
	s.Write([]byte(permissionDenials))
	require.Contains(t, texts(s), "refused: ann denied Bash make deploy: not today", "the step is made here if there was no room for it")
}

func TestARefusalByOwnRulesStaysOne(t *testing.T) {
	s := New("claude")
	s.Denied(Call("", "Bash", []byte(`{"command":"make deploy"}`)), "ann denied Bash make deploy: no", "no")
	s.Write([]byte(claudeCall("2", "rm -rf x", "Permission to use Bash has been denied. There is no other way.")))
	require.Equal(t, 1, s.Report().OwnRefusals)
	require.Contains(t, texts(s), "refused: by its own rules: rm -rf x (Permission to use Bash has been denied. There is no other way.)")
	// One denial is one report: the next refusal of the same call is of the program.
	s.Write([]byte(claudeCall("1", "make deploy", "Permission to use Bash has been denied.")))
	require.Equal(t, 1, s.Report().OwnRefusals)
	s.Write([]byte(claudeCall("3", "make deploy", "Permission to use Bash has been denied.")))
	require.Equal(t, 2, s.Report().OwnRefusals)
}

// A reason is searched in what a call printed only if it is long enough not to be there by chance.
func TestAShortReasonIsNoEvidence(t *testing.T) {
	for reason, found := range map[string]bool{"no": false, "": false, "not today": false, "not on Frida": true, "not on a Friday, ask again": true} {
		s := New("claude")
		s.Denied("another call", "ann denied it", reason)
		s.Write([]byte(claudeCall("1", "make", "exit 1: not today, not on Friday at all; not on a Friday, ask again; no")))
		require.Equal(t, found, !strings.Contains(strings.Join(texts(s), "\n"), "failed: make"), reason)
	}
	rapid.Check(t, func(rt *rapid.T) {
		reason := rapid.StringMatching(`[a-z ]{0,11}`).Draw(rt, "reason")
		s := New("claude")
		s.Denied("another call", "ann denied it", reason)
		s.Write([]byte(claudeCall("1", "make", "x "+reason+" y")))
		if strings.Contains(strings.Join(texts(s), "\n"), "ann denied") {
			rt.Fatalf("%q", reason)
		}
	})
}

func TestDenialsAreBounded(t *testing.T) {
	s := New("")
	s.Now = func() time.Time { return time.Time{} }
	for i := range 10 * maxDenied {
		s.Denied(fmt.Sprint(i), "x", "y")
	}
	require.Len(t, s.denied, maxDenied)
	require.Equal(t, fmt.Sprint(10*maxDenied-1), s.denied[maxDenied-1].call)
}
