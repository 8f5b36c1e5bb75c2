package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"polis/cmd/internal/modeltext"
	"polis/daemon/api"
	"polis/daemon/http/client"
	"polis/internal/pause"
)

// sample is one look of top: what is used, and how fast since the one before.
type sample struct {
	api.Top
	// Rates are by the name of the agent; that of all is "".
	Rates map[string]rate `json:"rates"`
}

// rate is a use per second.
type rate struct {
	CPUPercent float64 `json:"cpu_percent"`      // 100 is one processor
	ShimCPU    float64 `json:"shim_cpu_percent"` // of the process that serves its files
	Read       float64 `json:"read_bytes"`
	Write      float64 `json:"write_bytes"`
	Tokens     float64 `json:"tokens,omitempty"` // of model services
}

func (a *app) topCmd() *cobra.Command {
	var count int
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "top [-n N] [--every DURATION]",
		Short: "Show what agents use: processor, memory, disks, processes, files",
		Long: `Show the resource use of every running agent, and of all together: processor time
(100% is one processor), memory, disks, processes, open files, and pressure: the
share of the last ten seconds in which something waited for processor, memory or
disks. SHIM is the processor time of the process that serves the agent's files.
TOKENS and COST are of model services behind the gateway, if there is one.
An agent that reached a limit within the last minute is marked. An agent that waits for
an answer or for a lock, or is frozen, is named below the table, with the time and the reason.
What the figures mean for an agent that is slow, and what to set: docs/guide/slow.md.

On a terminal it continues until interrupted; otherwise it prints one sample. With
--json there is an object for each sample, one line each if there are several.`,
		Args: takes(0, 0, ""),
	}
	cmd.Flags().IntVarP(&count, "number", "n", 0, "end after `N` samples (default: on a terminal never, else 1)")
	cmd.Flags().DurationVarP(&every, "every", "d", time.Second, "`DURATION` of a sample")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if count < 0 || cmd.Flags().Changed("number") && count == 0 {
			return usagef("--number %d is not valid: at least 1", count)
		}
		if err := checkDuration("--every", every, 100*time.Millisecond, time.Hour); err != nil {
			return err
		}
		terminal := isTerminal(a.stdout) && !a.json
		if count == 0 && !terminal {
			count = 1
		}
		return a.follow(cmd, func(ctx context.Context, c *client.Client) error {
			return a.top(ctx, c, count, every, terminal)
		})
	}
	return cmd
}

// top prints samples; count 0 is without end. Each needs one before it.
func (a *app) top(ctx context.Context, c *client.Client, count int, every time.Duration, terminal bool) error {
	look := func() (t api.Top, err error) {
		ctx, cancel := context.WithTimeout(ctx, shortCall)
		defer cancel()
		return c.Top(ctx)
	}
	last, err := look()
	if err != nil {
		return err
	}
	back := reconnect{now: a.now}
	for n := 0; count == 0 || n < count; {
		if !pause.For(ctx, every) {
			return api.Errorf(api.CodeTimeout, "%w", context.Cause(ctx))
		}
		now, err := look()
		if err != nil && api.CodeOf(err) == api.CodeUnavailable && back.again(ctx, 0) {
			continue // polisd is being restarted
		}
		if err != nil {
			return err
		}
		back.answered()
		if err := a.showTop(rated(last, now), count == 1, terminal && count != 1); err != nil {
			return err
		}
		last = now
		n++
	}
	return nil
}

func (a *app) showTop(s sample, one, redraw bool) error {
	if a.json && !one {
		return encode(a.stdout, s, "")
	}
	v := view{json: s, human: func(p *page) { topTable(p, s) }}
	for _, g := range s.Agents {
		v.names = append(v.names, g.Name)
	}
	if !redraw {
		return a.show(v)
	}
	_, err := a.redraw(v, nil)
	return err
}

