package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"polis/daemon/http/client"
)

func (a *app) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version of polisctl and, if it runs, of polisd",
		Args:  takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.call(cmd, 2*time.Second, func(ctx context.Context, c *client.Client) error {
				out := struct {
					Client string `json:"client"`
					Server string `json:"server,omitempty"`
				}{Client: version}
				st, err := c.Status(ctx)
				if err == nil {
					out.Server = st.Version
				}
				return a.show(view{json: out, names: []string{version}, human: func(p *page) {
					p.line("polisctl %s", out.Client)
					if err != nil {
						p.line("polisd   unknown: %v", err)
					} else {
						p.line("polisd   %s", out.Server)
					}
				}})
			})
		},
	}
}
