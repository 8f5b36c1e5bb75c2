package main

import (
	"context"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

func (a *app) prCmd() *cobra.Command {
	var req api.PullRequest
	var bodyFile string
	cmd := &cobra.Command{
		Use:   "pr NAME [--title TITLE] [--body TEXT | --body-file FILE] [--draft] [--remote REMOTE] [--into REMOTE] [--force] [--accept-protected] [--dry-run]",
		Short: "Push an agent's branch and open a pull request",
		Long: `Push an agent's branch to a remote of the project and open a pull request into the
target branch. git, and the forge's own program (gh for GitHub, glab for GitLab), run on
the host as the owner of the project, with that user's configuration and credentials:
never as root, and never with configuration that an agent can change. Only the owner and
root may use it. git runs no hooks.

Without such a program, or if it fails, the page where a person can open the request
is printed, and the text of git request-pull(1) to send by mail.

Title and description come from the commits and from the tasks that made them, unless they
are given. Only commits are pushed. Nothing is overwritten on the remote, except with
--force, and then only the history that was read just before.

What the branch changes is compared with the agent's rules and with merge.protected
as polisctl merge does it.`,
		Example: `  polisctl agents pr claude --draft
  polisctl agents pr claude --remote fork --into upstream
  polisctl agents pr claude --dry-run`,
		Args:              takes(1, 1, "the NAME of an agent"),
		ValidArgsFunction: a.completeAgents,
	}
	flags := cmd.Flags()
	flags.StringVarP(&req.Title, "title", "t", "", "the request's `TITLE`")
	flags.StringVarP(&req.Body, "body", "b", "", "its description, a `TEXT` in Markdown")
	flags.StringVarP(&bodyFile, "body-file", "F", "", "read the description from `FILE`, - for standard input")
	flags.BoolVarP(&req.Draft, "draft", "d", false, "open it as a draft")
	flags.StringVar(&req.Remote, "remote", "", "push to this `REMOTE` of the project (default as git push there would)")
	flags.StringVar(&req.Into, "into", "", "ask the repository of this `REMOTE` to pull (default the one pushed to)")
	flags.StringVar(&req.Forge, "forge", "", "what runs at the remote's host, if its name does not show it: github, gitlab, gitea, `...`")
	flags.BoolVar(&req.Force, "force", false, "replace the branch on the remote if its history is another")
	flags.BoolVar(&req.AcceptProtected, "accept-protected", false, "also push changes of protected paths")
	flags.BoolVarP(&req.DryRun, "dry-run", "n", false, "only show what would be done")
	cmd.MarkFlagsMutuallyExclusive("body", "body-file")
	_ = cmd.RegisterFlagCompletionFunc("forge", completeWords("github", "gitlab", "bitbucket", "gitea", "forgejo", "sourcehut", "azure")) //nolint:errcheck // the flag exists
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkAgents(args[0]); err != nil {
			return err
		}
		if cmd.Flags().Changed("title") {
			if err := checkText("title", req.Title, 255); err != nil {
				return err
			}
		}
		if bodyFile != "" {
			var err error
			if req.Body, err = a.readText(bodyFile, 60<<10); err != nil {
				return err
			}
		}
		req.Env = map[string]string{}
		for _, name := range api.PullEnv() {
			if v := a.getenv(name); v != "" {
				req.Env[name] = v
			}
		}
		return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
			p := a.progress("pushing the branch of agent " + args[0])
			defer p.done()
			resp, err := c.Pull(ctx, args[0], req)
			p.done()
			if err != nil {
				return err
			}
			return a.showPull(resp)
		})
	}
	return cmd
}

// readText reads a bounded text from a file or standard input.
func (a *app) readText(path string, limit int64) (string, error) {
	in := io.Reader(a.stdin)
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return "", err
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err != nil {
		return "", usagef("read %s: %w", clean(path), err)
	}
	if int64(len(b)) > limit {
		return "", usagef("%s has more than %d bytes", clean(path), limit)
	}
	return string(b), nil
}

func (a *app) showPull(r api.PullResponse) error {
	name := r.URL
	if name == "" {
		name = r.CompareURL
	}
	if name == "" {
		name = r.Branch
	}
	return a.show(view{json: r, names: []string{name}, human: func(p *page) {
		switch {
		case r.DryRun:
			p.line("would push %s (%s, %s) to %s", r.Branch, short(r.Commit), api.Count(r.Commits, "commit"), r.RemoteURL)
			if r.Tool != "" {
				p.line("would open a pull request into %s with %s", r.Target, r.Tool)
			}
		case r.Pushed:
			p.line("pushed %s (%s, %s) to %s", r.Branch, short(r.Commit), api.Count(r.Commits, "commit"), r.RemoteURL)
		default:
			p.line("%s has %s (%s) already", r.RemoteURL, r.Branch, short(r.Commit))
		}
		switch {
		case r.URL != "" && r.Existed:
			p.line("pull request, open since before: %s", r.URL)
		case r.URL != "":
			p.line("pull request: %s", r.URL)
		case r.CompareURL != "":
			p.line("open a pull request at: %s", r.CompareURL)
		}
		if r.URL == "" {
			p.line("\ntitle: %s\n", r.Title)
			p.text(strings.TrimRight(r.Body, "\n"))
		}
		if r.RequestPull != "" {
			p.text("\n" + strings.TrimRight(r.RequestPull, "\n"))
		}
		for _, n := range r.Notes {
			p.warn("%s", n)
		}
	}})
}
