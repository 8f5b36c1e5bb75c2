package acpdriver

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/coder/acp-go-sdk"
	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// answers decides every question in the same way.
type answers struct {
	res   api.PermissionResponse
	err   error
	asked []api.PermissionRequest
}

func (a *answers) Ask(_ context.Context, req api.PermissionRequest) (api.PermissionResponse, error) {
	a.asked = append(a.asked, req)
	return a.res, a.err
}

func TestAnswersAreOptionsOfTheirKind(t *testing.T) {
	option := func(id acp.PermissionOptionId, kind acp.PermissionOptionKind) acp.PermissionOption {
		return acp.PermissionOption{OptionId: id, Kind: kind, Name: "allow_once"} // a name means nothing
	}
	all := []acp.PermissionOption{option("1", acp.PermissionOptionKindAllowAlways), option("2", acp.PermissionOptionKindRejectAlways),
		option("3", acp.PermissionOptionKindRejectOnce), option("4", acp.PermissionOptionKindAllowOnce)}
	for name, tc := range map[string]struct {
		options []acp.PermissionOption
		res     api.PermissionResponse
		err     error
		want    acp.PermissionOptionId // empty: cancelled
		aborts  bool
	}{
		"approved, once":              {options: all, res: api.PermissionResponse{Result: api.VerdictApprove}, want: "4"},
		"approved, only always":       {options: all[:1], res: api.PermissionResponse{Result: api.VerdictApprove}, want: "1"},
		"approved, but no option is":  {options: all[1:3], res: api.PermissionResponse{Result: api.VerdictApprove}},
		"denied, once":                {options: all, res: api.PermissionResponse{Result: api.VerdictDeny}, want: "3"},
		"denied, only always":         {options: all[:2], res: api.PermissionResponse{Result: api.VerdictDeny}, want: "2"},
		"denied, but no option is":    {options: all[:1], res: api.PermissionResponse{Result: api.VerdictDeny}},
		"aborted":                     {options: all, res: api.PermissionResponse{Result: api.VerdictAbort}, aborts: true},
		"polis does not answer":       {options: all, err: errors.New("gone"), want: "3"},
		"an answer that says nothing": {options: all},
		"no options":                  {res: api.PermissionResponse{Result: api.VerdictApprove}},
	} {
		t.Run(name, func(t *testing.T) {
			aborted := false
			c := &caller{asker: &answers{res: tc.res, err: tc.err}, lines: &printer{to: &bytes.Buffer{}}, abort: func() { aborted = true }}
			res, err := c.RequestPermission(t.Context(), acp.RequestPermissionRequest{Options: tc.options})
			require.NoError(t, err)
			require.Equal(t, tc.aborts, aborted)
			if tc.want == "" {
				require.NotNil(t, res.Outcome.Cancelled)
				return
			}
			require.Equal(t, tc.want, res.Outcome.Selected.OptionId)
		})
	}
}

func TestCallsBecomeQuestions(t *testing.T) {
	for name, tc := range map[string]struct {
		kind  acp.ToolKind
		title string
		raw   any
		place string
		tool  string
		input map[string]any
	}{
		"a command by its arguments": {acp.ToolKindExecute, "Run it", map[string]any{"command": "make"}, "", "bash", map[string]any{"command": "make"}},
		"a command by its title":     {acp.ToolKindExecute, "make", nil, "", "bash", map[string]any{"command": "make"}},
		"an edit by its arguments":   {acp.ToolKindEdit, "Edit", map[string]any{"path": "/p/a"}, "/p/b", "edit_file", map[string]any{"path": "/p/a"}},
		"an edit by its location":    {acp.ToolKindEdit, "Edit", map[string]any{"x": 1.0}, "/p/b", "edit_file", map[string]any{"x": 1.0, "file_path": "/p/b"}},
		"a removal is an edit":       {acp.ToolKindDelete, "Delete", nil, "/p/b", "edit_file", map[string]any{"file_path": "/p/b"}},
		"a page":                     {acp.ToolKindFetch, "Fetch", map[string]any{"url": "https://x.org/"}, "", "web_fetch", map[string]any{"url": "https://x.org/"}},
		"another kind":               {"odd", "Do it", []any{"a"}, "", "acp_odd", map[string]any{"input": []any{"a"}, "title": "Do it"}},
		"no details":                 {"", "", nil, "", "acp_other", map[string]any{}},
	} {
		t.Run(name, func(t *testing.T) {
			call := acp.ToolCallUpdate{RawInput: tc.raw}
			if tc.kind != "" {
				call.Kind, call.Title = &tc.kind, &tc.title
			}
			if tc.place != "" {
				call.Locations = []acp.ToolCallLocation{{Path: tc.place}}
			}
			tool, input := question(call)
			require.Equal(t, tc.tool, tool)
			require.Equal(t, tc.input, input)
		})
	}
}
