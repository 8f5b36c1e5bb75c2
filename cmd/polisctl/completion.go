package main

import (
	"bytes"
	"io"

	"github.com/spf13/cobra"

	"polis/daemon/api"
)

func (a *app) completionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print the completion script of a shell",
		Long: `Print the completion script of a shell. To use it now:

  bash:  source <(polisctl completion bash)
  zsh:   source <(polisctl completion zsh)
  fish:  polisctl completion fish | source`,
		Args:              takes(1, 1, "bash, zsh or fish"),
		ValidArgsFunction: completeWords("bash", "zsh", "fish"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var buf bytes.Buffer
			if err := completion(cmd.Root(), args[0], &buf); err != nil {
				return err
			}
			return a.write(buf.Bytes())
		},
	}
}

func completion(root *cobra.Command, shell string, w io.Writer) error {
	var err error
	switch shell {
	case "bash":
		err = root.GenBashCompletionV2(w, true)
	case "zsh":
		err = root.GenZshCompletion(w)
	case "fish":
		err = root.GenFishCompletion(w, true)
	default:
		return usagef("shell %q is not known: bash, zsh or fish", clean(shell))
	}
	if err != nil {
		return api.Errorf(api.CodeInternal, "completion of %s: %w", shell, err)
	}
	return nil
}
