package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/internal/kmsg"
	"polis/internal/need"
)

// owner is the owner of projects, and therefore the user of agents: nobody.
const owner = 65534

// needRoot skips without root. In CI it fails instead.
func needRoot(t testing.TB) {
	t.Helper()
	need.Root(t)
}

// needProgram skips if name is not installed, and fails in CI.
func needProgram(t testing.TB, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s must be installed in CI: run make setup", name)
	}
	t.Skipf("%s is not installed", name)
}

// bin returns the directory of the programs under test: $POLIS_BIN, or ../bin.
func bin(t testing.TB) string {
	dir := os.Getenv("POLIS_BIN")
	if dir == "" {
		dir = "../bin"
	}
	dir, err := filepath.Abs(dir)
	require.NoError(t, err)
	if _, err := os.Stat(filepath.Join(dir, "polisd")); err != nil {
		t.Fatalf("polisd is not in %s: run make build", dir)
	}
	return dir
}

// daemon is the polisd of a test, with all its directories below dir.
type daemon struct {
	t    testing.TB
	dir  string
	bin  string
	cmd  *exec.Cmd
	done chan error

	env     []string // of polisd, besides its own
	netns   string   // file of the network namespace it runs in; "" for the test's
	wrap    []string // a command that polisd's is an argument of
	scripts int      // made by later
	passwd  string   // file over /etc/passwd, for this polisd only
	printed *lastCall

	// early is a polisd before commit 9146588. It takes a shim for dead whose arguments are not in
	// place yet, so that its add fails on a busy machine.
	early bool
}

type options struct {
	config string   // appended to the configuration
	mounts string   // one more entry of sandbox.extra_mounts
	box    string   // more lines of [sandbox]
	netns  string   // file of the network namespace to run in
	wrap   []string // a command that starts polisd, with less than it needs
	// failpoints has a polisd that dies where die says.
	failpoints bool
	// user makes polisd see a user with this uid, and the home directory path("home"), on the
	// machine.
	user int
	// full keeps POLIS_E2E_WORKTREE out of the configuration, for a polisd that does not know it.
	full bool
	// restores keeps the view above the overlay: the test restores files of a running agent, which the
	// other order refuses (see restorable).
	restores bool
}

