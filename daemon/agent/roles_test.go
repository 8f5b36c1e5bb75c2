package agent

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/store"
)

func rolesManager(t *testing.T) *Manager {
	t.Helper()
	c, err := config.Parse(`
[roles.worker]
model = "sonnet"
models = { codex = "gpt-5.5" }
write = ["src/**", "docs/**"]
read = ["**"]
ask = ["deploy/**"]
deny = ["*.pem"]
[roles.worker.tools]
auto_deny = ["shell(rm *)"]
auto_approve = ["read", "edit", "shell(go test *)"]
[roles.worker.env]
KEY = "secret"
[roles.empty]
`)
	require.NoError(t, err)
	w := &Workspace{Name: "w", Project: "/srv/project", Answers: store.Answers{Rules: []api.ApprovalRule{
		{ID: "a.1", Role: "worker", Kind: api.ApprovalTool, Tool: "Bash", What: "make", Verdict: api.VerdictApprove, By: "user:0"},
		{ID: "a.2", Agent: "a", Kind: api.ApprovalTool, Tool: "Bash", What: "make own", Verdict: api.VerdictDeny, By: "user:0", Reason: "no"},
		{ID: "a.3", Role: "worker", Kind: api.ApprovalWrite, What: "deploy/a", Verdict: api.VerdictApprove, By: "user:0"},
	}}}
	a := &Agent{WS: w, Kept: store.Agent{Name: "a", Role: "worker", BaseType: "own", Policy: api.Policy{Write: []string{"**"}, Deny: []string{"only.me"}}}}
	return &Manager{agents: map[string]*Agent{"a": a}, workspaces: map[string]*Workspace{"w": w}, cfgLive: &c, Types: func() (map[string]config.BaseType, error) {
		return map[string]config.BaseType{"own": {Name: "own", Tools: map[string][]string{"bash": {"Terminal"}}}}, nil
	}}
}

func TestRolesAreListedWithoutTheirSecrets(t *testing.T) {
	m := rolesManager(t)
	all := m.Roles()
	require.Len(t, all, 2)
	require.Equal(t, "empty", all[0].Name)
	require.Equal(t, api.VerdictAsk, all[0].Tools.Default)
	r, err := m.Role("worker")
	require.NoError(t, err)
	require.Equal(t, all[1], r)
	require.Equal(t, []string{"KEY"}, r.Env)
	require.Equal(t, "sonnet", r.Model)
	require.Equal(t, []string{"a"}, r.Agents)
	require.Len(t, r.Remembered, 2, "answers for the role, not for one agent")
	_, err = m.Role("none")
	require.Equal(t, api.CodeNotFound, api.CodeOf(err))
}

