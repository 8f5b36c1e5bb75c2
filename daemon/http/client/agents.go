package client

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"polis/daemon/api"
)

// AgentType is a base type of agents.
type AgentType struct {
	Name        string `json:"name"`
	Available   bool   `json:"available"`
	Program     string `json:"program"`
	Description string `json:"description"`
	// Install is the command that installs its program, Login the one that logs its user in.
	Install string `json:"install,omitempty"`
	Login   string `json:"login,omitempty"`
	// Reason is why the type is not available.
	Reason string `json:"reason,omitempty"`
	// Path is where its program was found, Version that of the program's package.
	Path     string   `json:"path,omitempty"`
	Version  string   `json:"version,omitempty"`
	MemoryMB int      `json:"memory_mb,omitempty"`
	Hosts    []string `json:"hosts,omitempty"`
	Sparse   []string `json:"sparse,omitzero"`
	// Run and Interactive are its command lines, Home the files of the owner's home that it gets,
	// Permissions how its own permission system is reached.
	Run         []string `json:"run,omitempty"`
	Interactive []string `json:"interactive,omitempty"`
	// ACP is the command line that makes its program an agent of the Agent Client Protocol.
	ACP []string `json:"acp,omitempty"`
	// Prompt is what gives a task to a command line of the agent's own. PromptForm is
	// how Run takes one: "separator", "joined" or "argument".
	Prompt []string `json:"prompt,omitempty"`
	// Stream is the machine-readable output that its tasks have, and polis reads.
	Stream     *TypeStream `json:"stream,omitempty"`
	PromptForm string      `json:"prompt_form,omitempty"`
	// Model is what Run gets to choose a model, ModelEnv the variable with the model of a role.
	Model    []string `json:"model,omitempty"`
	ModelEnv string   `json:"model_env,omitempty"`
	// Context is the file that its program reads for its model.
	Context string `json:"context,omitempty"`
	// Tools are the names that its program has for tools, by the names that rules use.
	Tools   map[string][]string `json:"tools,omitempty"`
	NoInput bool                `json:"no_input,omitempty"`
	Env     map[string]string   `json:"env,omitempty"`
	// PassEnv are variables of polisd's own environment that agents get, PassedEnv
	// those of them that polisd has.
	PassEnv     []string         `json:"pass_env,omitempty"`
	PassedEnv   []string         `json:"passed_env,omitempty"`
	Mounts      []TypeMount      `json:"mounts,omitempty"`
	AutoMerge   *bool            `json:"auto_merge,omitempty"`
	Identity    *TypeIdentity    `json:"identity,omitempty"`
	Home        []TypeHome       `json:"home,omitempty"`
	Answers     []TypeAnswer     `json:"answers,omitempty"`
	Permissions *TypePermissions `json:"permissions,omitempty"`
}

// TypeStream is machine-readable output: the words that ask a program for it, and its format.
type TypeStream struct {
	Format string   `json:"format"`
	Args   []string `json:"args,omitempty"`
}

// TypeAnswer is a value in a file of the agent's home that answers what its program asks at a
// first start: Value (a bool, a string or a list of strings) at the path At of the document.
type TypeAnswer struct {
	File   string   `json:"file"`
	Format string   `json:"format"`
	At     []string `json:"at"`
	Value  any      `json:"value"`
}

// TypeHome is a file of the owner's home that agents of a type get: a "copy", "credentials" or
// "read-only".
type TypeHome struct {
	Path string `json:"path"`
	Mode string `json:"mode"`
}

// TypeMount is what agents of a type see of the host.
type TypeMount struct {
	Source   string `json:"source"`
	Dest     string `json:"dest"`
	ReadOnly bool   `json:"read_only"`
}

// TypeIdentity is the author of commits by agents of a type.
type TypeIdentity struct {
	Name  string `json:"name"`
	Email string `json:"email"`
}

// TypePermissions is how a program's own permission system is reached: "hook",
// "acp" or "none".
type TypePermissions struct {
	Kind    string   `json:"kind"`
	File    string   `json:"file,omitempty"`
	Command []string `json:"command,omitempty"`
}

func agentPath(name string, rest ...string) string {
	p := "/v1/agents/" + url.PathEscape(name)
	for _, r := range rest {
		p += "/" + r
	}
	return p
}

// Agents lists the agents of a workspace, or of all if workspace is empty.
func (c *Client) Agents(ctx context.Context, workspace string) ([]api.Agent, error) {
	var out struct {
		Agents []api.Agent `json:"agents"`
	}
	err := c.call(ctx, http.MethodGet, "/v1/agents", ofWorkspace(workspace), nil, &out)
	return out.Agents, err
}

// Add adds an agent. progress, if not nil, is called at each step.
func (c *Client) Add(ctx context.Context, req api.AddRequest, progress func(string)) (api.Agent, error) {
	var out api.Agent
	err := c.long(ctx, "/v1/agents", req, &out, progress)
	return out, err
}

// Agent returns one agent.
func (c *Client) Agent(ctx context.Context, name string) (api.Agent, error) {
	return fetch[api.Agent](ctx, c, http.MethodGet, agentPath(name), nil, nil)
}

// Set changes an agent, also while it runs.
func (c *Client) Set(ctx context.Context, name string, req api.SetRequest) (api.SetResponse, error) {
	return fetch[api.SetResponse](ctx, c, http.MethodPatch, agentPath(name), nil, req)
}

// Remove removes an agent; its work is saved first. force also removes one that runs or has
// unsaved work; ignored saves ignored files, too.
func (c *Client) Remove(ctx context.Context, name string, force, ignored bool) (api.RemoveResponse, error) {
	query := keepIgnored(ignored)
	if force {
		query.Set("force", "1")
	}
	return fetch[api.RemoveResponse](ctx, c, http.MethodDelete, agentPath(name), query, nil)
}

