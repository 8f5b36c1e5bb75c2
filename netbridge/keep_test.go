package netbridge

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/netbridge/egress"
)

// keeping runs Keep as a daemon does: gates that have lost their rules are filled again by fill.
func keeping(t *testing.T, b *Bridge, fill func(agent string)) (reports func() []Repair) {
	t.Helper()
	var mu sync.Mutex
	var got []Repair
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- b.Keep(ctx, func(r Repair) {
			for _, agent := range r.Gates {
				fill(agent)
			}
			mu.Lock()
			defer mu.Unlock()
			got = append(got, r)
		}, func() {})
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	// Its first comparison finds nothing.
	time.Sleep(4 * keepSettle)
	return func() []Repair {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(got)
	}
}

func TestWhatOthersChangeIsBackWithinTwoSeconds(t *testing.T) {
	nft := needNFT(t)
	ip := func(t *testing.T, args ...string) {
		t.Helper()
		out, err := exec.Command("ip", args...).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	for name, tc := range map[string]struct {
		change func(t *testing.T, b *Bridge, ep Endpoint)
		want   string
	}{
		"nft flush ruleset": {func(t *testing.T, _ *Bridge, _ Endpoint) { nft("flush", "ruleset") }, "it is gone"},
		"nft flush ruleset, and an agent comes at once": {func(t *testing.T, b *Bridge, _ Endpoint) {
			nft("flush", "ruleset")
			_, err := b.Ensure(t.Context(), "newcomer")
			require.NoError(t, err)
		}, ""},
		"nft delete table": {func(t *testing.T, b *Bridge, _ Endpoint) { nft("delete", "table", "inet", b.Table()) }, "it is gone"},
		"nft flush table":  {func(t *testing.T, b *Bridge, _ Endpoint) { nft("flush", "table", "inet", b.Table()) }, "it is empty"},
		"table dormant": {func(t *testing.T, b *Bridge, _ Endpoint) {
			nft("add", "table", "inet", b.Table(), "{ flags dormant; }")
		}, "it is dormant"},
		"a chain is gone":  {func(t *testing.T, b *Bridge, _ Endpoint) { nft("delete", "chain", "inet", b.Table(), "input") }, "chain input is missing"},
		"a chain is empty": {func(t *testing.T, b *Bridge, _ Endpoint) { nft("flush", "chain", "inet", b.Table(), "forward") }, "chain forward is empty"},
		"a rule is added": {func(t *testing.T, b *Bridge, _ Endpoint) {
			nft("insert", "rule", "inet", b.Table(), "prerouting", "accept")
		}, "the rules of chain prerouting were changed"},
		"a chain is added": {func(t *testing.T, b *Bridge, _ Endpoint) { nft("add", "chain", "inet", b.Table(), "mine") }, "another chain, mine"},
		"a gate is opened": {func(t *testing.T, b *Bridge, ep Endpoint) {
			nft("insert", "rule", "inet", b.Table(), egressChain(ep.Link), "accept")
		}, "rules of its gate"},
		"a gate is emptied": {func(t *testing.T, b *Bridge, ep Endpoint) {
			nft("flush", "chain", "inet", b.Table(), egressChain(ep.Link))
		}, "rules of its gate"},
		"saved and restored": {func(t *testing.T, b *Bridge, _ Endpoint) {
			saved := nft("list", "table", "inet", b.Table())
			cmd := exec.Command("nft", "-f", "-")
			// The log chains cannot be read back, and are the shim's anyway.
			cmd.Stdin = strings.NewReader("flush ruleset\n" + withoutLogs(saved))
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
		}, "chain"},
		"address of the bridge": {func(t *testing.T, b *Bridge, ep Endpoint) {
			ip(t, "addr", "flush", "dev", b.Name())
			ip(t, "addr", "add", "192.0.2.1/24", "dev", b.Name())
		}, "has lost its address"},
		"bridge down":   {func(t *testing.T, b *Bridge, _ Endpoint) { ip(t, "link", "set", b.Name(), "down") }, "is down"},
		"bridge gone":   {func(t *testing.T, b *Bridge, _ Endpoint) { ip(t, "link", "del", b.Name()) }, "is gone"},
		"link down":     {func(t *testing.T, _ *Bridge, ep Endpoint) { ip(t, "link", "set", ep.Link, "down") }, "is down"},
		"link gone":     {func(t *testing.T, _ *Bridge, ep Endpoint) { ip(t, "link", "del", ep.Link) }, "its link is gone"},
		"link detached": {func(t *testing.T, _ *Bridge, ep Endpoint) { ip(t, "link", "set", ep.Link, "nomaster") }, "is not attached"},
		"port no more isolated": {func(t *testing.T, _ *Bridge, ep Endpoint) {
			ip(t, "link", "set", ep.Link, "type", "bridge_slave", "isolated", "off")
		}, "is not isolated"},
		"namespace unmounted": {func(t *testing.T, b *Bridge, ep Endpoint) {
			inside(t, ep) // a process of the agent
			require.NoError(t, unix.Unmount(ep.NetNS, unix.MNT_DETACH))
			ip(t, "link", "set", ep.Link, "down") // umount is not reported
		}, "network namespace is not mounted"},
		"barrier gone": {func(t *testing.T, b *Bridge, _ Endpoint) { tc(t, "qdisc", "del", "dev", b.Name(), "clsact") }, "the filter of the bridge"},
		"forwarding off": {func(t *testing.T, _ *Bridge, _ Endpoint) {
			require.NoError(t, os.WriteFile(ipForward, []byte("0"), 0))
		}, ipForward + " is 0"},
		"forwarding of the bridge off": {func(t *testing.T, b *Bridge, _ Endpoint) {
			require.NoError(t, os.WriteFile("/proc/sys/net/ipv4/conf/"+b.Name()+"/forwarding", []byte("0"), 0))
		}, "/forwarding is 0"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBridge(t)
			inet := internet(t)
			listen(t, inet, "0.0.0.0:80", "web")
			one, oneNS := ensure(t, b, "claude")
			none, noneNS := ensure(t, b, "gemini")
			open(t, none, nil, "none")
			reports := keeping(t, b, func(agent string) {
				switch agent {
				case "claude":
					open(t, one, nil, egress.Open)
				case "gemini":
					open(t, none, nil, "none")
				}
			})
			require.Empty(t, reports())

			start := time.Now()
			tc.change(t, b, one)
			require.Eventually(t, func() bool {
				faults, exists, err := b.Check(t.Context())
				return err == nil && exists && len(faults) == 0 && len(reports()) > 0
			}, 30*time.Second, 20*time.Millisecond)
			t.Log("whole after", time.Since(start))
			first := reports()[0]
			require.NoError(t, first.Err)
			require.Contains(t, Faults(first.Faults), tc.want)
			ep, err := b.Ensure(t.Context(), "claude")
			require.NoError(t, err)
			require.Equal(t, one, ep)
			got, err := dial(t, oneNS, "203.0.113.1:80")
			require.NoError(t, err)
			require.Equal(t, "web 198.51.100.2", got)
			_, err = dial(t, noneNS, "203.0.113.1:80")
			require.ErrorIs(t, err, unix.ECONNREFUSED)
		})
	}
}

