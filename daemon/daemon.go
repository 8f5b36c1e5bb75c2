package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"polis/cgroup"
	"polis/daemon/agent"
	"polis/daemon/agent/models"
	"polis/daemon/agent/race"
	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/git/gitgroup"
	"polis/daemon/history/receipt"
	"polis/daemon/host/isolation"
	"polis/daemon/host/relisten"
	"polis/daemon/http/metrics"
	"polis/daemon/http/proxy"
	"polis/daemon/http/server"
	"polis/daemon/launch"
	"polis/daemon/patrol/cases"
	"polis/daemon/patrol/notify"
	"polis/daemon/store"
	"polis/daemon/store/events"
	"polis/daemon/store/layout"
	"polis/daemon/workspace/daemonlock"
	"polis/internal/failpoint"
	"polis/lockd"
	"polis/netbridge"
)

// Daemon is polisd. Set the fields, then Open; Serve until it should stop; Close with or without
// the agents; Release the run directory. Halt may be called at any time.
type Daemon struct {
	// Config is the configuration at the start. live returns the one of the last reload.
	Config     config.Config
	ConfigFile string
	Log        *slog.Logger
	Version    string
	// Listener is the admin socket when systemd made it; nil: Open makes it.
	Listener net.Listener
	// Systemd: systemd started us and shims are units.
	Systemd bool

	halted   atomic.Bool // Halt was called
	run      layout.Run
	started  time.Time
	lock     *daemonlock.Lock
	held     []*daemonlock.Lock // of workspaces_dir
	hub      *events.Hub
	receipts *receipt.Recorder
	locks    *lockd.Server
	sockets  *relisten.Keeper
	bridge   *netbridge.Bridge
	cg       *cgroup.Host
	gits     *gitgroup.Groups // nil: git is not charged to agents
	shims    *launch.Shims
	agents   *agent.Manager
	api      *server.Server
	proxy    *proxy.Proxy // nil if there is none
	metrics  *metrics.Metrics
	// metricsPort serves them on a loopback port; nil if there is none.
	metricsPort *metrics.Server
	desktop     notify.Desktop
	gid         int

	mu         sync.Mutex
	liveConfig config.Config // as it was read last; see live
	workspaces map[string]*workspace
	scanTurn   chan struct{} // one conflict scan at a time
	setupTurn  chan struct{} // one setup command at a time
	aheadTurn  chan struct{} // one large tree is read ahead at a time
	upLock     sync.Mutex
	warnings   []string
	reconciled *api.ReconcileReport
	upkeep     *upkeep
	patrol     *patroller
	cases      *cases.Book
	races      *race.Runner
	recordings *models.Sweeper
	modelBook  models.Book // what agents used of model services
}

// Open takes the run directory, brings up locks and network, and restores the workspaces. On an
// error everything is undone.
func (d *Daemon) Open(ctx context.Context) (err error) {
	d.run, d.started, d.liveConfig = layout.Run(d.Config.RunDir), time.Now(), d.Config
	d.workspaces, d.scanTurn, d.setupTurn, d.aheadTurn = map[string]*workspace{}, make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1)
	if err := d.checkSelf(); err != nil {
		return err
	}
	if err := d.prepareDirs(); err != nil {
		return err
	}
	if err := d.takeDirs(ctx); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close(context.WithoutCancel(ctx), false), d.Release())
		}
	}()
	d.hub = events.New(events.Reserve(filepath.Join(d.Config.WorkspacesDir, "events.json"), d.started, d.Log))
	d.sockets = d.newSockets()
	d.openReceipts(ctx)
	d.openCases()
	d.patrol, d.metrics = newPatroller(d), metrics.New(d.measured)
	d.races, d.recordings = d.newRaces(), d.newRecordings()
	if d.cg, err = cgroup.Detect(); err != nil {
		return api.Errorf(api.CodeCgroupFailed, "find the control groups: %w", err).WithHint("polis needs cgroup v2 or the memory and pids controllers of v1")
	}
	if err := d.openBridge(); err != nil {
		return networkFailed(err)
	}
	if err := d.openShims(ctx); err != nil {
		return err
	}
	if err := d.openNetwork(ctx); err != nil {
		return networkFailed(err)
	}
	if d.gits, err = d.shims.OpenGits(ctx); err != nil {
		return api.Errorf(api.CodeCgroupFailed, "%w", err).WithHint("a process there cannot be killed: ps -eo pid,stat,wchan,args shows what it waits for")
	}
	d.shims.ReloadTotals(ctx)
	d.refreshSetups()
	d.shims.EnableFuseRings()
	if err := d.openLocks(ctx); err != nil {
		return fmt.Errorf("lockd: %w", err)
	}
	lo, hi := d.Config.PortRange()
	ports, err := launch.NewPorts(lo, hi)
	if err != nil {
		return fmt.Errorf("ports: %w", err)
	}
	d.agents = &agent.Manager{Config: d.Config, Types: d.Types, Type: d.baseType, Shims: d.shims, Watch: launch.NewObserver(d.shims), Locks: d, Ports: ports, State: d, Answers: d, Events: d.hub, Log: d.Log, Now: time.Now, Capacity: d.shims.Capacity, Crash: failpoint.Hit,
		Gate: d.shims.OpenGate, Blocked: d.shims.Blocked, Resources: []agent.Resource{worktrees{d}, d.shims.Network()}, Lost: d.shims.Missing(), Halted: d.halted.Load, Froze: d.froze, AskLost: d.askLost, LostDecided: d.lostDecided, BeforeTask: d.beforeTask, BeforeRebase: d.beforeRebase, Over: d.patrol.trigger, FollowOpens: d.followOpens, Prepare: d.prepareCheckpoints, Refused: d.refused}
	d.agents.Open(ctx)
	d.openProxy(ctx)
	d.openMetrics(ctx)
	d.reconcile(ctx)
	d.openSetups(ctx)
	d.startUpkeep(ctx)
	if !d.halted.Load() {
		d.races.Open(ctx)
	}
	d.dropStrayLocks()
	return d.openAPI()
}