func keepIgnored(yes bool) url.Values {
	if yes {
		return url.Values{"ignored": {"1"}}
	}
	return url.Values{}
}

// Start starts an agent's sandbox and main command.
func (c *Client) Start(ctx context.Context, name string) (api.Agent, error) {
	return fetch[api.Agent](ctx, c, http.MethodPost, agentPath(name, "start"), nil, nil)
}

// BringUp starts the sandbox of an agent that is Stopped or in Error, and not its program. Tasks that wait begin.
func (c *Client) BringUp(ctx context.Context, name string) (api.Agent, error) {
	return fetch[api.Agent](ctx, c, http.MethodPost, agentPath(name, "start"), url.Values{"idle": {"1"}}, nil)
}

// ForceBringUp is BringUp even if the machine has no room for the agent.
func (c *Client) ForceBringUp(ctx context.Context, name string) (api.Agent, error) {
	return fetch[api.Agent](ctx, c, http.MethodPost, agentPath(name, "start"), url.Values{"idle": {"1"}, "force": {"1"}}, nil)
}

// ForceStart is Start even if the machine has no room for the agent.
func (c *Client) ForceStart(ctx context.Context, name string) (api.Agent, error) {
	return fetch[api.Agent](ctx, c, http.MethodPost, agentPath(name, "start"), url.Values{"force": {"1"}}, nil)
}

// Stop ends an agent's processes; its work stays.
func (c *Client) Stop(ctx context.Context, name string) (api.Agent, error) {
	return fetch[api.Agent](ctx, c, http.MethodPost, agentPath(name, "stop"), nil, nil)
}

// Run gives an agent a task.
func (c *Client) Run(ctx context.Context, name string, req api.RunRequest) (api.Task, error) {
	return fetch[api.Task](ctx, c, http.MethodPost, agentPath(name, "run"), nil, req)
}

// Send types a text into an agent's program.
func (c *Client) Send(ctx context.Context, name string, req api.SendRequest) (api.Task, error) {
	return fetch[api.Task](ctx, c, http.MethodPost, agentPath(name, "send"), nil, req)
}

// Say says a text to an agent, whatever it does.
func (c *Client) Say(ctx context.Context, name string, req api.SayRequest) (api.SayResponse, error) {
	return fetch[api.SayResponse](ctx, c, http.MethodPost, agentPath(name, "say"), nil, req)
}

// Broadcast sends a text to every running agent.
func (c *Client) Broadcast(ctx context.Context, req api.BroadcastRequest) (api.BroadcastResponse, error) {
	return fetch[api.BroadcastResponse](ctx, c, http.MethodPost, "/v1/broadcast", nil, req)
}

// Merge brings an agent's branch to the target branch.
func (c *Client) Merge(ctx context.Context, name string, req api.MergeRequest) (api.MergeResponse, error) {
	return fetch[api.MergeResponse](ctx, c, http.MethodPost, agentPath(name, "merge"), nil, req)
}

// Pull pushes an agent's branch and opens a pull request.
func (c *Client) Pull(ctx context.Context, name string, req api.PullRequest) (api.PullResponse, error) {
	return fetch[api.PullResponse](ctx, c, http.MethodPost, agentPath(name, "pull-request"), nil, req)
}

// Discard removes an agent and its branch after saving the work, with ignored also ignored files.
func (c *Client) Discard(ctx context.Context, name string, ignored bool) (api.RemoveResponse, error) {
	return fetch[api.RemoveResponse](ctx, c, http.MethodPost, agentPath(name, "discard"), keepIgnored(ignored), nil)
}

// Logs opens the output of an agent's main command: the last lines, and with follow new output,
// until ctx ends or the reader is closed.
func (c *Client) Logs(ctx context.Context, name string, lines int, follow bool) (io.ReadCloser, error) {
	s, err := c.LogStream(ctx, name, LogQuery{Lines: lines, Follow: follow})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Why explains what an agent was refused.
func (c *Client) Why(ctx context.Context, name string) (out api.Refusals, err error) {
	err = c.call(ctx, http.MethodGet, agentPath(name, "why"), nil, nil, &out)
	return out, err
}

// Leftovers returns what the agent's last command left running.
func (c *Client) Leftovers(ctx context.Context, name string) (api.Leftovers, error) {
	var out api.Leftovers
	return out, c.call(ctx, http.MethodGet, agentPath(name, "leftovers"), nil, nil, &out)
}

// EndLeftovers ends what the agent's last command left running.
func (c *Client) EndLeftovers(ctx context.Context, name string) (api.Leftovers, error) {
	var out api.Leftovers
	return out, c.call(ctx, http.MethodDelete, agentPath(name, "leftovers"), nil, nil, &out)
}

// Policy returns an agent's path rules.
func (c *Client) Policy(ctx context.Context, name string) (api.Policy, error) {
	return fetch[api.Policy](ctx, c, http.MethodGet, agentPath(name, "policy"), nil, nil)
}

// Where returns the path of an agent's own socket.
func (c *Client) Where(ctx context.Context, name string) (api.Attach, error) {
	return fetch[api.Attach](ctx, c, http.MethodGet, agentPath(name, "attach"), nil, nil)
}

// Types lists the base types and whether they can be used here.
func (c *Client) Types(ctx context.Context) ([]AgentType, error) {
	var out struct {
		Types []AgentType `json:"types"`
	}
	err := c.call(ctx, http.MethodGet, "/v1/types", nil, nil, &out)
	return out.Types, err
}
