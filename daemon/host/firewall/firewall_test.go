package firewall

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/netbridge"
)

// fake is an iptables whose chain DOCKER-USER is a file with a rule a line.
const fake = `#!/bin/sh
dir=${0%/*}; shift 2 # -w 5
[ -e "$dir/DOCKER-USER" ] || { echo "iptables: No chain/target/match by that name." >&2; exit 1; }
op=$1; shift
case $op in
-n) exit 0 ;;
-C) shift; grep -qxF -e "$*" "$dir/DOCKER-USER" ;;
-I) shift; { echo "$*"; cat "$dir/DOCKER-USER"; } >"$dir/new"; mv "$dir/new" "$dir/DOCKER-USER" ;;
-D) shift; grep -vxF -e "$*" "$dir/DOCKER-USER" >"$dir/new"; mv "$dir/new" "$dir/DOCKER-USER" ;;
*) exit 2 ;;
esac
`

func TestDockerUserHasTheRulesOfTheBridge(t *testing.T) {
	dir := t.TempDir()
	program, file := filepath.Join(dir, "iptables"), filepath.Join(dir, "DOCKER-USER")
	require.NoError(t, os.WriteFile(program, []byte(fake), 0o700))
	u := DockerUser{Bridge: "polis0", Program: program}
	rules := func() []string {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		return strings.Split(strings.TrimSpace(string(b)), "\n")
	}
	changed, err := u.Ensure(t.Context())
	require.NoError(t, err)
	require.False(t, changed, "without Docker there is no chain")
	require.NoFileExists(t, file)

	require.NoError(t, os.WriteFile(file, []byte("-i eth0 -j RETURN\n"), 0o600))
	changed, err = u.Ensure(t.Context())
	require.NoError(t, err)
	require.True(t, changed)
	want := []string{
		"-o polis0 -m conntrack --ctstate RELATED,ESTABLISHED -m comment --comment polis -j ACCEPT",
		"-i polis0 -m comment --comment polis -j ACCEPT", "-i eth0 -j RETURN"}
	require.Equal(t, want, rules())
	changed, err = u.Ensure(t.Context())
	require.NoError(t, err)
	require.False(t, changed)
	require.Equal(t, want, rules())

	require.NoError(t, u.Remove(t.Context()))
	require.Equal(t, []string{"-i eth0 -j RETURN"}, rules())
	require.NoError(t, u.Remove(t.Context()), "removing nothing is success")

	u.Program = filepath.Join(dir, "none")
	changed, err = u.Ensure(t.Context())
	require.NoError(t, err)
	require.False(t, changed)
}

func TestStateOfAFirewall(t *testing.T) {
	var s State
	now := time.Now()
	by := func(who string) *api.Error { return api.Errorf(api.CodeNetworkBlocked, "%s", who) }
	began, ended := s.Note(nil, now)
	require.False(t, began)
	require.Nil(t, ended)
	began, _ = s.Note(by("Docker"), now)
	require.True(t, began)
	began, _ = s.Note(by("Docker"), now)
	require.False(t, began, "it is known")
	began, _ = s.Note(by("ufw"), now)
	require.True(t, began)
	require.Equal(t, "ufw", s.Blocked(time.Time{}).Message)
	began, ended = s.Note(nil, now.Add(time.Minute))
	require.False(t, began)
	require.Equal(t, "ufw", ended.Message)
	require.Nil(t, s.Blocked(time.Time{}))
	require.Equal(t, "ufw", s.Blocked(now).Message, "a task that began then was without network")
	require.Nil(t, s.Blocked(now.Add(2*time.Minute)))
}

func TestWordsForAFirewall(t *testing.T) {
	require.Nil(t, Blocked(netbridge.Forwarding{Works: true}))
	require.Nil(t, Blocked(netbridge.Forwarding{NoRoute: true}), "that is another matter")
	e := Blocked(netbridge.Forwarding{Culprit: netbridge.Culprit{Program: netbridge.Docker, Hook: "forward", Place: "table ip filter, chain FORWARD (its policy)", Open: []string{"iptables -I DOCKER-USER -i polis0 -j ACCEPT"}}})
	require.Equal(t, api.CodeNetworkBlocked, e.Code)
	require.Equal(t, "packets of agents to the network outside are dropped by Docker, in the hook forward: table ip filter, chain FORWARD (its policy)", e.Message)
	require.Contains(t, e.Hint, "iptables -I DOCKER-USER -i polis0 -j ACCEPT; or set network.docker_user = true")
	e = Blocked(netbridge.Forwarding{Replies: true, Culprit: netbridge.Culprit{Program: netbridge.NFTables, Hook: "forward", Place: "table inet filter, chain forward", Open: []string{"a", "b"}}})
	require.Contains(t, e.Message, "answers to them are dropped by nftables")
	require.Equal(t, "a; b", e.Hint)
	require.Equal(t, "packets of agents to the network outside are dropped: no route", Blocked(netbridge.Forwarding{Culprit: netbridge.Culprit{Hook: "routing", Place: "no route"}}).Message)
}
