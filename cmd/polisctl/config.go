package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
	"polis/internal/tomledit"
)

// configResult is what a command of polisctl config did or found.
type configResult struct {
	File string `json:"file"`
	Key  string `json:"key,omitempty"`
	// Value is as TOML writes it.
	Value   string `json:"value,omitempty"`
	Changed bool   `json:"changed"`
	Reload  string `json:"reload,omitempty"`
}

func (a *app) configCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Read and change the configuration of polisd"}
	var file string
	cmd.PersistentFlags().StringVar(&file, "config", "", "the configuration `FILE` (default: the one that polisd uses)")
	cmd.AddCommand(a.configSetCmd(&file), a.configGetCmd(&file), a.configPathCmd(&file))
	return cmd
}

func (a *app) configSetCmd(file *string) *cobra.Command {
	return &cobra.Command{
		Use:   "set KEY VALUE",
		Short: "Set one key of the configuration of polisd",
		Long: `Set KEY in the configuration file that polisd uses; polisd.toml(5) lists the keys. In
KEY, the names of tables come first, with dots between them. VALUE is a value of TOML, or
else a string: true, 20, '["a", "b"]', run.

Comments and the order of the file stay. polisd checks the whole file before it replaces
the old one, in one step; owner, group and mode stay, and a symbolic link is followed. Other
polisctl commands wait meanwhile. polisd reads the file when it is reloaded or started.
Only root can change the configuration.`,
		Example: `  sudo polisctl config set git.hooks run
  sudo polisctl config set merge.workspaces.shop.check 'make test'
  sudo polisctl config set network.egress '["api.example.org"]'`,
		Args: takes(2, 2, "one KEY and one VALUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := parseEntry(args[0], args[1])
			if err != nil {
				return err
			}
			return a.call(cmd, shortCall+reloadTime, func(ctx context.Context, c *client.Client) error {
				res, err := a.configSet(ctx, c, *file, e, args)
				if err != nil {
					return err
				}
				return a.show(view{json: res, names: []string{res.Key}, human: func(p *page) {
					if !res.Changed {
						p.line("%s is %s already in %s", res.Key, res.Value, res.File)
						return
					}
					p.line("configured  %s = %s in %s", res.Key, res.Value, res.File)
					if res.Reload != "" {
						p.line("polisd reads it after: %s", res.Reload)
					}
				}})
			})
		},
	}
}

func (a *app) configSet(ctx context.Context, c *client.Client, given string, e entry, args []string) (configResult, error) {
	f, err := configFile(ctx, c, given)
	if err != nil {
		return configResult{}, err
	}
	res := configResult{File: f.Path, Key: e.name(), Value: e.value}
	err = f.Edit(ctx, func(text string) (string, error) {
		out, err := e.in(f.Path, text)
		res.Changed = err == nil && out != text
		return out, err
	})
	if err != nil {
		return configResult{}, cannotChange(f.Path, err, a.asRoot(slices.Concat([]string{"config", "set", "--config", f.Path, "--"}, args)...))
	}
	if res.Changed {
		res.Reload = reloadCommand(ctx, c)
	}
	return res, nil
}

// asRoot is the command line that runs polisctl with args as root, for the same polisd.
func (a *app) asRoot(args ...string) string {
	words := []string{"sudo", "polisctl"}
	if path := orElse(a.socket, a.getenv("POLIS_SOCKET")); path != "" { // sudo does not keep the variable
		words = append(words, "--socket", path)
	}
	words = append(words, args...)
	for i, w := range words {
		if api.ShellWord(w) != w {
			words[i] = shellWord(w) // also what is not printable can be copied
		}
	}
	return strings.Join(words, " ")
}

func (a *app) configGetCmd(file *string) *cobra.Command {
	return &cobra.Command{
		Use:   "get KEY",
		Short: "Print the value of one key of the configuration of polisd",
		Long: `Print the value of KEY in the configuration file that polisd uses, as TOML writes it. The
exit status is 3 if the file does not set KEY: polisd then uses the default that polisd.toml(5) has.`,
		Example: `  polisctl config get git.hooks`,
		Args:    takes(1, 1, "one KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := parseEntry(args[0], "")
			if err != nil {
				return err
			}
			return a.call(cmd, shortCall, func(ctx context.Context, c *client.Client) error {
				f, err := configFile(ctx, c, *file)
				if err != nil {
					return err
				}
				text, err := f.Read()
				if errors.Is(err, fs.ErrPermission) {
					return api.Errorf(api.CodeForbidden, "only root can read %s", f.Path).WithHint("%s", a.asRoot("config", "get", "--config", f.Path, args[0]))
				}
				if err != nil {
					return api.Errorf(api.CodeInvalidConfig, "read the configuration: %w", err)
				}
				value, ok, err := tomledit.Get(text, e.table, e.key)
				if err != nil {
					return api.Errorf(api.CodeInvalidConfig, "read %s: %w", f.Path, err)
				}
				if !ok {
					return api.Errorf(api.CodeNotFound, "%s does not set %s", f.Path, e.name())
				}
				res := configResult{File: f.Path, Key: e.name(), Value: tomlText(value)}
				return a.show(view{json: res, names: []string{res.Value}, human: func(p *page) { p.text(res.Value) }})
			})
		},
	}
}

// tomlText is a value as TOML writes it; that of a table is its lines.
func tomlText(value any) string {
	if table, ok := value.(map[string]any); ok {
		b, err := toml.Marshal(table)
		if err != nil {
			return fmt.Sprint(value)
		}
		return strings.TrimSpace(string(b))
	}
	b, err := toml.Marshal(map[string]any{"v": value})
	text, ok := strings.CutPrefix(strings.TrimSpace(string(b)), "v = ")
	if err != nil || !ok {
		return fmt.Sprint(value)
	}
	return text
}

func (a *app) configPathCmd(file *string) *cobra.Command {
	return &cobra.Command{
		Use:     "path",
		Short:   "Print the path of the configuration file that polisd uses",
		Long:    `Print the path of the configuration file that polisd uses; of the default one if polisd does not run.`,
		Example: `  sudoedit "$(polisctl config path)"`,
		Args:    takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.call(cmd, shortCall, func(ctx context.Context, c *client.Client) error {
				f, err := configFile(ctx, c, *file)
				if err != nil {
					return err
				}
				return a.show(view{json: configResult{File: f.Path}, names: []string{f.Path}, human: func(p *page) { p.line("%s", f.Path) }})
			})
		},
	}
}