// startDaemon starts polisd, and removes everything when the test ends. Mounts and processes that
// remain then fail the test.
func startDaemon(t testing.TB, o options) *daemon {
	t.Helper()
	needRoot(t)
	// Short, because a socket's path is bounded; searchable, because agents are not root.
	dir, err := os.MkdirTemp("/tmp", "polis-e2e-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	d := &daemon{t: t, dir: dir, bin: bin(t), netns: o.netns, wrap: o.wrap, printed: &lastCall{}}
	if o.failpoints {
		d.bin, d.env = d.withFailpoints(), []string{"POLIS_FAILPOINT=" + d.path("failpoint")}
	}
	if o.user != 0 {
		d.passwd = d.path("passwd")
		d.write("passwd", readFile("/etc/passwd")+fmt.Sprintf("polis-test:*:%d:%d::%s:/bin/sh\n", o.user, o.user, d.path("home")))
	}
	// POLIS_E2E_WORKTREE=shared runs any test with worktrees that are layers, and above with the overlay
	// above the view where the rules allow it.
	if kind := os.Getenv("POLIS_E2E_WORKTREE"); kind != "" && !o.full {
		o.config = ordered(o.config, kind, o.restores)
	}
	if strings.Contains(o.config, `layers = "auto"`) {
		kmsg.NoWarnings(t) // of the overlays above the views
	}
	if !strings.Contains(o.config, "[locks]") {
		o.config += "\n[locks]\nwait = \"300ms\"\ngrace = \"2s\"\n"
	}
	var mounts []string
	if root := goroot(t); !strings.HasPrefix(root, "/usr/") {
		mounts = append(mounts, fmt.Sprintf("{ source = %q, dest = %q, read_only = true }", root, root))
	}
	if o.mounts != "" {
		mounts = append(mounts, o.mounts)
	}
	head := fmt.Sprintf("run_dir = %q\nworkspaces_dir = %q\nagents_dir = %q\nshim = %q\nlauncher = \"fork\"\nlog_level = \"debug\"\n",
		d.path("run"), d.path("state"), d.path("agents.d"), filepath.Join(d.bin, "polis-shim"))
	if !strings.Contains(o.config, "max_agents") {
		head += "max_agents = 12\n"
	}
	tail := "\n[sandbox]\nuser = \"nobody\"\nextra_mounts = [" + strings.Join(mounts, ", ") + "]\n" + o.box + "\n"
	if !strings.Contains(o.config, "[network]") {
		tail += fmt.Sprintf("[network]\npool = \"10.%d.0.0/16\"\n", 220+os.Getpid()%20)
	}
	d.write("polisd.toml", head+o.config+tail)
	t.Cleanup(d.remove)
	d.start()
	return d
}

// ordered is a configuration with the order of worktree that POLIS_E2E_WORKTREE names, unless it has one of its own.
func ordered(config, kind string, restores bool) string {
	if regexp.MustCompile(`(?m)^(worktree|layers) =`).MatchString(config) {
		return config
	}
	layers := "view"
	if kind == "above" {
		kind = "shared"
		if !restores {
			layers = "auto"
		}
	}
	keys := fmt.Sprintf("[workspace]\nworktree = %q\nlayers = %q\n", kind, layers)
	if !strings.Contains(config, "[workspace]\n") {
		return config + "\n" + keys
	}
	return strings.Replace(config, "[workspace]\n", keys, 1)
}

func (d *daemon) path(elem ...string) string {
	return filepath.Join(append([]string{d.dir}, elem...)...)
}

func (d *daemon) write(name, text string) {
	d.t.Helper()
	require.NoError(d.t, os.WriteFile(d.path(name), []byte(text), 0o644))
}

// start runs polisd and waits until it answers.
func (d *daemon) start() {
	d.t.Helper()
	d.launch()
	require.Eventually(d.t, func() bool {
		select {
		case err := <-d.done:
			d.done <- err
			return true
		default:
			return d.ctl("-q", "status").code == 0
		}
	}, patience, 50*time.Millisecond)
	if r := d.ctl("-q", "status"); r.code != 0 {
		d.t.Fatalf("polisd does not answer: %s\n%s", r.stderr, d.log())
	}
}

// launch runs polisd.
func (d *daemon) launch() {
	d.t.Helper()
	log, err := os.OpenFile(d.path("polisd.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	require.NoError(d.t, err)
	defer log.Close()
	args := append(slices.Clone(d.wrap), filepath.Join(d.bin, "polisd"), "--config", d.path("polisd.toml"))
	if d.netns != "" {
		args = append([]string{"nsenter", "--net=" + d.netns}, args...) // becomes polisd
	}
	d.cmd = exec.Command(args[0], args[1:]...)
	if d.passwd != "" {
		d.cmd = withPasswd(d.passwd, args...)
	}
	d.cmd.Stdout, d.cmd.Stderr = log, log
	d.cmd.Env = append(os.Environ(), d.env...)
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(d.t, d.cmd.Start())
	d.done = make(chan error, 1)
	go func(cmd *exec.Cmd, done chan<- error) { done <- cmd.Wait() }(d.cmd, d.done)
}

// withPasswd runs a program in a mount namespace of its own where a file is
// /etc/passwd.
func withPasswd(file string, args ...string) *exec.Cmd {
	return exec.Command("unshare", append([]string{"--mount", "sh", "-ec", `mount --bind "$0" /etc/passwd; exec "$@"`, file}, args...)...)
}

// signal sends s to polisd and waits for its end.
func (d *daemon) signal(s syscall.Signal) error {
	d.t.Helper()
	require.NoError(d.t, d.cmd.Process.Signal(s))
	select {
	case err := <-d.done:
		d.done <- err
		return err
	case <-time.After(patience):
		d.t.Fatalf("polisd does not end after %v", s)
		return nil
	}
}

// stop ends polisd and its agents, and requires a clean end.
func (d *daemon) stop() {
	d.t.Helper()
	if err := d.signal(syscall.SIGTERM); err != nil {
		d.t.Errorf("polisd ended with %v", err)
	}
}

func (d *daemon) remove() {
	if d.t.Failed() { // the end of an agent removes its log
		for _, f := range glob(d.path("run", "agents", "*", "shim.log")) {
			b, _ := os.ReadFile(f)
			d.t.Logf("%s:\n%s", f, b)
		}
	}
	select {
	case err := <-d.done: // a test that ended it on purpose, or a crash
		d.done <- err
		if d.living() > 0 {
			// Shims continue without a daemon. Only another daemon stops them in order.
			d.start()
			d.stop()
		}
	default:
		d.stop()
	}
	if d.t.Failed() {
		d.t.Logf("polisd's log:\n%s", d.log())
	}
	if left := d.mounts(); len(left) > 0 {
		d.t.Errorf("left mounted: %s", strings.Join(left, ", "))
		return // never delete through a mount
	}
	if n := d.living(); n > 0 {
		d.t.Errorf("%d shims are left", n)
	}
	if err := os.RemoveAll(d.dir); err != nil {
		d.t.Errorf("remove: %v", err)
	}
}

func glob(pattern string) []string {
	m, _ := filepath.Glob(pattern)
	return m
}

// mounts lists what is mounted below the test's directory.
func (d *daemon) mounts() []string {
	b, _ := os.ReadFile("/proc/self/mounts")
	var left []string
	for _, line := range strings.Split(string(b), "\n") {
		if f := strings.Fields(line); len(f) > 2 && strings.HasPrefix(f[1], d.dir+"/") {
			left = append(left, f[1])
		}
	}
	return left
}

// living counts this test's shims.
func (d *daemon) living() int {
	n := 0
	for _, f := range glob("/proc/[0-9]*/cmdline") {
		b, _ := os.ReadFile(f)
		args := strings.Split(string(b), "\x00")
		if len(args) > 2 && strings.HasSuffix(args[0], "polis-shim") && strings.HasPrefix(args[2], d.dir+"/") {
			n++
		}
	}
	return n
}

func (d *daemon) log() string {
	b, _ := os.ReadFile(d.path("polisd.log"))
	if len(b) > 16<<10 {
		b = b[len(b)-16<<10:]
	}
	return string(b)
}

// result is what a command did.
type result struct {
	stdout, stderr string
	code           int
}

func (r result) String() string {
	return fmt.Sprintf("exit %d\nstdout: %s\nstderr: %s", r.code, r.stdout, r.stderr)
}

// ctl runs polisctl.
func (d *daemon) ctl(args ...string) result { return d.ctlInput("", args...) }

func (d *daemon) ctlInput(stdin string, args ...string) result {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(d.bin, "polisctl"), args...)
	cmd.Env = append(os.Environ(), "POLIS_SOCKET="+d.path("run", "polisd.sock"))
	cmd.Dir = "/"
	return d.printed.note(args, capture(cmd, stdin))
}

func capture(cmd *exec.Cmd, stdin string) result {
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if stdin != "" {
		cmd.Stdin = strings.NewReader(stdin)
	}
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	r := result{stdout: out.String(), stderr: errs.String()}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		r.code = exit.ExitCode()
	case err != nil:
		r.code = -1
		r.stderr += err.Error()
	}
	return r
}

// ctlIn runs polisctl in a directory.
func (d *daemon) ctlIn(dir string, args ...string) result {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(d.bin, "polisctl"), args...)
	cmd.Env = append(os.Environ(), "POLIS_SOCKET="+d.path("run", "polisd.sock"))
	cmd.Dir = dir
	return d.printed.note(args, capture(cmd, ""))
}

