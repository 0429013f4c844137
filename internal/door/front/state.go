package front

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/durable"
)

// Ports remembers a port between runs, in a state file that all bridges of a
// user share and that may hold more than ports. It may be used concurrently,
// by any number of processes.
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

// Save remembers a port for the next run. A file that cannot be understood is
// replaced: a port is not worth a start that fails for ever.
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

// read returns the file's fields and, of these, the ports. Of a file that is
// only partly understood it returns that part.
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
