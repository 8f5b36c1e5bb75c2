package main

import (
	"cmp"
	"context"
	"strings"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

// maxBranch keeps refs/heads/BRANCH.lock within NAME_MAX per component.
const maxBranch = 200

// customType is the base type of an agent that is only a command.
const customType = "custom"

// addFlags are the flags of agents add as typed.
type addFlags struct {
	base, workspace, branch, memory, role, at string
	ports, egress, hostPorts, sparse          []string
	rules                                     ruleFlags
	autoMerge, removeAfter, ephemeral         bool
	readOnly, waitSetup, noSparse             bool
	leftovers                                 string
	limits                                    limitFlags
	env                                       envFlags
	force                                     bool
}

func (a *app) addCmd() *cobra.Command {
	var f addFlags
	cmd := &cobra.Command{
		Use:   "add NAME --base TYPE [OPTION]... [-- CMD...]",
		Short: "Add an agent",
		Long: `Add an agent: a branch and a worktree, a view of it with policy and locks, a
sandbox, limits and ports. NAME has 2 to 31 characters: a small letter first,
then small letters, digits and '-'. CMD is a command line that replaces that of the
base type: start runs it unchanged, and run adds the task to it as
the type does (claude: CMD -p -- TASK) or replaces {prompt} in CMD by it. With CMD,
--base is optional.

Rules are globs as in .gitignore, over paths of the repository. Without any rule, the
agent's role decides what it may read and write. Deny takes precedence over write, and
write over read. In a name, '[', '*', '?', '\' and a leading '!' are written with a '\'
before them: --write 'app/\[id\]/**'. A rule whose [...] names no file of the project,
while a file has these brackets in its name, is refused; so is a rule that begins with
'!' and that no rule before it covers.

Where the project's own checkout is sparse (git sparse-checkout), that of the agent
has the same directories; --sparse names others, and --no-sparse checks everything
out. The agent can widen its checkout by git sparse-checkout add.

With --read-only the agent sees the files of a commit and can change none of them,
for reviews and questions: it has no branch, takes no locks and has no work to
merge or to save, so it is added and removed quickly. git shows, compares and
searches there. Its home and /tmp can be written as usual.`,
		Example: `  polisctl agents add claude --base claude --memory 2GB --port 3000
  polisctl agents add docs --base custom --write 'docs/**' --read '**' -- ./write-docs.sh
  polisctl agents add review --base claude --read-only --at agent/docs`,
		Args: func(cmd *cobra.Command, args []string) error {
			n := cmd.ArgsLenAtDash()
			if n < 0 {
				n = len(args)
			}
			if n > 1 {
				return usagef("%s takes only NAME before --, got also %q", cmd.CommandPath(), clean(args[1])).
					WithHint("write the agent's command after --: %s %s -- COMMAND", cmd.CommandPath(), clean(args[0]))
			}
			return takes(1, -1, "the NAME of the new agent")(cmd, args[:n])
		},
		ValidArgsFunction: completeWords(),
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.base, "base", "b", "", "base `TYPE`, see polisctl agents types (default custom if CMD is given)")
	flags.StringVarP(&f.workspace, "workspace", "w", "", "`WORKSPACE` to work in (default: that of the current directory, or the only one)")
	flags.StringVar(&f.branch, "branch", "", "`BRANCH` to work on: one of the project's, or a new one from the target (default agent/NAME)")
	flags.BoolVar(&f.readOnly, "read-only", false, "the agent only reads: it has no branch, and no file of the repository can be changed")
	flags.StringVar(&f.at, "at", "", "with --read-only, show the files of `COMMIT`, a branch or a tag (default the newest of the target)")
	flags.StringArrayVar(&f.sparse, "sparse", nil, "check out only the files in `DIR`, and those beside it and above it; may be repeated (default as in the project's own checkout)")
	flags.BoolVar(&f.noSparse, "no-sparse", false, "check out all files, also if the project's own checkout is sparse")
	flags.BoolVar(&f.waitSetup, "wait-setup", false, "wait until what the setup command makes is there; if the command fails, the agent starts without")
	flags.StringVarP(&f.memory, "memory", "m", "", "memory limit in `MB`, or as in 2GB (default 512)")
	f.limits.register(cmd)
	f.env.register(cmd)
	flags.StringVar(&f.role, "role", "", "`ROLE` of polisd.toml")
	f.rules.register(cmd)
	f.rules.registerOwn(cmd)
	flags.BoolVar(&f.rules.temp, "temp", false, "give a private scratch directory, named by $TMPDIR")
	flags.StringArrayVarP(&f.ports, "port", "p", nil, "map this `PORT` of the agent to the host: 3000, 5000/udp or 8000-8010; may be repeated")
	flags.StringSliceVar(&f.egress, "egress", nil, "let it reach `WHERE`: open, none, or names such as api.x.org and *.x.org, separated by commas; ask and ask:NAME wait for an answer; +api.x.org adds to what is configured (the default)")
	flags.StringSliceVar(&f.hostPorts, "host-port", nil, "let it reach `PORT` of the host's 127.0.0.1, at its own 127.0.0.1; several are separated by commas, or none (default as configured)")
	flags.BoolVar(&f.autoMerge, "auto-merge", true, "merge what its tasks commit when they end well; =false leaves that to you (default as configured)")
	flags.StringVar(&f.leftovers, "leftovers", "", "the action for processes that its commands leave running: `keep|end|ask` (default as its role has it)")
	flags.BoolVar(&f.removeAfter, "remove-after", false, "remove the agent when its branch is merged (default as configured)")
	flags.BoolVar(&f.ephemeral, "ephemeral", false, "the agent exists for its work only: the patrol may remove it once the work has ended and is kept elsewhere")
	flags.BoolVarP(&f.force, "force", "f", false, "add the agent even if the machine has no room for it")
	_ = cmd.RegisterFlagCompletionFunc("base", a.completeTypes) // fails only for a flag that is not there
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req, err := f.request(args[0], args[1:])
		if err != nil {
			return err
		}
		if flags.Changed("auto-merge") {
			req.AutoMerge = &f.autoMerge
		}
		req.Leftovers = f.leftovers
		if flags.Changed("remove-after") {
			req.RemoveAfter = &f.removeAfter
		}
		limit := longCall
		if f.waitSetup { // [workspace.setup] timeout bounds it
			limit = 0
		}
		return a.call(cmd, limit, func(ctx context.Context, c *client.Client) error {
			if req.Workspace == "" {
				if req.Workspace, err = here(ctx, c); err != nil {
					return err
				}
			}
			p := a.progress("adding agent " + req.Name)
			defer p.done()
			agent, err := c.Add(ctx, req, p.step)
			p.done()
			if err != nil {
				return err
			}
			if f.waitSetup {
				if err := warnSetup(ctx, c, &agent); err != nil {
					return err
				}
			}
			return a.showAdded(agent)
		})
	}
	return cmd
}