// inside has a process in the agent's namespace until the test ends.
func inside(t *testing.T, ep Endpoint) {
	t.Helper()
	cmd := exec.Command("nsenter", "--net="+ep.NetNS, "sleep", "60")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	own, err := os.Readlink("/proc/self/ns/net")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", cmd.Process.Pid))
		return err == nil && ns != own
	}, 30*time.Second, 5*time.Millisecond)
}

func tc(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command("tc", args...).CombinedOutput()
	require.NoError(t, err, string(out))
}

// withoutLogs empties the log chains of a listing.
func withoutLogs(listing string) string {
	var out strings.Builder
	inLog := false
	for line := range strings.Lines(listing) {
		word := strings.TrimSpace(line)
		inLog = inLog && word != "}" || strings.HasPrefix(word, "chain log_")
		if !inLog || strings.HasPrefix(word, "chain") {
			out.WriteString(line)
		}
	}
	return out.String()
}

// What the package does itself, and what shims do, is no fault.
func TestOwnChangesAreNoFaults(t *testing.T) {
	b := newBridge(t)
	reports := keeping(t, b, func(string) {})
	for _, agent := range []string{"claude", "gemini", "qwen"} {
		ep, _ := ensure(t, b, agent)
		g, _ := open(t, ep, nil, "x.org")
		require.NoError(t, g.LimitConnections(100))
		require.NoError(t, g.LimitConnections(0))
		time.Sleep(keepEvery)
	}
	require.NoError(t, b.Remove(t.Context(), "gemini"))
	require.NoError(t, b.EnsureShared(t.Context()))
	time.Sleep(2 * keepAgain)
	require.Empty(t, reports())
	faults, exists, err := b.Check(t.Context())
	require.NoError(t, err)
	require.True(t, exists)
	require.Empty(t, faults)
}
