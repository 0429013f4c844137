package openai

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/door/wire"
)

// maxToolName is how long a tool's name may be for the model's providers.
const maxToolName = 64

// defaultNamespace is the one whose tools are known by their bare names.
const defaultNamespace = "functions"

// toolName is what a client calls a tool.
type toolName struct{ namespace, name string }

// flat is the name that the model sees, which knows no namespaces and only
// some characters. What does not fit keeps apart by a hash.
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

type responseTool struct {
	toolName
	kind toolKind
}

// responseTools are the tools that a client runs, under the names that the
// model sees and those that the client gave.
type responseTools struct {
	specs   []bridge.ToolSpec
	calls   map[string]responseTool // by the model's name
	names   map[toolName]string     // the model's name
	dropped []string                // the kinds that run nowhere, for the log
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

// declare adds the tools of a list. Kinds that OpenAI runs itself are left
// out: the model is never told of them.
func (t *responseTools) declare(path string, raw json.RawMessage) error {
	return t.declareIn("", path, raw)
}

func (t *responseTools) declareIn(namespace, path string, raw json.RawMessage) error {
	if !given(raw) {
		return nil
	}
	var list []responseToolSpec
	if err := wire.Unmarshal(raw, &list); err != nil {
		return wire.Within(path, err)
	}
	for i, spec := range list {
		here := fmt.Sprintf("%s[%d]", path, i)
		if err := t.add(namespace, here, spec); err != nil {
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
		return t.declareIn(spec.Name, path+".tools", spec.Tools)
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

// freeform describes a tool that takes a text as a function with one
// parameter, because functions are all that the runtime can offer the model.
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

// flat is the model's name of a tool; one that is not offered any more may
// still stand in the history.
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

// toolRef names a tool in tool_choice.
type toolRef struct {
	Type      string `json:"type"`
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

// choose reads tool_choice: which tools are offered, and whether one must be
// called.
func (t *responseTools) choose(raw json.RawMessage) ([]bridge.ToolSpec, bridge.ToolChoice, error) {
	auto := bridge.ToolChoice{}
	switch wire.KindOf(raw) {
	case wire.Invalid, wire.Null:
		return t.specs, auto, nil
	case wire.String:
		var mode string
		if err := wire.Unmarshal(raw, &mode); err != nil {
			return nil, auto, wire.Within("tool_choice", err)
		}
		choice, err := toolMode("tool_choice", mode, t.specs)
		return t.specs, choice, err
	case wire.Object:
	case wire.Bool, wire.Number, wire.Array:
		return nil, auto, wire.Within("tool_choice", wire.Expected(raw, "a string or an object"))
	}
	var object struct {
		toolRef
		Mode  string    `json:"mode"`
		Tools []toolRef `json:"tools"`
	}
	if err := wire.Unmarshal(raw, &object); err != nil {
		return nil, auto, wire.Within("tool_choice", err)
	}
	switch object.Type {
	case "function", "custom":
		flat, err := t.chosen("tool_choice", object.toolRef)
		return t.specs, bridge.ToolChoice{Mode: bridge.ToolNamed, Name: flat}, err
	case "allowed_tools":
		allowed, err := t.allowed(object.Tools)
		if err != nil {
			return nil, auto, err
		}
		choice, err := toolMode("tool_choice.mode", object.Mode, allowed)
		return allowed, choice, err
	default:
		return nil, auto, wire.At("tool_choice.type", "%q is not a tool that can be called here: only function and custom tools are", object.Type)
	}
}

// allowed keeps those of the tools that are named, in their own order; the
// kinds that run nowhere are not missed.
func (t *responseTools) allowed(refs []toolRef) ([]bridge.ToolSpec, error) {
	keep := map[string]bool{}
	for i, ref := range refs {
		if ref.Type != "function" && ref.Type != "custom" {
			continue
		}
		flat, err := t.chosen(fmt.Sprintf("tool_choice.tools[%d]", i), ref)
		if err != nil {
			return nil, err
		}
		keep[flat] = true
	}
	var specs []bridge.ToolSpec
	for _, spec := range t.specs {
		if keep[spec.Name] {
			specs = append(specs, spec)
		}
	}
	return specs, nil
}

func (t *responseTools) chosen(path string, ref toolRef) (string, error) {
	flat := t.flat(toolName{ref.Namespace, ref.Name})
	if _, ok := t.calls[flat]; !ok {
		return "", wire.At(path+".name", "there is no tool %q in tools", ref.Name)
	}
	return flat, nil
}

func toolMode(path, mode string, specs []bridge.ToolSpec) (bridge.ToolChoice, error) {
	switch mode {
	case "", "auto":
		return bridge.ToolChoice{}, nil
	case "none":
		return bridge.ToolChoice{Mode: bridge.ToolNone}, nil
	case "required":
		if len(specs) == 0 {
			return bridge.ToolChoice{}, wire.At(path, "a tool call is required, but there is no function or custom tool to call")
		}
		return bridge.ToolChoice{Mode: bridge.ToolRequired}, nil
	default:
		return bridge.ToolChoice{}, wire.At(path, "expected none, auto or required, got %q", mode)
	}
}
