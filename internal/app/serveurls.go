package app

import (
	"net"
	"net/netip"
	"slices"
	"strconv"

	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/httpserver"
)

// ServeURLs are the addresses at which a `serve` with this configuration would be
// found: the configured one, and the one that `serve --port 0` had last.
func ServeURLs(c *config.Config) (urls []string) {
	host := c.Serve.Addr
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	last, _ := (&httpserver.Ports{File: c.Path("state.json"), Name: "serve"}).Load() // not known: not asked
	for _, port := range slices.Compact([]int{c.Serve.Port, last}) {
		if port != 0 {
			urls = append(urls, "http://"+net.JoinHostPort(host, strconv.Itoa(port)))
		}
	}
	return urls
}
