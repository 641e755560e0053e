package console

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// hosts are the names by which browsers may address the console. A page of somebody else's can make its own name point at an
// address inside the network (DNS rebinding) and is same-origin then; but it cannot choose another name in the Host header.
type hosts struct {
	names map[string]bool // empty: this machine alone
}

func newHosts(allowed []string) (hosts, error) {
	h := hosts{names: map[string]bool{}}
	for i, name := range allowed {
		bare := strings.TrimSuffix(strings.TrimPrefix(strings.ToLower(name), "["), "]")
		_, notAddress := netip.ParseAddr(bare)
		if bare == "" || strings.ContainsAny(bare, "/ \t*@[]") || notAddress != nil && strings.Contains(bare, ":") {
			return hosts{}, fmt.Errorf("console: Config.AllowedHosts[%d] must be a host name or an address, without scheme and port, is %q", i, name)
		}
		h.names[bare] = true
	}
	return h, nil
}

// allow says whether a Host header names the console.
func (h hosts) allow(header string) bool {
	name := header
	if host, _, err := net.SplitHostPort(header); err == nil {
		name = host
	}
	name = strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(name, "["), "]"))
	if len(h.names) > 0 {
		return h.names[name]
	}
	address, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && address.IsLoopback()
}
