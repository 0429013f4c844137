package front

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"strconv"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// resolve finds the address to bind. The answer is used for the check and for
// the binding alike, so that a name cannot mean two things.
func resolve(ctx context.Context, host string) (netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap(), nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil || len(ips) == 0 {
		return netip.Addr{}, &bridge.Error{
			Code:    bridge.CodeInvalid,
			Message: fmt.Sprintf("cannot listen on %q: it is not an address of this machine", host),
			Remedy:  "Use 127.0.0.1, or another address of this machine together with a token.",
			Cause:   err,
		}
	}
	for _, ip := range ips {
		if ip.Unmap().Is4() {
			return ip.Unmap(), nil
		}
	}
	return ips[0], nil
}

// bind listens on the port asked for, or on the one of last time, or on any.
func bind(ctx context.Context, ip netip.Addr, opts Options) (net.Listener, error) {
	if opts.Port != 0 || opts.Ports == nil {
		return listen(ctx, ip, opts.Port)
	}
	port, err := opts.Ports.Load()
	if err != nil {
		opts.Logger.Warn("the port of last time is not known", "error", err)
	}
	if port != 0 {
		if l, err := listen(ctx, ip, port); err == nil {
			return l, nil
		}
		// Taken by now, or a port of another address: any other will do.
	}
	l, err := listen(ctx, ip, 0)
	if err != nil {
		return nil, err
	}
	if err := opts.Ports.Save(ctx, int(boundTo(l).Port())); err != nil {
		opts.Logger.Warn("the port will be another one next time", "error", err)
	}
	return l, nil
}

func listen(ctx context.Context, ip netip.Addr, port int) (net.Listener, error) {
	if port < 0 || port > 65535 {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("%d is not a port", port), Remedy: "Use a port from 1 to 65535, or 0 for a free one."}
	}
	network := "tcp"
	if ip.Is4() {
		network = "tcp4" // otherwise 0.0.0.0 would mean all of IPv6 too
	}
	l, err := new(net.ListenConfig).Listen(ctx, network, net.JoinHostPort(ip.String(), strconv.Itoa(port)))
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, errInUse):
		return nil, &bridge.Error{
			Code:    bridge.CodeConflict,
			Message: fmt.Sprintf("port %d on %s is in use", port, ip),
			Remedy:  fmt.Sprintf("Stop the program that listens on port %d, or choose another with --port; --port 0 picks a free one.", port),
			Cause:   err,
		}
	case errors.Is(err, fs.ErrPermission):
		return nil, &bridge.Error{
			Code:    bridge.CodeInvalid,
			Message: fmt.Sprintf("this user may not listen on port %d", port),
			Remedy:  "Choose a port above 1023 with --port; --port 0 picks a free one.",
			Cause:   err,
		}
	default:
		return nil, &bridge.Error{
			Code:    bridge.CodeInvalid,
			Message: fmt.Sprintf("cannot listen on %s", net.JoinHostPort(ip.String(), strconv.Itoa(port))),
			Remedy:  "Use 127.0.0.1, or another address of this machine together with a token.",
			Cause:   err,
		}
	}
}

// boundTo is the address of a listener.
func boundTo(l net.Listener) netip.AddrPort {
	at, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	p := at.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
}
