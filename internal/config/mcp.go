package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// MCPServer is an MCP server that Copilot's agent sessions get: a program on
// standard streams, or an address. ${NAME} in any text but the command's name
// stands for a variable of the bridge's environment, ${NAME:-text} for text
// where that is not set.
type MCPServer struct {
	Type    string            `json:"type,omitempty"` // "stdio" or "http"; says nothing that the others do not
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]Secret `json:"env,omitempty"`
	Dir     string            `json:"cwd,omitempty"` // "" for the session's
	URL     string            `json:"url,omitempty"`
	Headers map[string]Secret `json:"headers,omitempty"`
	Tools   []string          `json:"tools,omitempty"` // nil for all
}

const serverExample = `{"docs": {"url": "https://example.com/mcp"}, "files": {"command": "npx", "args": ["-y", "my-server"], "env": {"TOKEN": "${TOKEN}"}}}`

// serverName are the names that every agent leaves as they are, so that a
// tool's server is known.
var serverName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// mcpServers is a mapping from names to servers. The values of variables and
// headers are secret.
func mcpServers(field *map[string]MCPServer) kind {
	k := into(field, "a mapping from names to MCP servers, such as "+serverExample, parseServers)
	k.yaml = anyMapping
	k.reveal = func() string {
		if len(*field) == 0 {
			return ""
		}
		all := map[string]json.RawMessage{}
		for name, s := range *field {
			all[name] = s.plain()
		}
		data, err := json.Marshal(all)
		if err != nil { // they were decoded, so they can be encoded
			return ""
		}
		return string(data)
	}
	return k
}

// plain is the server as JSON, with its secrets.
func (s MCPServer) plain() json.RawMessage {
	type shown MCPServer
	data, err := json.Marshal(struct {
		shown
		Env     map[string]string `json:"env,omitempty"`
		Headers map[string]string `json:"headers,omitempty"`
	}{shown(s), Plain(s.Env), Plain(s.Headers)})
	if err != nil {
		return nil
	}
	return data
}

func parseServers(s string, at place) (map[string]MCPServer, error) {
	var each map[string]json.RawMessage
	if err := json.Unmarshal([]byte(s), &each); err != nil || each == nil {
		return nil, &refusal{hide: true}
	}
	out := map[string]MCPServer{}
	for _, name := range slices.Sorted(maps.Keys(each)) {
		server, err := parseServer(name, each[name], at)
		if err != nil {
			return nil, &refusal{text: quote(name) + ": " + err.Error(), hide: true}
		}
		out[name] = server
	}
	return out, nil
}

// serverFields says what each field must be.
var serverFields = map[string]string{
	"type": "stdio or http", "command": "a path or the name of a program", "args": "a list of texts", "env": "a mapping from variables to texts",
	"cwd": "a path", "url": "an http or https URL", "headers": "a mapping from HTTP headers to texts", "tools": "a list of names",
}

// ParseServer reads one server as it is configured. Its errors hold no values.
// dir and home are what its paths are resolved against.
func ParseServer(name string, data []byte, dir, home string) (MCPServer, error) {
	return parseServer(name, data, place{dir: dir, home: home})
}

