package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
)

func (d *door) newSession(ctx context.Context, p acpwire.NewSessionRequest) (any, error) {
	s, err := d.open(ctx, "", p)
	if err != nil {
		return nil, err
	}
	s.announce(ctx)
	out := s.state()
	out.SessionID = s.live.ID()
	return out, nil
}

// resume opens a stored session.
func (d *door) resume(ctx context.Context, p acpwire.NewSessionRequest) (any, error) {
	return d.reopen(ctx, p, false)
}

// load opens a stored session and replays it.
func (d *door) load(ctx context.Context, p acpwire.NewSessionRequest) (any, error) {
	return d.reopen(ctx, p, true)
}

func (d *door) reopen(ctx context.Context, p acpwire.NewSessionRequest, replay bool) (any, error) {
	if p.SessionID == "" {
		return nil, invalid("sessionId", "it is required")
	}
	if s := d.find(p.SessionID); s != nil {
		// It is opened anew: the directory and the servers may be others.
		if s.running() != nil {
			return nil, errBusy(p.SessionID)
		}
		if err := d.closeIfOpen(ctx, p.SessionID); err != nil {
			return nil, err
		}
	}
	s, err := d.open(ctx, p.SessionID, p)
	if err != nil {
		return nil, err
	}
	if replay {
		if err := s.replay(ctx); err != nil {
			return nil, errors.Join(err, d.closeIfOpen(ctx, p.SessionID))
		}
	}
	s.announce(ctx)
	return s.state(), nil
}

// open opens a new session, or with an id a stored one.
func (d *door) open(ctx context.Context, id string, p acpwire.NewSessionRequest) (*session, error) {
	o, err := opening(p)
	if err != nil {
		return nil, err
	}
	leave, err := d.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	s := newSession(d, p.Cwd)
	o.Asker = s
	d.mu.Lock()
	e := d.client.Elicitation
	o.Client = d.name
	d.mu.Unlock()
	if e != nil && e.Form != nil {
		o.Person = person{s}
	}
	if id != "" {
		s.live, err = d.service.Resume(ctx, id, o)
		s.named = true
	} else {
		s.live, err = d.service.Open(ctx, o)
	}
	if err != nil {
		return nil, err
	}
	s.choose(d.modelList(ctx))
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sessions == nil || ctx.Err() != nil || d.sessions[s.live.ID()] != nil {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
		defer cancel()
		return nil, errors.Join(&bridge.Error{Code: bridge.CodeConflict, Message: "session " + s.live.ID() + " was opened twice, or the client has gone"},
			s.live.Close(closing))
	}
	d.sessions[s.live.ID()] = s
	return s, nil
}

// enter takes a place among the open sessions until it is left or filled.
func (d *door) enter() (leave func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.sessions)+d.opening >= maxSessions {
		return nil, &bridge.Error{Code: bridge.CodeBusy, Message: fmt.Sprintf("busy: %d sessions are open", maxSessions),
			Remedy: "close some with session/close"}
	}
	d.opening++
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.opening--
	}, nil
}

// opening checks what a client wants of a session.
func opening(p acpwire.NewSessionRequest) (Opening, error) {
	o := Opening{WorkingDir: p.Cwd, MCPServers: map[string]bridge.MCPServer{}}
	switch info, err := os.Stat(p.Cwd); {
	case !filepath.IsAbs(p.Cwd):
		return o, invalid("cwd", "it must be an absolute path")
	case err != nil || !info.IsDir():
		return o, invalid("cwd", p.Cwd+" is no directory that can be used")
	}
	if err := o.readMeta(p.Meta); err != nil {
		return o, err
	}
	if len(p.Directories) > 0 {
		return o, invalid("additionalDirectories", "a session has one workspace, which the policy is about; open another session for another directory")
	}
	for i, m := range p.MCPServers {
		at := "mcpServers[" + strconv.Itoa(i) + "]"
		server := bridge.MCPServer{Command: m.Command, Args: m.Args, URL: m.URL}
		switch {
		case m.Name == "":
			return o, invalid(at+".name", "it is required")
		case o.MCPServers[m.Name].Command != "" || o.MCPServers[m.Name].URL != "":
			return o, invalid(at+".name", "two servers are called "+m.Name)
		case m.Type == "sse":
			return o, invalid(at+".type", "servers of the old kind (sse) cannot be used; many of them speak http too")
		case m.Type != "" && m.Type != "http" && m.Type != "stdio":
			return o, invalid(at+".type", "there is no kind "+m.Type)
		case m.Type == "http" && m.URL == "" || m.Type != "http" && m.Command == "":
			return o, invalid(at, "it has neither a command nor a url")
		}
		server.Env, server.Headers = pairs(m.Env), pairs(m.Headers)
		o.MCPServers[m.Name] = server
	}
	return o, nil
}

