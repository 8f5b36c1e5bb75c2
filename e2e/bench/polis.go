package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"polis/e2e/bench/corpus"
)

// config is polisd's configuration: the defaults, except for directories and the recommended
// transport, and a role with a typical policy.
const config = `run_dir = %[1]q
workspaces_dir = %[2]q
agents_dir = %[3]q
shim = %[4]q
launcher = "fork"
max_agents = %[5]d
[network]
pool = %[6]q
[sandbox]
user = "nobody"
fuse_io_uring = true
extra_mounts = [%[7]s]
[roles.bench]
read = ["**"]
write = ["src/**", "module/**", "bench-out", "bench-out/**", "docs/**", "*.md", "!src/vendor/locked/**", "scripts/*.sh", "**/testdata/**"]
deny = [".env", ".env.*", "secrets/**", "**/id_rsa", "**/*.p12", "deploy/prod/**", ".github/workflows/**", "terraform/**/*.tfstate", "**/credentials.json", "private/"]
hide = ["**/.secret", "ops/keys/**"]
`

// layersConfig makes rules decide about the order of overlay and view: an agent without the role has
// the overlay above. Both change the same files, so a lease ends when the file is closed.
const layersConfig = `
[workspace]
worktree = "shared"
layers = "auto"
[locks]
hold = "close"
`

// polis starts polisd on the corpus, adds the agents, and starts the workers.
func (b *bed) polis(ctx context.Context, goroot string) error {
	mounts := fmt.Sprintf("{ source = %q, dest = %q }", b.path("shared"), sandboxDir)
	if !strings.HasPrefix(goroot, "/usr/") {
		mounts += fmt.Sprintf(", { source = %[1]q, dest = %[1]q, read_only = true }", goroot)
	}
	pool, err := freePool()
	if err != nil {
		return err
	}
	text := fmt.Sprintf(config, b.path("run"), b.path("state"), b.path("agents.d"), filepath.Join(b.bin, "polis-shim"), b.agents+2, pool, mounts)
	if b.layers {
		text += layersConfig
	}
	if err := os.WriteFile(b.path("polisd.toml"), []byte(text), 0o644); err != nil {
		return err
	}
	daemon, err := b.daemon(ctx)
	if err != nil {
		return err
	}
	for _, mount := range b.mounts {
		if err := mount(); err != nil {
			return err
		}
	}
	if err := b.ctl(ctx, "up", "--repo", b.corpus.Dir, b.path("workspace")); err != nil {
		return err
	}
	c := &column{name: "polis", servers: []int{daemon}}
	for i := range b.agents {
		name := fmt.Sprintf("bench%d", i)
		b.say("adding agent %s", name)
		if err := b.ctl(ctx, "agents", "add", name, "--base", "custom", "--role", "bench", "--memory", b.size.memory[min(i, 1)]); err != nil {
			return fmt.Errorf("%w\n%s", err, b.logs())
		}
		s, err := b.start(name, b.environ(goroot))
		if err != nil {
			return err
		}
		b.later(s.close)
		b.workers = append(b.workers, s)
		dir, err := where(ctx, s)
		if err != nil {
			return err
		}
		c.trees, c.branches = append(c.trees, dir), append(c.branches, "agent/"+name)
	}
	above, err := b.above(ctx, goroot)
	if err != nil {
		return err
	}
	shims, err := b.shims()
	if err != nil {
		return err
	}
	if len(shims) < b.agents {
		return fmt.Errorf("found %d shims of %d", len(shims), b.agents)
	}
	c.servers = append(c.servers, shims...)
	// after native, so that polis is the first of the others
	b.columns = append(b.columns[:1], append(append([]*column{c}, above...), b.columns[1:]...)...)
	return nil
}

// above adds an agent whose overlay is above its view, as a column of its own.
func (b *bed) above(ctx context.Context, goroot string) ([]*column, error) {
	if !b.layers {
		return nil, nil
	}
	b.say("adding agent above0")
	had, err := b.shims()
	if err != nil {
		return nil, err
	}
	if err := b.ctl(ctx, "agents", "add", "above0", "--base", "custom", "--memory", b.size.memory[0]); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, b.logs())
	}
	c := &column{name: "above", branches: []string{"agent/above0"}}
	if c.worker, err = b.start("above0", b.environ(goroot)); err != nil {
		return nil, err
	}
	b.later(c.worker.close)
	dir, err := where(ctx, c.worker)
	if err != nil {
		return nil, err
	}
	all, err := b.shims()
	c.trees, c.servers = []string{dir}, slices.DeleteFunc(all, func(pid int) bool { return slices.Contains(had, pid) })
	return []*column{c}, err
}

// environ is the environment of programs in every column.
func (b *bed) environ(goroot string) []string {
	return append(corpus.BuildEnv(sandboxDir+"/gocache"),
		"PATH="+goroot+"/bin:/usr/local/bin:/usr/bin:/bin",
		"GIT_AUTHOR_NAME=Bench", "GIT_AUTHOR_EMAIL=bench@example.com", "GIT_COMMITTER_NAME=Bench", "GIT_COMMITTER_EMAIL=bench@example.com",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=gc.auto", "GIT_CONFIG_VALUE_0=0", "GIT_PAGER=cat")
}

// daemon starts polisd and waits until it answers.
func (b *bed) daemon(ctx context.Context) (int, error) {
	log, err := os.Create(b.path("polisd.log"))
	if err != nil {
		return 0, err
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(b.bin, "polisd"), "--config", b.path("polisd.toml"))
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, "/"
	// An interrupt at the terminal is for this program, which then ends polisd.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	ended, err := background(cmd)
	if err != nil {
		return 0, fmt.Errorf("start polisd: %w", err)
	}
	b.later(func() error { return end("polisd", cmd, ended, time.Minute) })
	err = until(ctx, func() (bool, error) {
		select {
		case err := <-ended:
			ended <- err
			text, _ := os.ReadFile(b.path("polisd.log")) // only to say more
			return false, fmt.Errorf("polisd ended: %w: %s", err, text)
		default:
			return b.ctl(ctx, "status") == nil, nil
		}
	})
	return cmd.Process.Pid, err
}

// ctl runs polisctl.
func (b *bed) ctl(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(b.bin, "polisctl"), args...)
	cmd.Env = append(os.Environ(), "POLIS_SOCKET="+b.path("run", "polisd.sock"))
	cmd.Dir = "/"
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("polisctl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// logs returns the last lines of the logs of polisd and the shims, for a failure.
func (b *bed) logs() string {
	files, _ := filepath.Glob(b.path("run", "agents", "*", "shim.log")) // the pattern is good
	var all strings.Builder
	for _, f := range append(files, b.path("polisd.log")) {
		text, _ := os.ReadFile(f) // a log that cannot be read is not shown
		fmt.Fprintf(&all, "%s:\n%s\n", f, text[max(0, len(text)-2000):])
	}
	return all.String()
}

// background starts a program. The channel gets its result.
func background(cmd *exec.Cmd) (chan error, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return ended, nil
}

// end sends a program SIGTERM, and kills it if it does not end.
func end(what string, cmd *exec.Cmd, ended chan error, wait time.Duration) error {
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end %s: %w", what, err)
	}
	select {
	case err := <-ended:
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	case <-time.After(wait):
		_ = cmd.Process.Kill() // its end is what the next line waits for
		return fmt.Errorf("%s did not end and was killed: %w", what, <-ended)
	}
}

// until polls until f is true or patience is over.
func until(ctx context.Context, f func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := f(); ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
