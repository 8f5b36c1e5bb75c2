package netbridge

import (
	"encoding/binary"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/netbridge/egress"
)

// load has another program write its rules. They are gone at the end of the test.
func load(t testing.TB, nft func(...string) string, rules string, tables ...string) {
	t.Helper()
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	t.Cleanup(func() {
		for _, table := range tables {
			nft(append([]string{"delete", "table"}, strings.Fields(table)...)...)
		}
	})
}

// unordered sorts the lines of a photograph: chains change their places when they are replaced.
func unordered(photograph string) []string {
	network, _, _ := strings.Cut(photograph, "/proc/self/mountinfo")
	return slices.Sorted(strings.Lines(network))
}

// Rules as these programs write them.
const (
	dockerRules = `table ip filter {
		chain DOCKER-USER { counter return; }
		chain FORWARD { type filter hook forward priority filter; policy drop; jump DOCKER-USER; oifname "docker0" ct state established,related accept; iifname "docker0" accept; }
	}`
	ufwRules = `table ip filter {
		chain ufw-before-forward { ct state related,established accept; }
		chain ufw-reject-forward { reject; }
		chain FORWARD { type filter hook forward priority filter; policy drop; jump ufw-before-forward; jump ufw-reject-forward; }
	}`
	firewalldRules = `table inet firewalld {
		chain filter_FWD_policies { ct state established,related accept; iifname "lo" accept; }
		chain filter_FORWARD { type filter hook forward priority filter + 10; policy accept; ct state { established, related } accept; jump filter_FWD_policies; reject with icmpx admin-prohibited; }
	}`
	iptablesRules   = `table ip filter { chain FORWARD { type filter hook forward priority filter; policy drop; }; }`
	nftablesRules   = `table inet filter { chain forward { type filter hook forward priority filter; policy drop; }; }`
	preroutingRules = `table inet strict { chain raw { type filter hook prerouting priority raw; iifname != "lo" ip daddr 203.0.113.0/24 drop; }; }`
	postRules       = `table inet late { chain out { type filter hook postrouting priority 300; oifname "uplink" tcp dport 443 drop; }; }`
	marksRules      = `table inet marks { chain pre { type filter hook forward priority mangle; meta mark set ct mark; }; }`
)

func TestAPacketFindsWhoDropsThoseOfAgents(t *testing.T) {
	nft := needNFT(t)
	for name, tc := range map[string]struct {
		rules, tables string
		want          Culprit
		opens         bool // the commands can be tried here
	}{
		"docker": {dockerRules, "ip filter", Culprit{Docker, "forward", "table ip filter, chain FORWARD (its policy)",
			[]string{"iptables -I DOCKER-USER -i BRIDGE -j ACCEPT", "iptables -I DOCKER-USER -o BRIDGE -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"}}, false},
		"ufw":       {ufwRules, "ip filter", Culprit{UFW, "forward", "table ip filter, chain ufw-reject-forward", []string{"ufw route allow in on BRIDGE"}}, false},
		"firewalld": {firewalldRules, "inet firewalld", Culprit{Firewalld, "forward", "table inet firewalld, chain filter_FORWARD", []string{"firewall-cmd --permanent --zone=trusted --add-interface=BRIDGE", "firewall-cmd --reload"}}, false},
		"iptables": {iptablesRules, "ip filter", Culprit{Iptables, "forward", "table ip filter, chain FORWARD (its policy)",
			[]string{"iptables -I FORWARD -i BRIDGE -j ACCEPT", "iptables -I FORWARD -o BRIDGE -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"}}, false},
		"nftables": {nftablesRules, "inet filter", Culprit{NFTables, "forward", "table inet filter, chain forward (its policy)",
			[]string{"nft insert rule inet filter forward iifname BRIDGE accept", "nft insert rule inet filter forward oifname BRIDGE ct state established,related accept"}}, true},
		"before routing": {preroutingRules, "inet strict", Culprit{NFTables, "prerouting", "table inet strict, chain raw",
			[]string{"nft insert rule inet strict raw iifname BRIDGE accept", "nft insert rule inet strict raw oifname BRIDGE ct state established,related accept"}}, false},
		"after routing": {postRules, "inet late", Culprit{NFTables, "postrouting", "table inet late, chain out",
			[]string{"nft insert rule inet late out iifname BRIDGE accept", "nft insert rule inet late out oifname BRIDGE ct state established,related accept"}}, false},
		"marks of others": {marksRules, "inet marks", Culprit{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBridge(t)
			inet := internet(t)
			listen(t, inet, "203.0.113.1:80", "web")
			_, ns := ensure(t, b, "claude")
			before := unordered(photograph(t))
			start := time.Now()
			f, err := b.TryForwarding(t.Context())
			require.NoError(t, err)
			t.Log("a packet that passes took", time.Since(start))
			require.Equal(t, Forwarding{Works: true, Uplink: "uplink"}, f)
			require.Equal(t, before, unordered(photograph(t)), "the test packet leaves nothing")

			load(t, nft, tc.rules, tc.tables)
			f, err = b.TryForwarding(t.Context())
			require.NoError(t, err)
			for i, c := range tc.want.Open {
				tc.want.Open[i] = strings.ReplaceAll(c, "BRIDGE", b.Name())
			}
			require.Equal(t, Forwarding{Works: tc.want.Hook == "", Uplink: "uplink", Culprit: tc.want}, f)
			// What the test packet finds is what agents find. The port is another one.
			require.Equal(t, f.Works || name == "after routing", reaches(t, ns, "203.0.113.1:80"))
			if !tc.opens {
				return
			}
			nft(strings.Fields(tc.want.Open[0])[1:]...)
			for range fewReplies {
				require.False(t, reaches(t, ns, "203.0.113.1:80"))
			}
			f, err = b.TryForwarding(t.Context())
			require.NoError(t, err)
			require.True(t, f.Replies, "what comes back is dropped")
			require.Equal(t, tc.want, f.Culprit)
			nft(strings.Fields(tc.want.Open[1])[1:]...)
			require.True(t, reaches(t, ns, "203.0.113.1:80"))
			f, err = b.TryForwarding(t.Context())
			require.NoError(t, err)
			require.Equal(t, Forwarding{Works: true, Uplink: "uplink"}, f, "whatever the policy of the chain is")
		})
	}
}