func TestWhatARoleDecides(t *testing.T) {
	m := rolesManager(t)
	for what, c := range map[string]struct {
		req              api.RoleCheck
		verdict          api.Verdict
		by, rule, source string
		then             bool
	}{
		"a rule approves":               {api.RoleCheck{Tool: "bash", Text: "go test ./..."}, api.VerdictApprove, "tools", "shell(go test *)", "auto_approve of the role", false},
		"a rule denies":                 {api.RoleCheck{Tool: "run_shell_command", Text: "x; rm y"}, api.VerdictDeny, "tools", "shell(rm *)", "auto_deny of the role", false},
		"no rule":                       {api.RoleCheck{Tool: "web_fetch", Text: "https://example.org/"}, api.VerdictAsk, "tools", "default", "default of the role", false},
		"an answer":                     {api.RoleCheck{Tool: "Bash", Text: "make"}, api.VerdictApprove, "tools", "Bash(make)", "answer a.1 of user:0", false},
		"an answer of another agent":    {api.RoleCheck{Tool: "Bash", Text: "make own"}, api.VerdictAsk, "tools", "default", "default of the role", false},
		"an answer for the agent":       {api.RoleCheck{Tool: "Bash", Text: "make own", Agent: "a"}, api.VerdictDeny, "tools", "Bash(make own)", "answer a.2 of user:0", false},
		"the policy denies":             {api.RoleCheck{Tool: "write_file", Text: "src/key.pem"}, api.VerdictDeny, "policy", `deny "*.pem"`, "policy", false},
		"the policy allows to read":     {api.RoleCheck{Tool: "Read", Text: "/srv/project/a.go"}, api.VerdictApprove, "tools", "read", "auto_approve of the role", false},
		"no rule of the policy":         {api.RoleCheck{Tool: "Write", Text: "a.go"}, api.VerdictDeny, "policy", `read "**"`, "policy", false},
		"the policy asks after it":      {api.RoleCheck{Tool: "Write", Text: "deploy/x"}, api.VerdictApprove, "tools", "edit", "auto_approve of the role", true},
		"a path":                        {api.RoleCheck{Path: "src/a.go", Write: true}, api.VerdictApprove, "policy", `write "src/**"`, "policy", false},
		"a path that needs an answer":   {api.RoleCheck{Path: "deploy/x", Write: true}, api.VerdictAsk, "policy", `ask "deploy/**"`, "policy", false},
		"a path with an answer":         {api.RoleCheck{Path: "deploy/a", Write: true}, api.VerdictApprove, "tools", "write(deploy/a)", "answer a.3 of user:0", false},
		"a path that is denied":         {api.RoleCheck{Path: "/srv/project/x.pem"}, api.VerdictDeny, "policy", `deny "*.pem"`, "policy", false},
		"the agent's own rules":         {api.RoleCheck{Path: "only.me", Agent: "a"}, api.VerdictDeny, "policy", `deny "only.me"`, "policy", false},
		"the program's own names":       {api.RoleCheck{Tool: "Terminal", Text: "go test x", Agent: "a"}, api.VerdictApprove, "tools", "shell(go test *)", "auto_approve of the role", false},
		"the names of a base type":      {api.RoleCheck{Tool: "Terminal", Text: "go test x", BaseType: "own"}, api.VerdictApprove, "tools", "shell(go test *)", "auto_approve of the role", false},
		"arguments":                     {api.RoleCheck{Tool: "shell", Input: map[string]any{"command": []any{"go", "test", "x"}}}, api.VerdictApprove, "tools", "shell(go test *)", "auto_approve of the role", false},
		"a workspace without an answer": {api.RoleCheck{Tool: "Bash", Text: "make", Workspace: "w"}, api.VerdictApprove, "tools", "Bash(make)", "answer a.1 of user:0", false},
	} {
		t.Run(what, func(t *testing.T) {
			c.req.Role = "worker"
			d, err := m.CheckRole(c.req)
			require.NoError(t, err)
			require.Equal(t, c.verdict, d.Verdict, "%+v", d)
			require.Equal(t, []string{c.by, c.rule, c.source}, []string{d.By, d.Rule, d.Source})
			require.Equal(t, c.then, d.Then != "")
			require.Equal(t, d.Verdict == api.VerdictDeny, d.Reason != "", "a denial has a reason")
		})
	}
}

func TestRequestsThatARoleCannotJudge(t *testing.T) {
	m := rolesManager(t)
	for want, req := range map[api.Code]api.RoleCheck{
		api.CodeNotFound:             {Role: "none", Tool: "bash"},
		api.CodeAgentNotFound:        {Role: "worker", Tool: "bash", Agent: "none"},
		api.CodeAgentTypeUnavailable: {Role: "worker", Tool: "bash", BaseType: "none"},
		api.CodeWorkspaceNotFound:    {Role: "worker", Tool: "bash", Workspace: "none"},
		api.CodeBadRequest:           {Role: "worker", Path: "/etc/passwd"},
	} {
		_, err := m.CheckRole(req)
		require.Equal(t, want, api.CodeOf(err), "%+v", req)
	}
	_, err := m.CheckRole(api.RoleCheck{Role: "empty", Tool: "bash", Agent: "a"})
	require.ErrorContains(t, err, `has role "worker"`)
	_, err = m.CheckRole(api.RoleCheck{Role: "worker", Tool: "Task", Text: "x"})
	require.ErrorContains(t, err, "not one text")
}
