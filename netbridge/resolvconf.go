package netbridge

import (
	"net"
	"os"
	"sync"

	"github.com/miekg/dns"
)

// resolvConf is the host's list of resolvers, read again when the file changes.
type resolvConf struct {
	path string

	mu   sync.Mutex
	info os.FileInfo
	list []string
}

func (c *resolvConf) servers() ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	info, err := os.Stat(c.path)
	if err != nil {
		return nil, err
	}
	if c.info != nil && os.SameFile(c.info, info) && c.info.ModTime().Equal(info.ModTime()) && c.info.Size() == info.Size() {
		return c.list, nil
	}
	conf, err := dns.ClientConfigFromFile(c.path)
	if err != nil {
		return nil, err
	}
	list := make([]string, 0, dnsMaxServers)
	for _, s := range conf.Servers {
		if len(list) < dnsMaxServers {
			list = append(list, net.JoinHostPort(s, conf.Port))
		}
	}
	if len(list) == 0 { // resolv.conf(5): the default is the local machine
		list = append(list, net.JoinHostPort("127.0.0.1", conf.Port))
	}
	c.info, c.list = info, list
	return list, nil
}
