package doctor

import (
	"context"
	"fmt"
	"os"
	"strings"

	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/host/firewall"
	"polis/netbridge"
)

const ipForward = "/proc/sys/net/ipv4/ip_forward"

// forwarding finds out whether packets of agents leave this host: by one of them, if a polisd has made the bridge.
func (d *Doctor) forwarding(ctx context.Context) api.Check {
	const name = "forwarding"
	b, err := os.ReadFile(ipForward)
	if err != nil {
		return bad(name, api.CheckWarn, err.Error(), "unknown whether agents reach the network outside", "mount /proc for polisd").without(ofTheContainer)
	}
	found := "on"
	if strings.TrimSpace(string(b)) == "0" {
		f, err := os.OpenFile(ipForward, os.O_WRONLY, 0)
		if err != nil {
			return bad(name, api.CheckFail, fmt.Sprintf("off, and polisd could not switch it on: %v", err), "agents do not reach the network outside", "sysctl net.ipv4.ip_forward=1, or make /proc/sys writable for polisd").by("sudo sysctl net.ipv4.ip_forward=1")
		}
		if err := f.Close(); err != nil {
			return bad(name, api.CheckWarn, err.Error(), "unknown whether agents reach the network outside", "switch it on").by("sudo sysctl net.ipv4.ip_forward=1")
		}
		found = "off; polisd switches it on while it has agents"
	}
	if b, err := os.ReadFile("/proc/sys/net/bridge/bridge-nf-call-iptables"); err == nil && strings.TrimSpace(string(b)) == "1" {
		found += "; iptables sees bridged packets too (br_netfilter)"
	}
	br, err := d.bridge()
	if err != nil {
		return bad(name, api.CheckWarn, err.Error(), "unknown whether agents reach the network outside", "set network.pool to an IPv4 network").by(configured("network.pool", config.Default().Network.Pool))
	}
	if exists, err := br.Exists(); err != nil || !exists {
		return d.foreignDrops(found, err)
	}
	f, err := br.TryForwarding(ctx)
	if err != nil {
		return bad(name, api.CheckWarn, fmt.Sprintf("%s; no packet could be tested: %v", found, err), "unknown whether another firewall stops agents", "run doctor as root").asRoot()
	}
	if e := firewall.Blocked(f); e != nil {
		c := bad(name, api.CheckWarn, found+"; "+e.Message, "agents do not reach the network outside: a drop of another firewall is final", e.Hint)
		c.Code = e.Code
		if len(f.Culprit.Open) == 0 {
			return c.without("polis knows no command that lets packets pass in a chain of this kind: its owner has to")
		}
		return c.by(sudo(f.Culprit.Open))
	}
	if f.NoRoute {
		return ok(name, found+"; without a route to the internet no packet was tested")
	}
	return ok(name, fmt.Sprintf("%s; a packet like those of agents passes all rules and leaves by %s", found, f.Uplink))
}

// sudo is one command line of commands for root.
func sudo(commands []string) string {
	out := make([]string, 0, len(commands))
	for _, c := range commands {
		out = append(out, "sudo "+c)
	}
	return strings.Join(out, " && ")
}

// foreignDrops reads rules where no packet can be tested.
func (d *Doctor) foreignDrops(found string, err error) api.Check {
	const name = "forwarding"
	var drops []string
	if err == nil {
		drops, err = netbridge.ForwardDrops()
	}
	if err != nil {
		return bad(name, api.CheckWarn, fmt.Sprintf("%s; the rules of others cannot be read: %v", found, err), "unknown whether another firewall stops agents", "run as root").asRoot()
	}
	if len(drops) > 0 {
		return bad(name, api.CheckWarn, found+"; dropped by default in "+strings.Join(drops, ", "), "agents may not reach the network outside: a drop of another firewall is final",
			"add an agent and run polisctl doctor again: a packet then shows whether it is dropped, and the command that lets it pass").
			without("which chain drops, only a packet of an agent shows, and no agent's network is up")
	}
	return ok(name, found)
}
