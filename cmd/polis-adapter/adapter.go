package adapter

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"polis/cmd/polis-adapter/acpdriver"
	"polis/cmd/polis-adapter/mcpserver"
	"polis/daemon/api"
	"polis/daemon/http/client"
	"polis/internal/escape"
)

// Run starts the adapter that args, those after the program's name, name, and returns the exit status.
// version is what an MCP client receives.
func Run(args []string, version string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	defer context.AfterFunc(ctx, stop)() // whatever does not end now, the next signal ends
	status, err := run(ctx, args, version)
	if err != nil {
		fmt.Fprintln(os.Stderr, "polis: "+escape.Lines(api.AsError(err).Message))
	}
	return status
}

// run starts the adapter that the first argument names and returns the exit status.
func run(ctx context.Context, args []string, version string) (int, error) {
	if len(args) == 0 {
		return 2, errors.New("polis-adapter is started by polisctl mcp and polisctl acp")
	}
	// Always the sandbox's own socket: a variable must not lead to another.
	c := client.NewInside(client.InsideSocket)
	defer c.Close()
	switch args[0] {
	case "mcp":
		err := mcpserver.Serve(ctx, c, version)
		if errors.Is(err, io.EOF) || ctx.Err() != nil {
			err = nil
		}
		return exit(err), err
	case "acp":
		return drive(ctx, c, args[1:])
	}
	return 2, fmt.Errorf("there is no adapter %q", args[0])
}

// drive gives a task to an ACP agent: --prompt TEXT [--model MODEL] -- COMMAND.
func drive(ctx context.Context, c *client.Inside, args []string) (int, error) {
	flags := flag.NewFlagSet("acp", flag.ContinueOnError)
	prompt := flags.String("prompt", "", "the task")
	model := flags.String("model", "", "the model")
	if err := flags.Parse(args); err != nil {
		return 2, err
	}
	if *prompt == "" || flags.NArg() == 0 {
		return 2, errors.New("polisctl acp needs --prompt TEXT and, after --, the command of an ACP agent")
	}
	dir, err := os.Getwd()
	if err != nil {
		return 1, err
	}
	d := &acpdriver.Driver{Asker: c, Listener: c, Command: flags.Args(), Prompt: *prompt, Model: *model, Dir: dir, Out: os.Stdout, Errors: os.Stderr}
	return d.Run(ctx)
}

func exit(err error) int {
	if err != nil {
		return 1
	}
	return 0
}