// Halt stops the daemon as soon as Open has returned: Open then adopts running agents, so that
// Close can stop them, and starts none.
func (d *Daemon) Halt() { d.halted.Store(true) }

func (d *Daemon) checkSelf() error {
	if os.Geteuid() != 0 {
		return api.Errorf(api.CodeForbidden, "polisd must run as root: it makes mounts, namespaces and control groups").WithHint("sudo systemctl start polisd")
	}
	return nil
}

func (d *Daemon) openNetwork(ctx context.Context) error {
	if d.shims.Lacks(isolation.Network) {
		return nil
	}
	return d.bridge.EnsureShared(ctx)
}

// networkFailed is the error of a machine on which agents have no network.
func networkFailed(err error) error {
	return api.Errorf(api.CodeBridgeFailed, "set up the network: %w", err).
		WithHint("polis needs bridge, veth and nftables, and CAP_NET_ADMIN: polisctl doctor shows what is missing")
}

func (d *Daemon) openBridge() (err error) {
	pool, err := netip.ParsePrefix(d.Config.Network.Pool)
	if err != nil {
		return err
	}
	d.bridge, err = netbridge.New(netbridge.Config{Instance: d.Config.Instance(), Pool: pool, NetnsDir: d.run.NetNS(), Log: d.Log})
	return err
}

func (d *Daemon) openLocks(ctx context.Context) error {
	d.locks = lockd.New()
	d.locks.Log = d.Log
	d.locks.StaleTimeout, d.locks.Grace = time.Duration(d.Config.Locks.StaleTimeout), time.Duration(d.Config.Locks.Grace)
	d.locks.GraceWait = time.Duration(d.Config.Locks.DaemonWait) // waiting for leases is waiting for polisd
	d.locks.ExplicitMax = time.Duration(d.Config.Locks.ExplicitMax)
	d.locks.OnEvent, d.locks.OnChanges, d.locks.Delegate = d.lockEvent, d.leasesChanged, d.Config.Locks.Delegate
	d.locks.Living = d.shims.Lives
	// Earlier holders of leases reclaim them first; without any there is nothing to wait for.
	alive, err := d.shims.Living(ctx)
	if err != nil {
		return err
	}
	d.keepLocks(alive)
	if d.locks.Listener, err = d.lockSocket(); err != nil {
		return err
	}
	if err := d.locks.Open(); err != nil {
		return errors.Join(err, d.locks.Listener.Close())
	}
	d.locks.Expect(alive)
	return nil
}

// Serve answers the API until Close.
func (d *Daemon) Serve() error { return d.api.Serve(d.Listener) }

// Reload reads the configuration again; settings that need a restart are unchanged and named.
func (d *Daemon) Reload() error {
	c, err := config.Load(d.ConfigFile)
	if err != nil {
		return err
	}
	if _, err := config.LoadTypes(c.AgentsDir, c.Sandbox); err != nil {
		return err
	}
	d.mu.Lock()
	c, restart := d.liveConfig.Reloaded(c)
	d.liveConfig = c
	d.mu.Unlock()
	d.agents.SetConfig(c)
	d.shims.RenewModels()
	d.agents.Refresh()
	d.shims.TestForwarding()
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	d.shims.ReloadTotals(ctx)
	if restart {
		d.Log.Warn("run_dir, workspaces_dir, launcher, read_group, network.pool, network.ports, network.bind and network.proxy need a restart of polisd")
	}
	d.Log.Info("configuration was read again", "path", d.ConfigFile)
	return nil
}

func (d *Daemon) live() config.Config {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.liveConfig
}

// DropAgent releases the leases of an agent whose shim is gone.
func (d *Daemon) DropAgent(name string) { d.locks.DropAgent(name) }

// ReleaseMerge releases what an agent holds until its changes are merged.
func (d *Daemon) ReleaseMerge(name string) { d.locks.ReleaseMerge(name) }

// Save writes the state of a workspace (agent.Saver).
func (d *Daemon) Save(name string, kept []store.Agent, removed []store.Removed) error {
	d.mu.Lock()
	w, ok := d.workspaces[name]
	d.mu.Unlock()
	if !ok {
		return nil
	}
	d.updateBranches(w, kept)
	return w.save(kept, removed, d.apiLocks(name))
}