// must runs polisctl and requires success.
func (d *daemon) must(args ...string) string {
	d.t.Helper()
	r := d.ctl(args...)
	require.Zero(d.t, r.code, "polisctl %s: %s", strings.Join(args, " "), r)
	return r.stdout
}

// refused runs polisctl --json and requires the error code.
func (d *daemon) refused(code api.Code, args ...string) api.Error {
	d.t.Helper()
	r := d.ctl(append([]string{"--json"}, args...)...)
	require.NotZero(d.t, r.code, "polisctl %s should have failed: %s", strings.Join(args, " "), r)
	var e struct {
		api.Error
		Err *api.Error `json:"error"`
	}
	text := r.stderr[strings.LastIndex(strings.TrimSpace(r.stderr), "\n")+1:] // progress may come before
	require.NoError(d.t, json.Unmarshal([]byte(text), &e), "polisctl %s: %s", strings.Join(args, " "), r)
	if e.Err != nil {
		e.Error = *e.Err
	}
	require.Equal(d.t, code, e.Code, "polisctl %s: %s", strings.Join(args, " "), r)
	require.NotEmpty(d.t, e.Message)
	return e.Error
}

// exec runs a command in an agent.
func (d *daemon) exec(agent string, command ...string) result {
	return d.ctl(append([]string{"agents", "exec", agent, "--"}, command...)...)
}

// sh runs a shell script in an agent and requires success; its standard output comes back.
func (d *daemon) sh(agent, script string) string {
	d.t.Helper()
	r := d.exec(agent, "sh", "-ec", script)
	require.Zero(d.t, r.code, "in %s: %s\n%s", agent, script, r)
	return r.stdout
}

