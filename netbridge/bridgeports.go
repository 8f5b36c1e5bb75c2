package netbridge

import (
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// bridgePort are the settings of a port that keep agents apart.
type bridgePort struct{ isolated, learning, flood bool }

// bridgePorts reads the settings of all bridge ports of the machine, by index, in one dump.
func bridgePorts() (ports map[int]bridgePort, err error) {
	err = retryInterrupted(func() error {
		ports = map[int]bridgePort{}
		req := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
		req.AddData(nl.NewIfInfomsg(unix.AF_BRIDGE))
		msgs, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
		if err != nil {
			return err
		}
		for _, m := range msgs {
			info := nl.DeserializeIfInfomsg(m)
			attrs, err := nl.ParseRouteAttr(m[info.Len():])
			if err != nil {
				return err
			}
			for _, a := range attrs {
				if a.Attr.Type&^unix.NLA_F_NESTED != unix.IFLA_PROTINFO {
					continue
				}
				if ports[int(info.Index)], err = parseBridgePort(a.Value); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list bridge ports: %w", err)
	}
	return ports, nil
}

func parseBridgePort(b []byte) (p bridgePort, err error) {
	attrs, err := nl.ParseRouteAttr(b)
	for _, a := range attrs {
		on := len(a.Value) > 0 && a.Value[0] != 0
		switch a.Attr.Type {
		case nl.IFLA_BRPORT_ISOLATED:
			p.isolated = on
		case nl.IFLA_BRPORT_LEARNING:
			p.learning = on
		case nl.IFLA_BRPORT_UNICAST_FLOOD:
			p.flood = on
		}
	}
	return p, err
}
