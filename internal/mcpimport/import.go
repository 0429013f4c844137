// Package mcpimport reads the MCP servers that Claude Code, VS Code and Cursor
// know, in the bridge's own form. It changes nothing.
package mcpimport

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/openclaw/json5"
)

// Place is where to look.
type Place struct {
	Dir  string // the project
	Home string // the user's
	Env  func(name string) string
}

// Found is what one file holds.
type Found struct {
	Program string
	File    string
	Servers map[string]config.MCPServer
	Refused map[string]string // why others cannot be taken
	Notes   []string          // what the user has to do
}

// maxFile bounds a file. Claude Code keeps much more than servers in its own.
const maxFile = 64 << 20

// Files are the files that are looked at, with the programs they belong to.
func (p Place) Files() [][2]string {
	code := filepath.Join(p.Home, ".config", "Code")
	switch runtime.GOOS {
	case "darwin":
		code = filepath.Join(p.Home, "Library", "Application Support", "Code")
	case "windows":
		code = filepath.Join(cmp.Or(p.Env("APPDATA"), filepath.Join(p.Home, "AppData", "Roaming")), "Code")
	}
	return [][2]string{
		{"Claude Code", filepath.Join(cmp.Or(p.Env("CLAUDE_CONFIG_DIR"), p.Home), ".claude.json")},
		{"Claude Code", filepath.Join(p.Dir, ".mcp.json")},
		{"VS Code", filepath.Join(code, "User", "mcp.json")},
		{"VS Code", filepath.Join(p.Dir, ".vscode", "mcp.json")},
		{"Cursor", filepath.Join(p.Home, ".cursor", "mcp.json")},
		{"Cursor", filepath.Join(p.Dir, ".cursor", "mcp.json")},
	}
}

// Find reads the files that exist. One that cannot be read is an error: leaving
// it out would look as if it held nothing.
func Find(p Place) ([]Found, error) {
	var out []Found
	for _, file := range p.Files() {
		var content struct {
			Servers    map[string]map[string]any `json:"servers"`    // VS Code
			MCPServers map[string]map[string]any `json:"mcpServers"` // the others
			Projects   map[string]struct {
				MCPServers map[string]map[string]any `json:"mcpServers"`
			} `json:"projects"` // Claude Code: those of one directory
		}
		switch err := read(file[1], &content); {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, fmt.Errorf("%s: %w", file[1], err)
		}
		found := Found{Program: file[0], File: file[1], Servers: map[string]config.MCPServer{}, Refused: map[string]string{}}
		for _, servers := range []map[string]map[string]any{content.Servers, content.MCPServers, content.Projects[p.Dir].MCPServers} {
			for name, server := range servers {
				found.add(p, name, server)
			}
		}
		if len(found.Servers)+len(found.Refused) > 0 {
			out = append(out, found)
		}
	}
	return out, nil
}

// read reads JSON, with comments as VS Code allows them.
func read(file string, to any) (err error) {
	if info, err := os.Stat(file); err == nil && info.Mode()&fs.ModeNamedPipe != 0 {
		return errors.New("is a named pipe, not a file") // it could block for ever
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if len(data) > maxFile {
		return fmt.Errorf("is larger than %d MiB", maxFile>>20)
	}
	if json.Unmarshal(data, to) == nil || len(strings.TrimSpace(string(data))) == 0 {
		return nil
	}
	if data, err = json5.Standardize(data); err == nil {
		err = json.Unmarshal(data, to)
	}
	if shape := (*json.UnmarshalTypeError)(nil); errors.As(err, &shape) {
		return errors.New("has no list of MCP servers as its program writes it")
	}
	if err != nil {
		return errors.New("is not valid JSON") // the parser's text may quote a secret
	}
	return nil
}

var strange = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// add takes one server, or says why it cannot be taken.
func (f *Found) add(p Place, name string, given map[string]any) {
	short := strings.Trim(strange.ReplaceAllString(name, "-"), "-")
	short = short[:min(len(short), 64)]
	taken := map[string]any{}
	c := &converter{place: p}
	kind, _ := given["type"].(string)
	off, _ := given["disabled"].(bool)
	switch {
	case off:
		c.refuse("it is switched off there")
	case kind == "sse":
		c.refuse("it speaks the older SSE transport; if it has an address for streamable HTTP too, add that")
	case given["envFile"] != nil:
		c.refuse("it reads variables from a file (envFile)")
	}
	for _, field := range []string{"command", "args", "env", "cwd", "url", "headers"} {
		if value, ok := given[field]; ok && value != nil {
			taken[field] = c.value(value, "")
		}
	}
	var server config.MCPServer
	if c.why == "" {
		data, err := json.Marshal(taken)
		if err == nil {
			server, err = config.ParseServer(short, data, p.Dir, p.Home)
		}
		if err != nil {
			c.refuse(err.Error())
		}
	}
	if c.why != "" {
		f.Refused[name] = c.why
		return
	}
	f.Servers[short] = server
	for _, variable := range c.asked {
		f.Notes = append(f.Notes, fmt.Sprintf("%s needs %s in the environment, which %s asks for", short, variable, f.Program))
	}
}

// converter brings one server's values into the bridge's form.
type converter struct {
	place Place
	why   string   // it cannot be taken
	asked []string // variables in place of what its program asks for
}

func (c *converter) refuse(why string) { c.why = cmp.Or(c.why, why) }

// value converts the texts in a value. name is the variable or header it is for.
func (c *converter) value(v any, name string) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, inner := range v {
			if inner != nil {
				out[k] = c.value(inner, k)
			}
		}
		return out
	case []any:
		out := []any{}
		for _, inner := range v {
			out = append(out, c.value(inner, ""))
		}
		return out
	case string:
		return c.text(v, name)
	case float64, bool:
		return fmt.Sprint(v)
	}
	return v
}

var (
	special  = regexp.MustCompile(`\$\{([^}]*)\}`)
	variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(:-.*)?$`)
)

// text turns references into the bridge's own, and a secret that is also in the
// environment into a reference.
func (c *converter) text(s, name string) string {
	if len(s) >= 8 && variable.MatchString(name) && c.place.Env(name) == s {
		return "${" + name + "}"
	}
	return special.ReplaceAllStringFunc(s, func(found string) string {
		inner := found[2 : len(found)-1]
		kind, rest, _ := strings.Cut(inner, ":")
		switch {
		case kind == "env" && variable.MatchString(rest):
			return "${" + rest + "}"
		case inner == "userHome":
			return c.place.Home
		case kind == "input":
			if !variable.MatchString(name) || strings.Contains(name, ":") || found != s {
				name = strings.ToUpper(strange.ReplaceAllString(strings.ReplaceAll(rest, "-", "_"), "_"))
			}
			c.asked = append(c.asked, name)
			return "${" + name + "}"
		case variable.MatchString(inner) && inner != "workspaceFolder" && inner != "workspaceFolderBasename" && inner != "pathSeparator":
			return found
		}
		c.refuse("it uses " + found + ", which only its own program knows")
		return found
	})
}