func TestAPacketFindsThatTheHostDoesNotRoute(t *testing.T) {
	b := newBridge(t)
	f, err := b.TryForwarding(t.Context())
	require.NoError(t, err)
	require.Equal(t, Forwarding{NoRoute: true}, f)
	internet(t)
	ipRun(t, "rule", "add", "iif", b.Name(), "pref", "100", "prohibit")
	t.Cleanup(func() { ipRun(t, "rule", "del", "pref", "100") })
	f, err = b.TryForwarding(t.Context())
	require.NoError(t, err)
	require.False(t, f.Works)
	require.Equal(t, "routing", f.Culprit.Hook)
}

// Tables of iptables-legacy are not those of nftables: the kernel reports nothing of them.
func TestAPacketFindsIptablesLegacy(t *testing.T) {
	b := newBridge(t)
	internet(t)
	if legacy, err := readLegacy(); err == nil {
		require.False(t, legacy.exists, "reading makes no table")
	}
	if !legacyPolicy(t, -nfDrop-1) {
		t.Log("this kernel has no iptables-legacy")
		return
	}
	t.Cleanup(func() { legacyPolicy(t, -2) }) // NF_ACCEPT
	f, err := b.TryForwarding(t.Context())
	require.NoError(t, err)
	require.False(t, f.Works)
	require.Equal(t, Culprit{Iptables, "forward", "table filter of iptables-legacy, chain FORWARD (its policy)", []string{
		"iptables-legacy -I FORWARD -i " + b.Name() + " -j ACCEPT",
		"iptables-legacy -I FORWARD -o " + b.Name() + " -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"}}, f.Culprit)
	legacyPolicy(t, -2)
	f, err = b.TryForwarding(t.Context())
	require.NoError(t, err)
	require.True(t, f.Works)
}

// legacyPolicy sets the policy of FORWARD, as iptables-legacy -P does.
func legacyPolicy(t testing.TB, verdict int32) bool {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	require.NoError(t, err)
	defer unix.Close(fd)
	info := make([]byte, iptGetinfoSize)
	copy(info, "filter")
	if getsockopt(fd, iptSoGetInfo, info) != nil {
		return false
	}
	entries, size := binary.NativeEndian.Uint32(info[76:]), binary.NativeEndian.Uint32(info[80:])
	table := make([]byte, iptEntriesOffset+int(size))
	copy(table, "filter")
	binary.NativeEndian.PutUint32(table[xtTableNameLen:], size)
	require.NoError(t, getsockopt(fd, iptSoGetEntries, table))
	policy := binary.NativeEndian.Uint32(info[56+unix.NF_INET_FORWARD*4:])
	at := iptEntriesOffset + int(policy)
	target := at + int(binary.NativeEndian.Uint16(table[at+iptTargetOffset:]))
	binary.NativeEndian.PutUint32(table[target+xtTargetData:], uint32(verdict))

	const header = 96 // struct ipt_replace
	counters := make([]byte, 16*entries)
	req := make([]byte, header+int(size))
	copy(req, info[:36]) // name and valid_hooks
	binary.NativeEndian.PutUint32(req[36:], entries)
	binary.NativeEndian.PutUint32(req[40:], size)
	copy(req[44:], info[36:76]) // hook_entry and underflow
	binary.NativeEndian.PutUint32(req[84:], entries)
	binary.NativeEndian.PutUint64(req[88:], uint64(uintptr(unsafe.Pointer(&counters[0]))))
	copy(req[header:], table[iptEntriesOffset:])
	_, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.IPPROTO_IP, 64, uintptr(unsafe.Pointer(&req[0])), uintptr(len(req)), 0)
	runtime.KeepAlive(counters)
	require.Zero(t, errno, errno.Error())
	return true
}

// Agents that work meanwhile notice nothing of a test packet.
func TestATestPacketDisturbsNoAgent(t *testing.T) {
	b := newBridge(t)
	inet := internet(t)
	listen(t, inet, "203.0.113.1:443", "web")
	ep, ns := ensure(t, b, "claude")
	reports := keeping(t, b, func(string) {})
	done := make(chan error, 1)
	go func() {
		for range 3 {
			if _, err := b.TryForwarding(t.Context()); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for range 20 {
		got, err := dial(t, ns, "203.0.113.1:443")
		require.NoError(t, err)
		require.Equal(t, "web 198.51.100.2", got)
	}
	require.NoError(t, <-done)
	open(t, ep, nil, egress.Open)
	time.Sleep(2 * keepEvery)
	require.Empty(t, reports())
	list, err := b.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"claude"}, list)
}
