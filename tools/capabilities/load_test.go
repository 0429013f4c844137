package capabilities

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	module     = "github.com/copilot-bridge/copilot-bridge"
	sdkModule  = "github.com/github/copilot-sdk/go"
	rpcPackage = sdkModule + "/rpc"
)

// goPackage is what `go list` says of a package.
type goPackage struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
	Export     string
	Module     *struct{ Path, Version, Dir string }
}

// checked is a package with its types known.
type checked struct {
	goPackage
	files map[string]*ast.File // by path relative to the module
	types *types.Package
	info  *types.Info
}

// code is the SDK and those packages of the bridge that import it.
type code struct {
	fset  *token.FileSet
	sdk   map[string]*checked
	users []*checked
}

// load reads the SDK and its users from source. All that they import comes from
// export data, which the build cache has or makes now.
func load(t *testing.T) *code {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-export",
		"-json=ImportPath,Dir,GoFiles,Imports,Export,Module", module+"/internal/...", module+"/cmd/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	all := map[string]goPackage{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("read go list: %v", err)
		}
		all[p.ImportPath] = p
	}
	c := &code{fset: token.NewFileSet(), sdk: map[string]*checked{}}
	imp := importer.ForCompiler(c.fset, "gc", func(path string) (io.ReadCloser, error) {
		p, ok := all[path]
		if !ok || p.Export == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(p.Export)
	})
	for path, p := range all {
		switch {
		case path == sdkModule || path == rpcPackage:
			c.sdk[path] = c.check(t, p, imp)
		case strings.HasPrefix(path, module) && (slices.Contains(p.Imports, sdkModule) || slices.Contains(p.Imports, rpcPackage)):
			c.users = append(c.users, c.check(t, p, imp))
		}
	}
	if c.sdk[sdkModule] == nil || c.sdk[rpcPackage] == nil || len(c.users) == 0 {
		t.Fatal("the SDK, or the code that uses it, was not found")
	}
	return c
}

func (c *code) check(t *testing.T, p goPackage, imp types.Importer) *checked {
	t.Helper()
	out := &checked{goPackage: p, files: map[string]*ast.File{}, info: &types.Info{
		Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{}, Types: map[ast.Expr]types.TypeAndValue{}}}
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(c.fset, filepath.Join(p.Dir, name), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		short, err := filepath.Rel(p.Module.Dir, filepath.Join(p.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		out.files[filepath.ToSlash(short)] = f
		files = append(files, f)
	}
	conf := types.Config{Importer: imp}
	var err error
	if out.types, err = conf.Check(p.ImportPath, c.fset, files, out.info); err != nil {
		t.Fatalf("check %s: %v", p.ImportPath, err)
	}
	return out
}
