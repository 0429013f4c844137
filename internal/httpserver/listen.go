package httpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

// resolve finds the address to check and to bind: a name could mean two things.
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
		return ListenTCP(ctx, ip, opts.Port)
	}
	port, err := opts.Ports.Load()
	if err != nil {
		opts.Logger.Warn("the port of last time is not known", "error", err)
	}
	if port != 0 {
		if l, err := ListenTCP(ctx, ip, port); err == nil {
			return l, nil
		}
		// Taken by now, or a port of another address: any other will do.
	}
	l, err := ListenTCP(ctx, ip, 0)
	if err != nil {
		return nil, err
	}
	if err := opts.Ports.Save(ctx, int(boundTo(l).Port())); err != nil {
		opts.Logger.Warn("the port will be another one next time", "error", err)
	}
	return l, nil
}

// ListenTCP listens on a port, 0 for a free one. Its errors say what to do.
func ListenTCP(ctx context.Context, ip netip.Addr, port int) (net.Listener, error) {
	if port < 0 || port > 65535 {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("%d is not a port", port), Remedy: "Use a port from 1 to 65535, or 0 for a free one."}
	}
	network := "tcp"
	if ip.Is4() {
		network = "tcp4" // otherwise 0.0.0.0 would mean all of IPv6 too
	}
	l, err := new(net.ListenConfig).Listen(ctx, network, net.JoinHostPort(ip.String(), strconv.Itoa(port)))
	if err == nil {
		return l, nil
	}
	e := &bridge.Error{
		Code:    bridge.CodeInvalid,
		Message: fmt.Sprintf("cannot listen on %s", net.JoinHostPort(ip.String(), strconv.Itoa(port))),
		Remedy:  "Use 127.0.0.1, or another address of this machine together with a token.",
		Cause:   err,
	}
	switch {
	case errors.Is(err, errInUse):
		e.Code, e.Message = bridge.CodeConflict, fmt.Sprintf("port %d on %s is in use", port, ip)
		e.Remedy = fmt.Sprintf("Stop the program that listens on port %d, or choose another with --port; --port 0 picks a free one.", port)
		if pid, name := listener(port); pid != 0 {
			e.Message += fmt.Sprintf(" by %s (process %d)", name, pid)
		}
	case errors.Is(err, fs.ErrPermission):
		e.Message, e.Remedy = fmt.Sprintf("this user may not listen on port %d", port), "Choose a port above 1023 with --port; --port 0 picks a free one."
	}
	return nil, e
}

// boundTo is the address of a listener.
func boundTo(l net.Listener) netip.AddrPort {
	at, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	return unmapped(at)
}

// Ports remembers a port between runs, in a state file that all bridges of a user
// share. It may be used concurrently, also by other processes.
type Ports struct {
	File string // ~/.copilot-bridge/state.json
	Name string // whose port it is: "serve"
}

// lockWait bounds how long a start may be held up by others that start.
const lockWait = 2 * time.Second

// Load returns the port, or 0 if none is known.
func (p *Ports) Load() (int, error) {
	_, ports, err := p.read()
	return ports[p.Name], err
}

// Save remembers a port for the next run. It replaces an unreadable file.
func (p *Ports) Save(ctx context.Context, port int) (err error) {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	unlock, err := durable.Lock(ctx, p.File+".lock")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	state, ports, err := p.read()
	if err != nil && !errors.Is(err, errUnreadable) {
		return err
	}
	if ports == nil {
		ports = map[string]int{}
	}
	ports[p.Name] = port
	if state == nil {
		state = map[string]json.RawMessage{}
	}
	if state["ports"], err = json.Marshal(ports); err != nil {
		return err
	}
	data, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(p.File, append(data, '\n'), 0o600)
}

var errUnreadable = errors.New("not a state file")

// read returns the file's fields and the ports, as far as it can be read.
func (p *Ports) read() (state map[string]json.RawMessage, ports map[string]int, err error) {
	data, err := durable.ReadFile(p.File)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if err := json.Unmarshal(data, &state); err != nil {
		return nil, nil, fmt.Errorf("%s: %w: %w", p.File, errUnreadable, err)
	}
	if raw, ok := state["ports"]; ok {
		if err := json.Unmarshal(raw, &ports); err != nil {
			return state, nil, fmt.Errorf("%s: %w: ports: %w", p.File, errUnreadable, err)
		}
	}
	if port := ports[p.Name]; port < 0 || port > 65535 {
		delete(ports, p.Name)
	}
	return state, ports, nil
}