// readMeta reads what only this agent knows: in "_meta" the member
// "copilot-bridge", whose requestHeaders go with the session's requests.
func (o *Opening) readMeta(raw json.RawMessage) error {
	if len(raw) == 0 {
		return nil
	}
	var meta struct {
		Ours struct {
			Headers map[string]string `json:"requestHeaders"`
		} `json:"copilot-bridge"`
	}
	if err := json.Unmarshal(raw, &meta); err != nil {
		return invalid("_meta", `its "copilot-bridge" is not an object with requestHeaders, which are texts`)
	}
	for name, value := range meta.Ours.Headers {
		if name == "" || strings.ContainsFunc(name+value, unicode.IsControl) {
			return invalid("_meta", "a request header has no name, or a control character in it")
		}
	}
	o.Headers = meta.Ours.Headers
	return nil
}

func pairs(list []acpwire.NameVal) map[string]string {
	if len(list) == 0 {
		return nil
	}
	out := map[string]string{}
	for _, v := range list {
		out[v.Name] = v.Value
	}
	return out
}

func invalid(field, why string) error {
	return &bridge.Error{Code: bridge.CodeInvalid, Message: field + ": " + why}
}

// pageSize is how many sessions one answer lists.
const pageSize = 50

func (d *door) list(ctx context.Context, p acpwire.ListSessionsRequest) (any, error) {
	all, err := d.service.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	if p.Cwd != "" {
		dir := filepath.Clean(p.Cwd)
		all = slices.DeleteFunc(all, func(s bridge.SessionInfo) bool { return filepath.Clean(s.WorkingDir) != dir })
	}
	// The protocol cannot list sessions without a directory.
	all = slices.DeleteFunc(all, func(s bridge.SessionInfo) bool { return !filepath.IsAbs(s.WorkingDir) })
	from := 0
	if p.Cursor != "" {
		// It is the last session of the page before; the list moves meanwhile.
		from = slices.IndexFunc(all, func(s bridge.SessionInfo) bool { return s.ID == p.Cursor }) + 1
		if from == 0 {
			return nil, invalid("cursor", "it is not one of ours, or its session is gone; begin again without one")
		}
	}
	var out acpwire.ListSessionsResponse
	for _, s := range all[from:min(len(all), from+pageSize)] {
		info := acpwire.SessionInfo{SessionID: s.ID, Cwd: s.WorkingDir, Title: s.Title}
		if !s.Modified.IsZero() {
			info.UpdatedAt = s.Modified.UTC().Format(time.RFC3339Nano)
		}
		out.Sessions = append(out.Sessions, info)
	}
	if from+pageSize < len(all) {
		out.NextCursor = all[from+pageSize-1].ID
	}
	return out, nil
}

func (d *door) closeSession(ctx context.Context, p acpwire.SessionRef) (any, error) {
	d.mu.Lock()
	s := d.sessions[p.SessionID]
	delete(d.sessions, p.SessionID)
	d.mu.Unlock()
	if s == nil {
		return nil, errNotOpen(p.SessionID)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
	defer cancel()
	return struct{}{}, s.end(ctx)
}

func (d *door) closeIfOpen(ctx context.Context, id string) error {
	_, err := d.closeSession(ctx, acpwire.SessionRef{SessionID: id})
	if bridge.CodeOf(err) == bridge.CodeNotFound {
		return nil
	}
	return err
}

func (d *door) delete(ctx context.Context, p acpwire.SessionRef) (any, error) {
	if p.SessionID == "" {
		return nil, invalid("sessionId", "it is required")
	}
	if err := d.closeIfOpen(ctx, p.SessionID); err != nil {
		return nil, err
	}
	return struct{}{}, d.service.Delete(ctx, p.SessionID)
}

// modelList asks once for the models. A session works without them too.
func (d *door) modelList(ctx context.Context) []bridge.Model {
	d.mu.Lock()
	known := d.models
	d.mu.Unlock()
	if known != nil {
		return known
	}
	ctx, cancel := context.WithTimeout(ctx, modelsWithin)
	defer cancel()
	list, err := d.service.Models(ctx)
	if err != nil {
		d.opts.Logger.Warn("acp.models_unknown", "error", err)
		return nil
	}
	seen := map[string]bool{"": true} // a provider may list one twice
	list = slices.DeleteFunc(list, func(m bridge.Model) bool {
		twice := seen[m.ID]
		seen[m.ID] = true
		return twice
	})
	d.mu.Lock()
	d.models = list
	d.mu.Unlock()
	return list
}