// add adds an agent and returns it.
func (d *daemon) add(name string, flags ...string) api.Agent {
	d.t.Helper()
	args := append([]string{"--json", "agents", "add", name, "--base", "custom"}, flags...)
	r := d.ctl(args...)
	for again := 0; d.early && again < 10 && strings.Contains(r.stdout+r.stderr, "ended at once"); again++ {
		r = d.ctl(args...)
	}
	require.Zero(d.t, r.code, "polisctl %s: %s", strings.Join(args, " "), r)
	out := r.stdout
	var a api.Agent
	require.NoError(d.t, json.Unmarshal([]byte(out), &a), out)
	return a
}

func (d *daemon) agent(name string) (api.Agent, bool) {
	d.t.Helper()
	var list struct{ Agents []api.Agent }
	require.NoError(d.t, json.Unmarshal([]byte(d.must("--json", "agents", "list")), &list))
	for _, a := range list.Agents {
		if a.Name == name {
			return a, true
		}
	}
	return api.Agent{}, false
}

// locks lists the leases. A lease that an agent takes in a delegated directory is listed within 100
// ms.
func (d *daemon) locks() map[string]api.Lock {
	d.t.Helper()
	time.Sleep(150 * time.Millisecond)
	var list struct{ Locks []api.Lock }
	require.NoError(d.t, json.Unmarshal([]byte(d.must("--json", "locks")), &list))
	m := map[string]api.Lock{}
	for _, l := range list.Locks {
		m[l.Path] = l
	}
	return m
}

// heldBy waits until the list has the agent's lease of a path. The lease itself must have been
// taken: its file is written, and only the list may be late.
func (d *daemon) heldBy(agent, path string) {
	d.t.Helper()
	d.eventually(agent+" to hold "+path, func() bool { return d.locks()[path].Holder == agent })
}

func (d *daemon) ports(agent string) map[int]api.PortMapping {
	d.t.Helper()
	var list struct{ Ports []api.PortMapping }
	require.NoError(d.t, json.Unmarshal([]byte(d.must("--json", "ports", "list")), &list))
	m := map[int]api.PortMapping{}
	for _, p := range list.Ports {
		if p.Agent == agent {
			m[p.Internal] = p
		}
	}
	return m
}

// git runs git on the host, in a directory that may belong to another user.
func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "safe.directory=*", "-c", "gc.autoDetach=false", "-c", "user.name=Host", "-c", "user.email=host@example.com", "-C", dir}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "git %s: %s", strings.Join(args, " "), out)
	return string(out)
}

// smallRepo makes a repository of a few files, owned by the user nobody.
func (d *daemon) smallRepo() string {
	d.t.Helper()
	dir := d.path("src")
	files := map[string]string{
		"README.md": "# small\n", "main.txt": "one\ntwo\nthree\n", "src/a.txt": "a\n", "src/b.txt": "b\n", "src/deep/er/c.txt": "c\n",
		"docs/guide.md": "guide\n", "secret/key.txt": "secret\n", ".gitignore": "/build/\n*.log\nnode_modules/\n", "run.sh": "#!/bin/sh\necho run\n",
	}
	for name, text := range files {
		require.NoError(d.t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(d.t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	require.NoError(d.t, os.Chmod(filepath.Join(dir, "run.sh"), 0o755))
	git(d.t, dir, "init", "-q", "-b", "main")
	git(d.t, dir, "add", "-A")
	git(d.t, dir, "commit", "-q", "-m", "Start")
	d.giveAway(dir)
	return dir
}

func (d *daemon) giveAway(dir string) {
	d.t.Helper()
	require.NoError(d.t, filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(p, owner, owner))
	}))
}

// up puts a small repository under polis and returns the project's path.
func (d *daemon) up() string {
	d.t.Helper()
	repo := d.smallRepo()
	d.must("up", "--repo", repo, d.path("ws"))
	return repo
}

func readFile(path string) string {
	b, _ := os.ReadFile(path)
	return string(b)
}

// polisd runs another polisd to its end.
func (d *daemon) polisd(args ...string) result {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return capture(exec.CommandContext(ctx, filepath.Join(d.bin, "polisd"), args...), "")
}

// owns is the user a file belongs to.
func owns(fi os.FileInfo) uint32 { return fi.Sys().(*syscall.Stat_t).Uid }

// goroot is where the go command on the path has its sources and tools.
func goroot(t testing.TB) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	require.NoError(t, err, "go must be on the path")
	return strings.TrimSpace(string(out))
}
