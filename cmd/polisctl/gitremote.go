package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

// gitRemoteCmd is a remote helper of git, see gitremote-helpers(7): git of an
// agent runs it for the project's remotes. Objects need not travel: what the
// daemon fetches is in the shared repository, and so is what is to be pushed.
func (a *app) gitRemoteCmd() *cobra.Command {
	return &cobra.Command{
		Use:    "git-remote REMOTE [URL]",
		Short:  "Connect git to a remote of the project",
		Hidden: true,
		Args:   takes(1, 2, "the REMOTE and its URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, inside := a.insidePath()
			if !inside {
				return api.Errorf(api.CodeBadState, "this is not the sandbox of an agent").WithHint("only git needs to run this command, there")
			}
			c := client.NewInside(path)
			defer c.Close()
			h := &remoteHelper{remote: args[0], in: bufio.NewReaderSize(a.stdin, 64<<10), out: a.stdout, errs: a.stderr, ask: c.Remote}
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			return h.run(ctx)
		},
	}
}

// remoteHelper is one conversation with git.
type remoteHelper struct {
	remote    string
	in        *bufio.Reader
	out, errs io.Writer
	ask       func(context.Context, api.RemoteRequest, func(string)) (api.RemoteResponse, error)
	// resolve returns the id a name of the agent's repository stands for.
	resolve func(ctx context.Context, name string) (string, error)
	dryRun  bool
	quiet   bool
}

func (h *remoteHelper) run(ctx context.Context) error {
	if h.resolve == nil {
		h.resolve = revParse
	}
	for {
		line, err := h.line()
		if errors.Is(err, io.EOF) || err == nil && line == "" {
			return nil
		}
		if err != nil {
			return err
		}
		verb, rest, _ := strings.Cut(line, " ")
		switch verb {
		case "capabilities":
			err = h.say("fetch\npush\noption\n\n")
		case "option":
			err = h.option(rest)
		case "list":
			err = h.list(ctx, rest == "for-push")
		case "fetch": // everything listed is here already
			var lines []string
			lines, err = h.batch(line)
			if err == nil && h.remote == api.RemoteWithheld {
				err = h.missing(ctx, lines)
			}
			if err == nil {
				err = h.say("\n")
			}
		case "push":
			err = h.push(ctx, line)
		default:
			err = fmt.Errorf("git asks for %q, which is not understood", clean(verb))
		}
		if err != nil {
			return err
		}
	}
}

func (h *remoteHelper) line() (string, error) {
	s, err := h.in.ReadString('\n')
	if errors.Is(err, io.EOF) && s != "" {
		err = nil
	}
	return strings.TrimSuffix(s, "\n"), err
}

func (h *remoteHelper) say(text string) error {
	_, err := io.WriteString(h.out, text)
	return err
}

// batch reads the lines of one kind up to the empty one.
func (h *remoteHelper) batch(first string) ([]string, error) {
	lines := []string{first}
	for {
		line, err := h.line()
		if err != nil || line == "" {
			return lines, err
		}
		if len(lines) >= 1<<20 {
			return nil, fmt.Errorf("git asks for more than %d refs at once", len(lines))
		}
		lines = append(lines, line)
	}
}

func (h *remoteHelper) option(rest string) error {
	name, value, _ := strings.Cut(rest, " ")
	switch name {
	case "dry-run":
		h.dryRun = value == "true"
	case "verbosity":
		h.quiet = value == "0"
	case "progress":
	default:
		return h.say("unsupported\n")
	}
	return h.say("ok\n")
}

func (h *remoteHelper) progress(text string) {
	if !h.quiet {
		fmt.Fprintf(h.errs, "%s\n", cleanText(text))
	}
}

func (h *remoteHelper) list(ctx context.Context, push bool) error {
	if h.remote == api.RemoteWithheld {
		return h.say("\n") // git asks it for objects by their ids
	}
	op := api.RemoteFetch
	if push {
		op = api.RemoteRefs
	}
	res, err := h.ask(ctx, api.RemoteRequest{Op: op, Remote: h.remote}, h.progress)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, r := range res.Refs {
		fmt.Fprintf(&b, "%s %s\n", r.Commit, r.Name)
	}
	if res.Head != "" {
		fmt.Fprintf(&b, "@%s HEAD\n", res.Head)
	}
	return h.say(b.String() + "\n")
}

// push does a batch of "push [+]SRC:DST" and reports the result of each.
func (h *remoteHelper) push(ctx context.Context, first string) error {
	lines, err := h.batch(first)
	if err != nil {
		return err
	}
	req := api.RemoteRequest{Op: api.RemotePush, Remote: h.remote, DryRun: h.dryRun}
	var answer strings.Builder
	for _, line := range lines {
		src, dst, ok := strings.Cut(strings.TrimPrefix(line, "push "), ":")
		if !ok {
			return fmt.Errorf("git asks to push %q, which is not understood", clean(line))
		}
		src, force := strings.CutPrefix(src, "+")
		u := api.RemoteUpdate{Ref: dst, Force: force}
		if src != "" {
			if u.Commit, err = h.resolve(ctx, src); err != nil {
				fmt.Fprintf(&answer, "error %s %s\n", dst, clean(err.Error()))
				continue
			}
		}
		req.Updates = append(req.Updates, u)
	}
	if len(req.Updates) > 0 {
		res, err := h.ask(ctx, req, h.progress)
		if err != nil {
			return err
		}
		for _, u := range req.Updates {
			if why, no := res.Refused[u.Ref]; no {
				fmt.Fprintf(&answer, "error %s %s\n", u.Ref, clean(why))
			} else {
				fmt.Fprintf(&answer, "ok %s\n", u.Ref)
			}
		}
	}
	return h.say(answer.String() + "\n")
}

// missing asks for objects that are not among those the agent's git has: they
// may be new, or withheld.
func (h *remoteHelper) missing(ctx context.Context, lines []string) error {
	req := api.RemoteRequest{Op: api.RemoteObjects, Remote: h.remote}
	for _, l := range lines {
		if f := strings.Fields(l); len(f) > 1 && len(req.Objects) < 1000 {
			req.Objects = append(req.Objects, f[1])
		}
	}
	res, err := h.ask(ctx, req, nil)
	if err != nil {
		return err
	}
	if len(res.Refused) == 0 {
		return nil
	}
	var paths []string
	for _, path := range res.Refused {
		if path != "" {
			paths = append(paths, clean(path))
		}
	}
	slices.Sort(paths)
	paths = slices.Compact(paths)
	what := "an object of the repository"
	if n := len(paths); n > 0 {
		what = strings.Join(paths[:min(n, 3)], ", ")
		if n > 3 {
			what += fmt.Sprintf(" and %d more", n-3)
		}
	}
	return api.Errorf(api.CodeUndeclaredRead, "your reading rules withhold %s", what).
		WithHint("name the paths that you may read (git log -p -- PATH, git diff -- PATH); a merge that renames files is done with git -c merge.renames=false merge; /run/polis/why lists what was withheld")
}

func revParse(ctx context.Context, name string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "--verify", "--quiet", "--end-of-options", name).Output() //nolint:forbidigo // the agent's own git, in the agent's sandbox
	if err != nil {
		return "", fmt.Errorf("%s is nothing that could be pushed", name)
	}
	return strings.TrimSpace(string(out)), nil
}