// request checks the flags and makes the request of them.
func (f *addFlags) request(name string, command []string) (api.AddRequest, error) {
	req := api.AddRequest{Name: name, BaseType: f.base, AgentSpec: api.AgentSpec{Workspace: f.workspace, Role: f.role, Command: command, Force: f.force}, Branch: f.branch, Ephemeral: f.ephemeral, ReadOnly: f.readOnly, At: f.at, WaitSetup: f.waitSetup}
	if err := api.CheckName(name); err != nil {
		return req, err
	}
	if f.at != "" && !f.readOnly {
		return req, usagef("--at needs --read-only")
	}
	if req.BaseType == "" {
		if len(command) == 0 {
			return req, usagef("agent %s needs a base type", name).
				WithHint("give one with --base (polisctl agents types lists them), or a command after --")
		}
		req.BaseType = customType
	}
	for _, w := range []struct {
		field, value string
		max          int
	}{{"base", req.BaseType, 64}, {"workspace", f.workspace, maxText}, {"branch", f.branch, maxBranch}, {"at", f.at, maxBranch}, {"role", f.role, 64}} {
		if w.value == "" {
			continue
		}
		if err := checkWord(w.field, w.value, w.max); err != nil {
			return req, err
		}
	}
	if err := checkCommand(command); err != nil {
		return req, err
	}
	if len(f.sparse) > 0 && f.noSparse {
		return req, usagef("--sparse and --no-sparse exclude each other")
	}
	req.Sparse, req.NoSparse = f.sparse, f.noSparse
	var err error
	if req.MemoryMB, err = parseMemory(f.memory); err != nil {
		return req, err
	}
	// That it be as configured is what an agent begins with.
	if req.Limits, _, err = f.limits.parse(); err != nil {
		return req, err
	}
	if req.Env, err = f.env.parse(); err != nil {
		return req, err
	}
	if req.Ports, req.UDPPorts, err = parsePorts("port", f.ports); err != nil {
		return req, err
	}
	if req.Egress, err = egressWords(f.egress); err != nil {
		return req, err
	}
	if req.HostPorts, err = hostPorts(f.hostPorts); err != nil {
		return req, err
	}
	req.Policy, err = f.rules.policy()
	return req, err
}

