package capabilities

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// The files of a runtime's package that describe it.
const (
	apiFile      = "api.schema.json"
	eventsFile   = "session-events.schema.json"
	schemaFolder = "schemas"
)

// maxSchema bounds a schema file; today's are under 2 MB.
const maxSchema = 32 << 20

// node is as much of JSON Schema as the runtime's files use, and the
// extension by which they describe methods.
type node struct {
	Ref         string           `json:"$ref"`
	Type        json.RawMessage  `json:"type"`
	Const       json.RawMessage  `json:"const"`
	Enum        []any            `json:"enum"`
	AnyOf       []*node          `json:"anyOf"`
	Items       *node            `json:"items"`
	Properties  map[string]*node `json:"properties"`
	Required    []string         `json:"required"`
	Description string           `json:"description"`
	Stability   string           `json:"stability"`
	Visibility  string           `json:"visibility"`
	Deprecated  bool             `json:"deprecated"`
	Definitions map[string]*node `json:"definitions"`

	RPCMethod string `json:"rpcMethod"`
	Params    *node  `json:"params"`
	Result    *node  `json:"result"`
}

// PackageOf finds the package that a runtime's program belongs to: the
// nearest directory above it that has schemas.
func PackageOf(program string) (string, error) {
	for dir := filepath.Dir(program); ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, schemaFolder, eventsFile)); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", &bridge.Error{Code: bridge.CodeNotFound, Message: "no schemas belong to the runtime " + program,
				Remedy: "use the native runtime, which `copilot-bridge setup` installs: its package describes itself"}
		}
	}
}

// ReadSurface reads the schemas of a runtime's package directory.
func ReadSurface(dir string) (*Surface, error) {
	s := &Surface{Digests: map[string]string{}}
	manifest, err := readFile(filepath.Join(dir, "package.json"))
	if err != nil {
		return nil, err
	}
	var pkg struct{ Name, Version string }
	if err := json.Unmarshal(manifest, &pkg); err != nil {
		return nil, broken(filepath.Join(dir, "package.json"), err)
	}
	s.Version = pkg.Version
	// The inventory is the same on every platform.
	s.Package = "@github/copilot-sdk-<platform>"
	if !strings.HasPrefix(pkg.Name, "@github/copilot-sdk-") {
		s.Package = pkg.Name
	}
	for name, add := range map[string]func([]byte) error{apiFile: s.addAPI, eventsFile: s.addEvents} {
		path := filepath.Join(dir, schemaFolder, name)
		b, err := readFile(path)
		if err != nil {
			return nil, err
		}
		if err := add(b); err != nil {
			return nil, broken(path, err)
		}
		sum := sha256.Sum256(b)
		s.Digests[name] = hex.EncodeToString(sum[:])
	}
	return s, nil
}

func broken(path string, err error) error {
	return &bridge.Error{Code: bridge.CodeInvalid, Message: path + " is not what a Copilot runtime's package has there", Cause: err,
		Remedy: "install the runtime again: `copilot-bridge setup`"}
}

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && info.Size() > maxSchema {
		err = fmt.Errorf("%d bytes are too many", info.Size())
	}
	var b []byte
	if err == nil {
		b, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, &bridge.Error{Code: bridge.CodeNotFound, Message: "cannot read " + path, Cause: err,
			Remedy: "name the directory of a runtime's npm package: it has package.json and schemas/"}
	}
	return b, nil
}

// book resolves references.
type book map[string]*node

func (b book) find(n *node) *node {
	for range 16 { // longer chains are circles
		if n == nil || n.Ref == "" {
			break
		}
		n = b[n.Ref[strings.LastIndexByte(n.Ref, '/')+1:]]
	}
	if n == nil {
		return &node{}
	}
	return n
}

// fields lists the properties of an object, by name.
func (b book) fields(n *node, without ...string) []Field {
	n = b.find(n)
	var out []Field
	for _, name := range slices.Sorted(maps.Keys(n.Properties)) {
		if p := n.Properties[name]; p != nil && !slices.Contains(without, name) {
			out = append(out, Field{Name: name, Type: typeName(p, 0), Optional: !slices.Contains(n.Required, name)})
		}
	}
	return out
}

// typeName writes a type the way people do.
func typeName(n *node, depth int) string {
	switch {
	case n == nil || depth > 4:
		return "any"
	case n.Ref != "":
		return n.Ref[strings.LastIndexByte(n.Ref, '/')+1:]
	case n.Const != nil:
		return string(n.Const)
	case len(n.Enum) > 0:
		values := make([]string, len(n.Enum))
		for i, v := range n.Enum {
			values[i] = fmt.Sprintf("%q", fmt.Sprint(v))
		}
		return strings.Join(values, " | ")
	case len(n.AnyOf) > 0:
		parts := make([]string, len(n.AnyOf))
		for i, p := range n.AnyOf {
			parts[i] = typeName(p, depth+1)
		}
		return strings.Join(parts, " | ")
	}
	var one string
	var several []string
	switch {
	case json.Unmarshal(n.Type, &one) == nil && one == "array":
		return typeName(n.Items, depth+1) + "[]"
	case json.Unmarshal(n.Type, &one) == nil && one != "":
		return one
	case json.Unmarshal(n.Type, &several) == nil && len(several) > 0:
		return strings.Join(several, " | ")
	}
	return "any"
}

// sentence is the first one of a description, on one line.
func sentence(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	for i := 0; i+1 < len(s); i++ {
		if s[i] == '.' && s[i+1] == ' ' && !strings.HasSuffix(s[:i], "e.g") && !strings.HasSuffix(s[:i], "i.e") {
			return s[:i+1]
		}
	}
	return s
}

func status(nodes ...*node) Status {
	var s Status
	for _, n := range nodes {
		s.Experimental = s.Experimental || n.Stability == "experimental"
		s.Internal = s.Internal || n.Visibility == "internal"
		s.Deprecated = s.Deprecated || n.Deprecated
	}
	return s
}
