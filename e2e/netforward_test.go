package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/e2e/world"
)

// rules has a firewall of the host write its rules.
func (i *internet) rules(text string) {
	i.t.Helper()
	cmd := exec.Command("nsenter", "--net="+i.host, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(text)
	out, err := cmd.CombinedOutput()
	require.NoError(i.t, err, string(out))
}

// Docker is started after polisd, and drops what agents send. Everything that a person reads names Docker and the command.
func TestABlockedNetworkIsNamed(t *testing.T) {
	needProgram(t, "nft")
	net := newInternet(t)
	d := net.startBehind("", "[roles.closed.network]\negress = \"none\"\n")
	d.up()
	d.worker("alice")
	require.Zero(t, d.get("alice", "203.0.113.1").code)
	c := d.checkOf("forwarding")
	require.Equal(t, api.CheckOK, c.State, c)
	require.Contains(t, c.Found, "leaves by up0")

	net.rules(world.DockerRules)
	d.eventually("the event", func() bool { return len(d.eventsOf(api.EventBlocked)) > 0 })
	e := d.eventsOf(api.EventBlocked)[0]
	require.Equal(t, api.CodeNetworkBlocked, e.Code)
	require.Contains(t, e.Message, "by Docker, in the hook forward: table ip filter, chain FORWARD (its policy)")
	open := "iptables -I DOCKER-USER -i plb"
	c = d.checkOf("forwarding")
	require.Equal(t, api.CheckWarn, c.State, c)
	require.Equal(t, api.CodeNetworkBlocked, c.Code)
	require.Contains(t, c.Fix, open)
	require.Contains(t, d.must("status"), open)
	bob := d.ctl("agents", "add", "bob", "--base", "custom")
	require.Zero(t, bob.code, bob)
	require.Contains(t, bob.stdout+bob.stderr, "by Docker")
	require.Contains(t, bob.stdout+bob.stderr, open)
	require.NotContains(t, d.ctl("agents", "add", "closed", "--base", "custom", "--role", "closed").stderr, "Docker", "it reaches nothing anyway")
	why := d.refusals("alice")[0]
	require.Equal(t, api.CodeNetworkBlocked, why.Code)
	require.Contains(t, why.Hint, open)
	d.eventually("the programs of alice can read it", func() bool { return strings.Contains(d.sh("alice", "cat /run/polis/why"), open) })
	r := d.ctl("init", "--repo", d.path("src"), "--base", "custom", "--yes", "--config", d.path("polisd.toml"))
	require.Contains(t, r.stdout+r.stderr, open, r)

	d.task("alice", "curl -sS --max-time 2 http://203.0.113.1/")
	ended := d.settled("alice")
	require.Equal(t, api.OutcomeFailed, ended.Outcome)
	require.Contains(t, ended.Network, "by Docker")
	require.Contains(t, ended.Result, open)

	// The administrator does what the command does.
	net.onHost("nft", "insert", "rule", "ip", "filter", "DOCKER-USER", "iifname", bridgeOf(net), "accept")
	net.onHost("nft", "insert", "rule", "ip", "filter", "DOCKER-USER", "oifname", bridgeOf(net), "ct", "state", "established,related", "accept")
	d.eventually("the event", func() bool { return len(d.eventsOf(api.EventBlocked)) > 1 })
	require.Empty(t, d.eventsOf(api.EventBlocked)[1].Code)
	require.Equal(t, api.CheckOK, d.checkOf("forwarding").State)
	require.Zero(t, d.get("alice", "203.0.113.1").code)
	require.NotEqual(t, api.CodeNetworkBlocked, append(d.refusals("alice"), api.WhyEntry{})[0].Code)
	require.NotContains(t, d.must("status"), "Docker")
}

func bridgeOf(i *internet) string {
	i.t.Helper()
	for _, f := range strings.Fields(i.onHost("ip", "-o", "link", "show", "type", "bridge")) {
		if strings.HasPrefix(f, "pl") {
			return strings.TrimSuffix(f, ":")
		}
	}
	i.t.Fatal("there is no bridge")
	return ""
}

// fakeIptables does with nft what iptables does for the rules that polis writes.
const fakeIptables = `#!/bin/sh -e
shift 2 # -w 5
case "$1 $2" in
"-n -L") nft list chain ip filter DOCKER-USER >/dev/null 2>&1; exit ;;
esac
op=$1 dir=$3 link=$4
match="$( [ "$dir" = -i ] && echo iifname || echo oifname ) \"$link\""
[ "$dir" = -i ] || match="$match ct state established,related"
handle=$(nft -a list chain ip filter DOCKER-USER | grep -F "$match" | sed -n 's/.*# handle //p')
case $op in
-C) [ -n "$handle" ] ;;
-I) nft insert rule ip filter DOCKER-USER $match accept ;;
-D) nft delete rule ip filter DOCKER-USER handle $handle ;;
esac
`

// With network.docker_user polisd adds the rules itself, when Docker is there, and removes them with its network.
func TestDockerUserOpensTheWay(t *testing.T) {
	needProgram(t, "nft")
	net := newInternet(t)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "iptables"), []byte(fakeIptables), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	d := net.startBehind("docker_user = true\n", "")
	d.up()
	d.add("alice")
	require.Zero(t, d.get("alice", "203.0.113.1").code)
	net.rules(world.DockerRules)
	d.eventually("the rules", func() bool {
		return strings.Contains(net.onHost("nft", "list", "chain", "ip", "filter", "DOCKER-USER"), bridgeOf(net))
	})
	require.Zero(t, d.get("alice", "203.0.113.1").code)
	require.Equal(t, api.CheckOK, d.checkOf("forwarding").State)
	// Docker makes its chains again when it is restarted.
	net.rules("delete table ip filter\n" + world.DockerRules)
	d.eventually("alice reaches the internet", func() bool { return d.get("alice", "203.0.113.1").code == 0 })
	d.stop()
	require.NotContains(t, net.onHost("nft", "list", "chain", "ip", "filter", "DOCKER-USER"), "accept")
	d.start()
}