func parseServer(name string, data []byte, at place) (MCPServer, error) {
	var s MCPServer
	if !serverName.MatchString(name) {
		return s, errors.New("a server's name has letters, digits, - and _ only")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	err := dec.Decode(&s)
	var wrong *json.UnmarshalTypeError
	fields := strings.Join(slices.Sorted(maps.Keys(serverFields)), ", ")
	switch {
	case errors.As(err, &wrong) && wrong.Field != "":
		field, _, _ := strings.Cut(wrong.Field, ".")
		return s, fmt.Errorf("%s must be %s", field, serverFields[field])
	case err != nil && strings.Contains(err.Error(), "unknown field"):
		_, field, _ := strings.Cut(err.Error(), "unknown field ")
		return s, fmt.Errorf("there is no %s; there are %s", text.Clip(field, 40), fields)
	case err != nil:
		return s, errors.New("must be a mapping with some of " + fields)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return s, errNotAllowed
	}
	return s, s.check(at)
}

func (s *MCPServer) check(at place) (err error) {
	switch {
	case s.Type != "" && s.Type != "stdio" && s.Type != "http":
		return errors.New("type must be stdio or http")
	case s.Command == "" && s.URL == "":
		return errors.New("it needs a command or a url")
	case s.Command != "" && s.URL != "":
		return errors.New("it has a command and a url; one of them says where it is")
	case s.URL != "" && (len(s.Args) > 0 || len(s.Env) > 0 || s.Dir != "" || s.Type == "stdio"):
		return errors.New("args, env and cwd are for a command, not for a url")
	case s.Command != "" && (len(s.Headers) > 0 || s.Type == "http"):
		return errors.New("headers are for a url, not for a command")
	}
	for name := range s.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || hasControl(name) {
			return errors.New("env must be " + serverFields["env"])
		}
	}
	for name, value := range s.Headers {
		if !headerName.MatchString(name) || hasControl(string(value)) {
			return errors.New("headers must be " + serverFields["headers"])
		}
	}
	if s.URL != "" {
		u, err := url.Parse(s.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
			return errors.New("url must be " + serverFields["url"])
		}
		if u.User != nil {
			return errors.New("url " + userInURL)
		}
		return nil
	}
	if s.Command, err = parseProgram(s.Command, at); err == nil && s.Dir != "" {
		s.Dir, err = resolve(s.Dir, at)
	}
	return err
}

