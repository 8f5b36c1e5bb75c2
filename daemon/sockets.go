package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"polis/daemon/host/relisten"
	"polis/daemon/http/server"
	"polis/lockd"
)

// socketTick is how often it is checked that the paths of the sockets of polisd lead to them. It costs three system
// calls for each. inotify(7) would use up an instance, of which a machine has few.
const socketTick = time.Second

// newSockets makes what keeps the sockets of polisd.
func (d *Daemon) newSockets() *relisten.Keeper {
	return &relisten.Keeper{Report: func(r relisten.Report) {
		e := r.Event("")
		if d.Systemd && r.Path == d.run.Socket() && r.Err == nil {
			e.Data["hint"] = "systemctl restart polisd.socket: until then clients that connect while polisd restarts are refused"
			e.Message += "; to have systemd hold it again: systemctl restart polisd.socket"
		}
		r.Log(d.Log)
		d.hub.Publish(e)
	}}
}

// keepSockets runs until ctx ends.
func (d *Daemon) keepSockets(ctx context.Context) {
	tick := time.NewTicker(socketTick)
	defer tick.Stop()
	for {
		d.sockets.Check()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// lockSocket makes the socket of the shims' leases.
func (d *Daemon) lockSocket() (net.Listener, error) {
	l, err := lockd.Listen(d.run.LockSocket())
	if err != nil {
		return nil, err
	}
	f, err := relisten.Follow(l, d.run.LockSocket(), relisten.Options{Mode: 0o600})
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	d.sockets.Add(f)
	return f, nil
}

func (d *Daemon) openAPI() error {
	l, err := server.OpenSocket(d.Listener, d.run.Socket(), d.gid)
	if err != nil {
		return fmt.Errorf("admin socket: %w", err)
	}
	d.Listener = l
	d.sockets.Add(l)
	d.sockets.Check()
	readers, err := server.ReadGroup(d.Config.ReadGroup)
	if err != nil {
		return err
	}
	if err := server.AllowGroup(l, readers); err != nil {
		return err
	}
	d.api = &server.Server{Backend: &backend{Daemon: d, Manager: d.agents}, Log: d.Log, GID: server.SocketGroup(l, d.gid), ReadGID: readers}
	d.api.Open()
	return nil
}
