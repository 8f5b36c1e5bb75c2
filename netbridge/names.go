package netbridge

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strings"
)

// Interface names have at most 15 bytes (IFNAMSIZ less the NUL, netdevice(7)),
// so names are hashes and the readable truth is in the alias.
const (
	vethPrefix  = "plv"
	vethHashLen = 15 - len(vethPrefix)
	innerName   = "eth0"
	maxAlias    = 255 // IFALIASZ less the NUL
)

var (
	agentName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
	vethName  = regexp.MustCompile(`^` + vethPrefix + `[0-9a-f]{12}$`)
)

// names are everything of one instance that has a name in the kernel.
type names struct {
	bridge string
	table  string
}

// BridgeName returns the name of an instance's bridge.
func BridgeName(instance string) string { return namesFor(instance).bridge }

// namesFor derives the instance's names. The empty instance has the plain ones, which an
// administrator expects.
func namesFor(instance string) names {
	if instance == "" {
		return names{bridge: "polis0", table: plainNames}
	}
	h := shortHash(8, "instance", instance)
	return names{bridge: "plb" + h, table: plainNames + "_" + h}
}

// plainNames is how the name of each instance's table begins.
const plainNames = "polis"

// veth is the host end of the agent's pair.
func (n names) veth(agent string) string {
	return vethPrefix + shortHash(vethHashLen, "veth", n.bridge, agent)
}

// bridgeMAC is fixed: otherwise a bridge takes the lowest address of its ports, and changes it
// under the agents' neighbour tables.
func (n names) bridgeMAC() net.HardwareAddr {
	sum := sha256.Sum256([]byte(n.bridge))
	return net.HardwareAddr{0x0a, 0x71, sum[0], sum[1], sum[2], sum[3]}
}

func shortHash(hexDigits int, parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])[:hexDigits]
}

func checkAgent(agent string) error {
	if !agentName.MatchString(agent) {
		return fmt.Errorf("%w: %q", ErrInvalidName, agent)
	}
	return nil
}

// macFor gives a locally administered address that follows from the IPv4
// address, so that neighbour and forwarding entries can be static.
func macFor(addr netip.Addr) net.HardwareAddr {
	a := addr.As4()
	return net.HardwareAddr{0x0a, 0x70, a[0], a[1], a[2], a[3]}
}

// vethAlias is what we store in the alias of an agent's link.
type vethAlias struct {
	bridge string
	agent  string
	addr   netip.Addr
}

func (a vethAlias) String() string {
	return fmt.Sprintf("polis agent=%s addr=%s bridge=%s", a.agent, a.addr, a.bridge)
}

func parseVethAlias(s string) (vethAlias, bool) {
	var a vethAlias
	f := strings.Split(s, " ")
	if len(s) > maxAlias || len(f) != 4 || f[0] != "polis" {
		return a, false
	}
	var okAgent, okAddr, okBridge bool
	var addr string
	a.agent, okAgent = strings.CutPrefix(f[1], "agent=")
	addr, okAddr = strings.CutPrefix(f[2], "addr=")
	a.bridge, okBridge = strings.CutPrefix(f[3], "bridge=")
	var err error
	a.addr, err = netip.ParseAddr(addr)
	if !okAgent || !okAddr || !okBridge || err != nil || !a.addr.Is4() ||
		a.bridge == "" || checkAgent(a.agent) != nil {
		return vethAlias{}, false
	}
	return a, true
}

// bridgeAlias marks a bridge as ours and remembers whether the instance turned
// ip_forward on, so that the last one to leave can turn it off again.
type bridgeAlias struct {
	forwardSet bool
}

const bridgeMark = "polis bridge"

func (a bridgeAlias) String() string {
	if a.forwardSet {
		return bridgeMark + " ip_forward=set"
	}
	return bridgeMark
}

func parseBridgeAlias(s string) (bridgeAlias, bool) {
	switch s {
	case bridgeMark:
		return bridgeAlias{}, true
	case bridgeMark + " ip_forward=set":
		return bridgeAlias{forwardSet: true}, true
	}
	return bridgeAlias{}, false
}