var reference = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)(:-[^}]*)?\}`)

// Server is a server as a session gets it. Missing are variables that it needs
// and that are not set.
type Server struct {
	MCPServer
	Missing []string
}

// Servers are the configured servers with their references replaced.
func (c *Config) Servers() map[string]Server {
	out := make(map[string]Server, len(c.MCPServers))
	for name, s := range c.MCPServers {
		expanded, missing := s.expanded(func(name string) string { return string(c.variables[name]) })
		out[name] = Server{expanded, missing}
	}
	return out
}

// keepVariables keeps what the servers refer to, and no more of the environment.
func (l *loader) keepVariables() {
	l.cfg.variables = map[string]Secret{}
	for _, s := range l.cfg.MCPServers {
		s.expanded(func(name string) string {
			if l.environ[name] != "" {
				l.cfg.variables[name] = Secret(l.environ[name])
			}
			return ""
		})
	}
}

// expanded is the server with its references replaced. missing are the variables
// that are not set and have no text to stand in.
func (s MCPServer) expanded(variable func(string) string) (out MCPServer, missing []string) {
	expand := func(in string) string {
		return reference.ReplaceAllStringFunc(in, func(found string) string {
			m := reference.FindStringSubmatch(found)
			value := variable(m[1])
			if value == "" && m[2] == "" && !slices.Contains(missing, m[1]) {
				missing = append(missing, m[1])
			}
			if value == "" {
				value = strings.TrimPrefix(m[2], ":-")
			}
			return value
		})
	}
	all := func(in map[string]Secret) map[string]Secret {
		out := make(map[string]Secret, len(in))
		for _, name := range slices.Sorted(maps.Keys(in)) {
			out[name] = Secret(expand(string(in[name])))
		}
		return out
	}
	out = s
	out.Args = nil
	for _, a := range s.Args {
		out.Args = append(out.Args, expand(a))
	}
	out.URL, out.Dir, out.Env, out.Headers = expand(s.URL), expand(s.Dir), all(s.Env), all(s.Headers)
	return out, missing
}

// IsReference says whether a text is nothing but references, such as "Bearer
// ${TOKEN}", and so holds no secret itself.
func IsReference(s string) bool {
	return reference.MatchString(s) && strings.TrimSpace(strings.TrimPrefix(reference.ReplaceAllString(s, ""), "Bearer")) == ""
}

// literals are the values of variables and headers that may be secrets.
func (s MCPServer) literals() (out []string) {
	for _, values := range []map[string]Secret{s.Env, s.Headers} {
		for _, value := range values {
			if len(value) >= secretHeader {
				out = append(out, string(value))
			}
		}
	}
	return out
}

const serversKey = "mcp_servers"

// WithServers is the text of a config.yaml with servers added, or replaced where
// they exist.
func WithServers(path string, data []byte, servers map[string]MCPServer) ([]byte, error) {
	return edited(path, data, func(f *yamlFile) error {
		return f.changeServers(func(all map[string]json.RawMessage) error {
			for _, name := range slices.Sorted(maps.Keys(servers)) {
				all[name] = servers[name].plain()
				if err := f.putServer(name, servers[name]); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// WithoutServer is the text of a config.yaml without a server that it has.
func WithoutServer(path string, data []byte, name string) ([]byte, error) {
	return edited(path, data, func(f *yamlFile) error {
		return f.changeServers(func(all map[string]json.RawMessage) error {
			delete(all, name)
			whole, entry, err := f.server(name)
			if err != nil || entry == nil {
				return errForm
			}
			if len(all) == 0 {
				entry = whole
			}
			f.lines = slices.Delete(f.lines, lineOf(entry.Key)-1, f.end(entry))
			return nil
		})
	})
}

// changeServers lets change alter the lines and say what servers there shall be
// then, and makes sure that this and nothing else has come about.
func (f *yamlFile) changeServers(change func(all map[string]json.RawMessage) error) error {
	if _, err := f.root(); err != nil && !errors.Is(err, errForm) {
		return err
	}
	before, faults := parseYAML([]byte(f.text()), f.table)
	all := map[string]json.RawMessage{}
	if was := before[serversKey].value; was != "" {
		if err := json.Unmarshal([]byte(was), &all); err != nil {
			return refused(serversKey+" in "+f.path+" is no mapping", "Correct it with `copilot-bridge config edit`.")
		}
	}
	err := change(all)
	want, failed := json.Marshal(all)
	if err = errors.Join(err, failed); err == nil {
		if len(all) == 0 {
			want = nil
		}
		err = f.onlyChanged(before, len(faults), serversKey, string(want))
	}
	if errors.Is(err, errForm) {
		return refused(serversKey+" in "+f.path+" has a form that cannot be changed in place", "Change it with `copilot-bridge config edit`.")
	}
	return err
}

// server finds the mapping of all servers and the entry of one; nil where there
// is none.
func (f *yamlFile) server(name string) (whole, entry *ast.MappingValueNode, err error) {
	pairs, err := f.root()
	if err != nil {
		return nil, nil, err
	}
	for _, p := range pairs {
		if p.Key.GetToken().Value != serversKey {
			continue
		}
		inner, ok := mapping(p.Value)
		if flow(p.Value) || !ok && !isNull(p.Value) {
			return nil, nil, errForm
		}
		for _, in := range inner {
			if in.Key.GetToken().Value == name {
				return p, in, nil
			}
		}
		return p, nil, nil
	}
	return nil, nil, nil
}

// putServer writes one server, a line for each of its fields.
func (f *yamlFile) putServer(name string, s MCPServer) error {
	whole, entry, err := f.server(name)
	if err != nil {
		return err
	}
	indent := "  "
	inner, _ := mapping(valueNode(whole))
	switch {
	case entry != nil:
		indent = indentOf(entry)
	case len(inner) > 0:
		indent = indentOf(inner[0])
	case whole != nil:
		indent = indentOf(whole) + "  "
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(s.plain(), &fields); err != nil {
		return err
	}
	lines := []string{indent + name + ":"}
	for _, field := range []string{"type", "command", "args", "env", "cwd", "url", "headers", "tools"} {
		if value, ok := fields[field]; ok {
			lines = append(lines, indent+"  "+field+": "+string(value))
		}
	}
	switch {
	case entry != nil:
		f.lines = slices.Replace(f.lines, lineOf(entry.Key)-1, f.end(entry), lines...)
		return nil
	case len(inner) > 0:
		return f.insert(f.end(inner[len(inner)-1]), lines...)
	case whole != nil:
		return f.insert(f.end(whole), lines...)
	}
	return f.append(append([]string{serversKey + ":"}, lines...)...)
}

func valueNode(p *ast.MappingValueNode) ast.Node {
	if p == nil {
		return nil
	}
	return p.Value
}