// rated is the second of two samples with what happened between them.
func rated(before, now api.Top) sample {
	s := sample{Top: now, Rates: map[string]rate{}}
	if s.Agents == nil {
		s.Agents = []api.TopAgent{}
	}
	seconds := now.Time.Sub(before.Time).Seconds()
	if seconds <= 0 {
		return s
	}
	per := func(from, to uint64) float64 {
		if to < from { // started again in between
			from = 0
		}
		return float64(to-from) / seconds
	}
	old := map[string]api.TopAgent{}
	for _, g := range before.Agents {
		old[g.Name] = g
	}
	var all rate
	for _, g := range now.Agents {
		o, ok := old[g.Name]
		if !ok {
			continue
		}
		r := rate{CPUPercent: per(o.CPUMicros, g.CPUMicros) / 1e4, ShimCPU: per(o.Shim.CPUMicros, g.Shim.CPUMicros) / 1e4,
			Read: per(o.ReadBytes, g.ReadBytes), Write: per(o.WriteBytes, g.WriteBytes), Tokens: per(tokensOf(o), tokensOf(g))}
		s.Rates[g.Name] = r
		all.CPUPercent += r.CPUPercent
		all.ShimCPU += r.ShimCPU
		all.Read += r.Read
		all.Write += r.Write
		all.Tokens += r.Tokens
	}
	s.Rates[""] = all
	return s
}

func topTable(p *page, s sample) {
	var shims uint64
	for _, g := range s.Agents {
		shims += g.Shim.MemoryBytes
	}
	p.line("agents %d, processors %d, memory %s of %s free; polisd %s, shims %s", len(s.Agents), s.Host.CPUs, size(int64(s.Host.AvailableBytes)), size(int64(s.Host.MemoryBytes)),
		size(int64(s.Polisd.MemoryBytes)), size(int64(shims)))
	models := slices.ContainsFunc(s.Agents, func(g api.TopAgent) bool { return g.Models != nil })
	row := func(name cell, u api.Use, memory int64, pids int, r rate, pressure string, m *api.ModelUse) []cell {
		cells := []cell{name, {text: fmt.Sprintf("%.0f%%", r.CPUPercent)}, {text: fmt.Sprintf("%.0f%%", r.ShimCPU)}, {text: of(size(int64(u.MemoryBytes)), size(memory))},
			{text: speed(r.Read)}, {text: speed(r.Write)}, {text: of(fmt.Sprint(u.Pids), limitText(pids))}, {text: fmt.Sprint(u.OpenFiles)}, {text: pressure}}
		if models {
			cells = append(cells, cell{text: tokenSpeed(r.Tokens)})
		}
		return withModels(models, m, cells)
	}
	var rows [][]cell
	for _, g := range s.Agents {
		pressure := ""
		if g.Pressure != nil {
			pressure = fmt.Sprintf("%.0f %.0f %.0f", g.Pressure.CPU, g.Pressure.Memory, g.Pressure.IO)
		}
		rows = append(rows, row(atLimit(cell{text: g.Name}, g.LimitHits, p.now), g.Use, g.MemoryLimitBytes, g.PidsLimit, s.Rates[g.Name], pressure, g.Models))
	}
	if len(rows) > 0 {
		l := s.TotalLimits
		rows = append(rows, row(cell{"all", bold}, s.Total, l.MemoryBytes, l.Pids, s.Rates[""], "", allModels(s.Agents)))
	}
	heads := []string{"AGENT", "CPU", "SHIM", "MEMORY", "READ", "WRITE", "PIDS", "FILES", "PRESSURE"}
	if models {
		heads = append(heads, "TOKENS/S")
	}
	p.table("no agent lives", modelHeads(models, heads...), rows)
	for _, g := range s.Agents {
		if g.Waiting != nil {
			p.line("%s", waitingText(p, g.Name, g.Waiting))
		}
	}
}

// tokensOf returns the tokens that an agent has used.
func tokensOf(g api.TopAgent) uint64 {
	if g.Models == nil {
		return 0
	}
	return uint64(g.Models.Tokens())
}

// allModels is the sum of what agents used of model services.
func allModels(agents []api.TopAgent) *api.ModelUse {
	var sum api.ModelUse
	for _, g := range agents {
		if u := g.Models; u != nil {
			sum.Add(*u)
		}
	}
	return &sum
}

func tokenSpeed(perSecond float64) string {
	if perSecond < 1 {
		return "-"
	}
	return modeltext.Tokens(int64(perSecond)) + "/s"
}

func limitText(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func speed(perSecond float64) string {
	if perSecond < 1 {
		return "-"
	}
	return size(int64(perSecond)) + "/s"
}

// of is a use and its limit, if there is one.
func of(use, limit string) string {
	if limit == "-" {
		return use
	}
	return use + "/" + limit
}
