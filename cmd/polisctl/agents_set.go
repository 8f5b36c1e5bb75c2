package main

import (
	"context"
	"reflect"
	"strings"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

// setFlags are the flags of agents set as typed.
type setFlags struct {
	memory, role string
	limits       limitFlags
	env          envFlags
	unsetEnv     []string
	rules        ruleFlags
	egress       []string
	hostPorts    []string
	autoMerge    bool
	removeAfter  bool
	leftovers    string
	force        bool
}

func (a *app) setCmd() *cobra.Command {
	var f setFlags
	cmd := &cobra.Command{
		Use:   "set NAME OPTION...",
		Short: "Change an agent's limits and rules, also while it works",
		Long: `Change an agent. Settings that are not named are unchanged. All changes apply at once, also
to running programs, and rules also to open files. The exceptions are what the answer
names, and a file that is open for writing and that the kernel serves directly; the agent's
log names those files.

New rules are added to the agent's rules. --ask none, --deny none, --hide none and
--exclusive none remove those that were added to the role's, and can stand beside new ones.
--role replaces all rules by the role's present rules in polisd.toml; --role '' removes all.
The limit "default" returns to the configured value. Variables are added to the agent's
variables; they apply to programs that start later, and no command shows them.

A memory limit below the present use is refused; with --force, processes are killed
until the rest fits.`,
		Example: `  polisctl agents set claude --memory 2GB --cpu 150
  polisctl agents set docs --deny '.env*'
  polisctl agents set docs --ask 'deploy/**'
  polisctl agents set docs --deny none --hide none
  polisctl agents set docs --egress +docs.example.org
  polisctl agents set docs --role reviewer`,
		Args:              takes(1, 1, "the NAME of the agent"),
		ValidArgsFunction: a.completeAgents,
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.memory, "memory", "m", "", "memory limit in `MB`, or as in 2GB")
	f.limits.register(cmd)
	f.env.register(cmd)
	flags.StringArrayVar(&f.unsetEnv, "unset-env", nil, "unset the variable `NAME`; may be repeated")
	flags.StringVar(&f.role, "role", "", "`ROLE` of polisd.toml, with its rules")
	f.rules.register(cmd)
	f.rules.registerOwn(cmd)
	flags.StringSliceVar(&f.egress, "egress", nil, "let it reach `WHERE` only: open, none, names such as api.x.org and *.x.org, separated by commas, or default; +api.x.org adds to its list and -api.x.org takes from it; connections to what is no longer allowed are cut")
	flags.StringSliceVar(&f.hostPorts, "host-port", nil, "let it reach `PORT` of the host's 127.0.0.1, at its own 127.0.0.1; several are separated by commas, or none, or default; replaces the ones it has; +8080 adds one and -8080 takes one away")
	flags.BoolVar(&f.autoMerge, "auto-merge", true, "merge what its tasks commit when they end well; =false leaves that to you")
	flags.BoolVar(&f.removeAfter, "remove-after", false, "remove the agent when its branch is merged; =false keeps it")
	flags.StringVar(&f.leftovers, "leftovers", "", "what is done about what its commands leave running: `keep|end|ask`, or default, as its role says")
	flags.BoolVar(&f.force, "force", false, "lower the memory limit also below what is in use")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkAgents(args[0]); err != nil {
			return err
		}
		req, err := f.request(flags.Changed)
		if err != nil {
			return err
		}
		return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
			res, err := c.Set(ctx, args[0], req)
			if err != nil {
				return err
			}
			return a.showSet(res)
		})
	}
	return cmd
}

// request checks the flags and makes the request of them.
func (f *setFlags) request(changed func(string) bool) (api.SetRequest, error) {
	req := api.SetRequest{Force: f.force}
	var err error
	if changed("memory") {
		if req.MemoryMB, err = parseMemory(f.memory); err != nil {
			return req, err
		}
	}
	if req.Limits, req.Reset, err = f.limits.parse(); err != nil {
		return req, err
	}
	if changed("role") {
		if f.role != "" {
			if err := checkWord("role", f.role, 64); err != nil {
				return req, err
			}
		}
		req.Role = &f.role
	}
	lists, err := f.rules.reset()
	if err != nil {
		return req, err
	}
	req.Reset = append(req.Reset, lists...)
	if req.Policy, err = f.rules.policy(); err != nil {
		return req, err
	}
	if req.Env, err = f.env.parse(); err != nil {
		return req, err
	}
	req.UnsetEnv = f.unsetEnv
	if changed("egress") {
		if len(f.egress) == 1 && f.egress[0] == "default" {
			req.Reset = append(req.Reset, api.ResetEgress)
		} else if req.Egress, err = egressWords(f.egress); err != nil {
			return req, err
		} else if len(req.Egress) == 0 {
			return req, usagef("--egress is empty").WithHint("--egress none lets the agent reach nothing, --egress default what is configured")
		}
	}
	if changed("host-port") {
		if len(f.hostPorts) == 1 && f.hostPorts[0] == "default" {
			req.Reset = append(req.Reset, api.ResetHostPorts)
		} else if req.HostPorts, req.AddHostPorts, req.RemoveHostPorts, err = hostPortWords(f.hostPorts); err != nil {
			return req, err
		}
	}
	if changed("auto-merge") {
		req.AutoMerge = &f.autoMerge
	}
	if changed("remove-after") {
		req.RemoveAfter = &f.removeAfter
	}
	if changed("leftovers") {
		if f.leftovers == "" {
			return req, usagef("--leftovers is empty: it is keep, end, ask or default")
		}
		req.Leftovers = f.leftovers
	}
	if reflect.DeepEqual(req, api.SetRequest{Force: f.force}) {
		return req, usagef("nothing to set: name a limit or a rule, such as --memory 1GB")
	}
	return req, nil
}

func (a *app) showSet(res api.SetResponse) error {
	g := res.Agent
	return a.show(view{json: api.SetResponse{Agent: tidy(g), Later: res.Later}, names: []string{g.Name}, human: func(p *page) {
		p.line("agent %s is %s", g.Name, g.Status)
		p.line("  limits      %s", limitsText(g))
		p.line("  egress      %s", egressLine(g.Egress))
		showHostPorts(p, g)
		if len(g.Env) > 0 {
			p.line("  env         %s", strings.Join(g.Env, ", "))
		}
		for _, w := range g.Warnings {
			p.warn("%s", w)
		}
		for _, l := range res.Later {
			p.warn("from its next start: %s", l)
		}
	}})
}
