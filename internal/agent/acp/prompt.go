package acp

import (
	"encoding/base64"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
)

// newSession words a session for the agent.
func (l *link) newSession(spec bridge.SessionSpec) (acpwire.NewSessionRequest, error) {
	dir, err := filepath.Abs(spec.WorkingDir)
	if err != nil {
		return acpwire.NewSessionRequest{}, &bridge.Error{Code: bridge.CodeInvalid, Message: "the working directory is not known", Cause: err}
	}
	req := acpwire.NewSessionRequest{Cwd: dir}
	for name, m := range spec.MCPServers {
		if !l.startsServers() {
			if l.servers == "" && !m.Own { // nobody has asked for the others by name
				return req, unsupported("start MCP servers when Copilot's CLI is reached over TCP")
			}
			continue
		}
		s := acpwire.MCPServer{Name: name, Command: m.Command, Args: m.Args}
		if m.URL != "" {
			if !l.init.Capabilities.MCP.HTTP && m.Own {
				continue
			}
			if !l.init.Capabilities.MCP.HTTP {
				return req, unsupported("use MCP servers over HTTP")
			}
			s = acpwire.MCPServer{Type: "http", Name: name, URL: m.URL, Headers: pairs(m.Headers)}
		} else {
			s.Env = pairs(m.Env)
		}
		req.MCPServers = append(req.MCPServers, s)
	}
	slices.SortStableFunc(req.MCPServers, func(a, b acpwire.MCPServer) int { return strings.Compare(a.Name, b.Name) })
	return req, nil
}

func pairs(m map[string]string) []acpwire.NameVal {
	out := []acpwire.NameVal{}
	for k, v := range m {
		out = append(out, acpwire.NameVal{Name: k, Value: v})
	}
	slices.SortStableFunc(out, func(a, b acpwire.NameVal) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// command is a prompt that an agent may take for an order to itself.
var command = regexp.MustCompile(`^/([A-Za-z][A-Za-z0-9_-]*)(\s|$)`)

// passed are the commands that only look at or shorten the conversation. Of
// the others some end the asking for permission (Copilot: /allow-all, /yolo,
// /permissions, /autopilot, /add-dir), by names that change with versions.
var passed = []string{"compact", "context", "usage", "help"}

// blocks words a prompt, in the types of content that the agent takes.
func (s *conversation) blocks(p bridge.Prompt) ([]acpwire.ContentBlock, error) {
	switch {
	case p.ResponseFormat != nil:
		return nil, unsupported("be bound to a response format")
	case len(p.Headers) > 0:
		return nil, unsupported("send headers to the model's provider")
	}
	if m := command.FindStringSubmatch(strings.TrimSpace(p.Text)); m != nil && !slices.Contains(passed, m[1]) {
		return nil, &bridge.Error{Code: bridge.CodeDenied, Message: "the command /" + m[1] + " is not passed on: an agent's own commands can switch its permission requests off",
			Remedy: "put a word before it if it was not meant as a command"}
	}
	var out []acpwire.ContentBlock
	s.mu.Lock()
	if text := s.Spec.System.Text; text != "" && !s.told {
		// The protocol has no place for it.
		out = append(out, acpwire.Text("[SYSTEM]\n"+text+"\n[USER]\n"))
	}
	s.mu.Unlock()
	out = append(out, acpwire.Text(p.Text))
	for _, a := range p.Attachments {
		b, err := s.attachment(a)
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

func (s *conversation) attachment(a bridge.Attachment) (acpwire.ContentBlock, error) {
	can := s.link.init.Capabilities.Prompt
	name := a.Name
	if a.Path != "" {
		path, err := filepath.Abs(a.Path)
		if err != nil {
			return acpwire.ContentBlock{}, &bridge.Error{Code: bridge.CodeInvalid, Message: "cannot attach " + a.Path, Cause: err}
		}
		if name == "" {
			name = filepath.Base(path)
		}
		u := url.URL{Scheme: "file", Path: filepath.ToSlash(path)}
		return acpwire.ContentBlock{Type: acpwire.ContentResourceLink, Name: name, URI: u.String(), MIMEType: a.MIME}, nil
	}
	if len(a.Data) == 0 {
		return acpwire.ContentBlock{}, &bridge.Error{Code: bridge.CodeInvalid, Message: "an attachment needs a path or data"}
	}
	if name == "" {
		name = "attachment"
	}
	encoded := base64.StdEncoding.EncodeToString(a.Data)
	uri := "attachment:///" + url.PathEscape(name)
	switch {
	case strings.HasPrefix(a.MIME, "image/") && can.Image:
		return acpwire.ContentBlock{Type: acpwire.ContentImage, Data: encoded, MIMEType: a.MIME}, nil
	case strings.HasPrefix(a.MIME, "audio/") && can.Audio:
		return acpwire.ContentBlock{Type: acpwire.ContentAudio, Data: encoded, MIMEType: a.MIME}, nil
	case utf8.Valid(a.Data) && can.EmbeddedContext:
		text := string(a.Data)
		return acpwire.ContentBlock{Type: acpwire.ContentResource, Resource: &acpwire.Resource{URI: uri, MIMEType: a.MIME, Text: &text}}, nil
	case utf8.Valid(a.Data):
		return acpwire.Text("\n[" + name + "]\n" + string(a.Data) + "\n"), nil
	case can.EmbeddedContext:
		return acpwire.ContentBlock{Type: acpwire.ContentResource, Resource: &acpwire.Resource{URI: uri, MIMEType: a.MIME, Blob: &encoded}}, nil
	}
	return acpwire.ContentBlock{}, unsupported("take attachments of type " + a.MIME)
}
