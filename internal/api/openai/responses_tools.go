package openai

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
)

// maxToolName is how long a tool's name may be for the model's providers.
const maxToolName = 64

// defaultNamespace is the one whose tools are known by their bare names.
const defaultNamespace = "functions"

// toolName is what a client calls a tool.
type toolName struct{ namespace, name string }

// flat is the model's name of a tool, without a namespace. A hash keeps names apart
// that have other characters or are too long.
func (n toolName) flat() string {
	if n.namespace == "" {
		return n.name
	}
	full := n.namespace + "__" + n.name
	switch {
	case n.namespace == defaultNamespace:
		full = n.name
	case strings.HasSuffix(n.namespace, "__"):
		full = n.namespace + n.name
	}
	clean := strings.Map(func(c rune) rune {
		if c == '_' || c == '-' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' {
			return c
		}
		return '_'
	}, full)
	if clean == full && len(full) <= maxToolName {
		return full
	}
	return n.hashed(clean)
}

func (n toolName) hashed(name string) string {
	sum := sha256.Sum256([]byte(n.namespace + "\x00" + n.name))
	tail := "_" + hex.EncodeToString(sum[:4])
	return name[:min(len(name), maxToolName-len(tail))] + tail
}

// toolKind says in which form a client wants to be called.
type toolKind int

const (
	toolFunction toolKind = iota
	toolCustom            // its input is a text, not JSON
	toolSearch            // the client's search for more tools
)

// responseTool is a tool as the client declared it.
type responseTool struct {
	toolName
	kind toolKind
}

// responseTools are the client's tools, by its names and by the model's.
type responseTools struct {
	specs   []bridge.ToolSpec
	calls   map[string]responseTool // by the model's name
	names   map[toolName]string     // the model's name
	dropped []string                // the kinds that run nowhere, for the log
}

func newResponseTools() *responseTools {
	return &responseTools{calls: map[string]responseTool{}, names: map[toolName]string{}}
}

// responseToolSpec is an element of tools.
type responseToolSpec struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  map[string]any  `json:"parameters"`
	Execution   string          `json:"execution"`
	Tools       json.RawMessage `json:"tools"`
	Format      struct {
		Syntax     string `json:"syntax"`
		Definition string `json:"definition"`
	} `json:"format"`
}

// declare adds the tools of a list, without those that OpenAI runs itself.
func (t *responseTools) declare(namespace, path string, data json.RawMessage) error {
	var list []responseToolSpec
	if err := raw(path, data, &list); err != nil {
		return err
	}
	for i, spec := range list {
		if err := t.add(namespace, fmt.Sprintf("%s[%d]", path, i), spec); err != nil {
			return err
		}
	}
	return nil
}

func (t *responseTools) add(namespace, path string, spec responseToolSpec) error {
	schema, description, kind := spec.Parameters, spec.Description, toolFunction
	switch spec.Type {
	case "function":
	case "custom":
		kind = toolCustom
		schema, description = freeform(spec)
	case "tool_search":
		if spec.Execution != "client" {
			t.dropped = append(t.dropped, spec.Type)
			return nil
		}
		kind, spec.Name = toolSearch, spec.Type
	case "namespace":
		if namespace != "" {
			return wire.At(path+".type", "a namespace cannot stand in another")
		}
		if spec.Name == "" {
			return wire.At(path+".name", "is required")
		}
		return t.declare(spec.Name, path+".tools", spec.Tools)
	case "":
		return wire.At(path+".type", "is required")
	default:
		t.dropped = append(t.dropped, spec.Type)
		return nil
	}
	if spec.Name == "" {
		return wire.At(path+".name", "is required")
	}
	if schema == nil {
		schema = map[string]any{"type": "object", "properties": map[string]any{}}
	}
	name := toolName{namespace, spec.Name}
	if _, known := t.names[name]; known {
		return nil // a tool that was found by a search comes again with each
	}
	flat := name.flat()
	for salt := name; ; salt.name += "'" {
		if _, taken := t.calls[flat]; !taken {
			break
		}
		flat = salt.hashed(name.flat())
	}
	t.names[name] = flat
	t.calls[flat] = responseTool{name, kind}
	t.specs = append(t.specs, bridge.ToolSpec{Name: flat, Description: description, Schema: schema})
	return nil
}

// freeform describes a tool that takes a text as a function with one parameter.
func freeform(spec responseToolSpec) (schema map[string]any, description string) {
	description = strings.TrimSpace(spec.Description + "\n\nGive the text as the parameter `input`, unchanged and whole.")
	if spec.Format.Definition != "" {
		description += fmt.Sprintf(" It must match this %s grammar:\n%s", spec.Format.Syntax, spec.Format.Definition)
	}
	return map[string]any{
		"type":                 "object",
		"properties":           map[string]any{"input": map[string]any{"type": "string", "description": "The text that the tool takes."}},
		"required":             []any{"input"},
		"additionalProperties": false,
	}, description
}

// flat is the model's name of a tool, also of one that only the history has.
func (t *responseTools) flat(name toolName) string {
	if flat, ok := t.names[name]; ok {
		return flat
	}
	if name.namespace == "" {
		// Its namespace may be left out where it is the default.
		if flat, ok := t.names[toolName{defaultNamespace, name.name}]; ok {
			return flat
		}
	}
	return name.flat()
}

// responseToolChoice is tool_choice: a word, here its Mode, or an object.
type responseToolChoice struct {
	toolRef
	Mode  string    `json:"mode"`
	Tools []toolRef `json:"tools"`
}

type toolRef struct {
	Type      string `json:"type"`
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

// UnmarshalJSONFrom reads either form.
func (c *responseToolChoice) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	type object responseToolChoice // without this method
	return wire.Forms{String: &c.Mode, Object: (*object)(c)}.Decode(dec)
}

// choose reads tool_choice.
func (t *responseTools) choose(c *bridge.Chat, data json.RawMessage) error {
	var choice responseToolChoice
	if err := raw("tool_choice", data, &choice); err != nil {
		return err
	}
	isObject := wire.KindOf(data) == wire.Object
	switch choice.Type {
	case "function", "custom":
		return chooseTool(c, "tool_choice.name", t.flat(choice.toolName()))
	case "allowed_tools":
		var names []string
		for i, ref := range choice.Tools {
			if ref.Type != "function" && ref.Type != "custom" {
				continue // OpenAI's own tools run nowhere
			}
			name := t.flat(ref.toolName())
			if !offers(c, name) {
				return unknownTool(fmt.Sprintf("tool_choice.tools[%d].name", i), ref.Name)
			}
			names = append(names, name)
		}
		keepTools(c, names)
		return chooseMode(c, "tool_choice.mode", choice.Mode)
	}
	if isObject {
		return wire.At("tool_choice.type", "%q is not a tool that can be called here: only function and custom tools are", choice.Type)
	}
	return chooseMode(c, "tool_choice", choice.Mode)
}

func (r toolRef) toolName() toolName { return toolName{r.Namespace, r.Name} }