// checkCommand checks an argument vector.
func checkCommand(command []string) error {
	for i, arg := range command {
		switch {
		case i == 0 && arg == "":
			return usagef("command is empty: its first word must name a program")
		case strings.ContainsRune(arg, 0):
			return usagef("argument %d of the command has a NUL byte in it", i)
		case len(arg) >= maxPrompt:
			return usagef("argument %d of the command is %d bytes long: at most %d are allowed", i, len(arg), maxPrompt-1)
		}
	}
	return nil
}

func (a *app) showAdded(g api.Agent) error {
	return a.show(view{json: tidy(g), names: []string{g.Name}, human: func(p *page) {
		p.line("agent %s is %s", g.Name, g.Status)
		p.line("  type        %s", g.BaseType)
		p.line("  workspace   %s", g.Workspace)
		if g.Branch != "" {
			p.line("  branch      %s", g.Branch)
		}
		if g.ReadOnly {
			p.line("  access      read-only")
		}
		if g.WorktreePath != "" {
			p.line("  worktree    %s", g.WorktreePath)
		}
		showSparse(p, g)
		if len(g.Command) > 0 {
			p.line("  start       %s", cmp.Or(commandText(g.StartCommand), "nothing: its command is for tasks"))
			p.line("  run         %s", commandText(g.TaskCommand))
		}
		p.line("  limits      %s", limitsText(g))
		p.line("  egress      %s", egressLine(g.Egress))
		showHostPorts(p, g)
		if len(g.Env) > 0 {
			p.line("  env         %s", strings.Join(g.Env, ", "))
		}
		if g.Audit != "" {
			p.line("  audit       %s: what it opens is recorded; its overlay, if it has one, is below its view", g.Audit)
		}
		if g.Isolation == "degraded" {
			p.warn("isolation is degraded: agent %s has no %s of its own; polisctl status says what that means", g.Name, strings.Join(g.Lost, ", "))
		}
		if g.Recording {
			p.warn("agent %s is in record mode: its lists read and write do not restrict it, and what it uses is recorded; its overlay is below its view (polisctl policy learn %s)", g.Name, g.Name)
		}
		for _, m := range g.PortMappings {
			p.line("  port        %s -> %s", hostPort(m), innerPort(m))
		}
		for _, w := range g.Warnings {
			p.warn("%s", w)
		}
		if g.StatusReason != "" {
			p.warn("%s", g.StatusReason)
		}
	}})
}
