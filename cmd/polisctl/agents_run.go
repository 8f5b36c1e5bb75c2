package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

func (a *app) runCmd() *cobra.Command {
	var env envFlags
	cmd := &cobra.Command{
		Use:   "run NAME PROMPT...",
		Short: "Give an agent a task",
		Long: `Give an agent a task in words. Its base type defines the command line for its
program. Several words are joined by spaces; - reads the prompt from standard
input. Words that start with '-' come after --.`,
		Example: `  polisctl agents run claude "make the tests of package store pass"
  polisctl agents run claude - < task.md`,
		Args:              takes(2, -1, "the NAME of an agent and a PROMPT"),
		ValidArgsFunction: a.completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkAgents(args[0]); err != nil {
				return err
			}
			prompt, err := a.prompt(args[1:])
			if err != nil {
				return err
			}
			vars, err := env.parse()
			if err != nil {
				return err
			}
			return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
				p := a.progress("starting the task")
				defer p.done()
				task, err := c.Run(ctx, args[0], api.RunRequest{Prompt: prompt, Env: vars})
				p.done()
				if err != nil {
					return err
				}
				return a.show(view{json: task, names: []string{task.Agent}, human: func(p *page) {
					p.line("agent %s works on it; see polisctl agents watch -f %s", task.Agent, task.Agent)
				}})
			})
		},
	}
	env.register(cmd)
	return cmd
}

func (a *app) prompt(words []string) (string, error) {
	prompt := strings.Join(words, " ")
	if len(words) == 1 && words[0] == "-" {
		b, err := io.ReadAll(io.LimitReader(a.stdin, maxPrompt+1))
		if err != nil {
			return "", api.Errorf(api.CodeInternal, "read prompt: %w", err)
		}
		prompt = strings.TrimRight(string(b), "\n")
	}
	if strings.TrimSpace(prompt) == "" {
		return "", usagef("prompt is empty: it must say what to do")
	}
	return prompt, checkText("prompt", prompt, maxPrompt-1)
}

func (a *app) watchCmd() *cobra.Command {
	var lines int
	var follow, raw bool
	cmd := &cobra.Command{
		Use:     "watch NAME [-n LINES] [-f] [--raw]",
		Aliases: []string{"logs"},
		Short:   "Show the output of an agent",
		Long: `Show the last lines of what an agent's program printed: text, and on a terminal its
colours. If the program has a terminal of its own, these are the lines of its scroll-back
and its screen. With -f continue until interrupted, also across a restart of polisd: a line
is printed when it is complete, and again if the program rewrites it and then leaves it
as it is. With --json every line is one object.

Of a task whose program has machine-readable output that polis reads (polisctl agents
types NAME), these are its steps: what it read, edited, ran, said and was refused. With
--raw they are the lines of the program.`,
		Args:              takes(1, 1, "the NAME of an agent"),
		ValidArgsFunction: a.completeAgents,
	}
	cmd.Flags().IntVarP(&lines, "lines", "n", 50, "show the last `LINES` lines")
	cmd.Flags().BoolVar(&raw, "raw", false, "print the bytes of the log as they are, also on a terminal, and lines that polis reads")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "wait for more output")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkAgents(args[0]); err != nil {
			return err
		}
		if lines < 0 || lines > maxLines {
			return usagef("lines %d is not valid: a whole number from 0 to %d", lines, maxLines)
		}
		show := func(body io.ReadCloser) error {
			defer body.Close()
			switch {
			case a.json:
				return a.jsonLines(args[0], body)
			case raw:
				_, err := io.Copy(onlyWriter{a}, body)
				return err
			}
			return a.copyOut(body)
		}
		if follow {
			return a.follow(cmd, func(ctx context.Context, c *client.Client) error {
				body, err := a.openLog(ctx, c, args[0], lines, raw)
				if err != nil {
					return err
				}
				return show(body)
			})
		}
		return a.call(cmd, shortCall, func(ctx context.Context, c *client.Client) error {
			body, err := c.LogStream(ctx, args[0], client.LogQuery{Lines: lines, Raw: raw})
			if err != nil {
				return err
			}
			return show(body)
		})
	}
	return cmd
}

// copyOut copies the text of r to standard output as it comes, on a terminal with
// its colours.
func (a *app) copyOut(r io.Reader) error {
	terminal := isTerminal(a.stdout)
	var w io.Writer = onlyWriter{a}
	if terminal {
		w = onScreen{&a.terminal, w}
	}
	_, err := io.Copy(&termFilter{w: w, plain: !terminal}, r)
	if terminal && a.colors() {
		err = errors.Join(err, a.copyText("\x1b[0m")) // a colour ends with what it was for
	}
	return err
}

func (a *app) copyText(s string) error {
	_, err := io.WriteString(onlyWriter{a}, s)
	return err
}

// onlyWriter reports write errors as ours.
type onlyWriter struct{ a *app }

func (w onlyWriter) Write(p []byte) (int, error) {
	if w.a.quiet {
		return len(p), nil
	}
	if err := w.a.write(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// jsonLines prints the text of each line of r as an object of its own.
func (a *app) jsonLines(agent string, r io.Reader) error {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadString('\n')
		if line != "" {
			var buf, text bytes.Buffer
			_, _ = (&termFilter{w: &text, plain: true}).Write([]byte(line)) // it fails as its writer does
			line = text.String()
			entry := struct {
				Agent string `json:"agent"`
				Line  string `json:"line"`
			}{agent, strings.TrimSuffix(line, "\n")}
			if err := encode(&buf, entry, ""); err != nil {
				return err
			}
			if err := a.write(buf.Bytes()); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
