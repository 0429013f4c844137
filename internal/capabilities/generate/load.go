package main

import (
	"bytes"
	"context"
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
	"path/filepath"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/program"
)

const (
	module     = "github.com/copilot-bridge/copilot-bridge"
	sdkModule  = "github.com/github/copilot-sdk/go"
	rpcPackage = sdkModule + "/rpc"
	// own is left out when uses are looked for: what tries the runtime out is
	// not what makes use of it.
	own = module + "/internal/capabilities"
)

// listed is what `go list` says of a package.
type listed struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
	Export     string
	Module     *struct{ Path, Version, Dir string }
}

// checked is a package with its types known.
type checked struct {
	listed
	files map[string]*ast.File // by path relative to the module
	types *types.Package
	info  *types.Info
}

// code is the SDK and those packages of the bridge that import it.
type code struct {
	fset    *token.FileSet
	version string
	sdk     map[string]*checked
	users   []*checked
}

// load lists everything, with export data, and checks what is looked into
// from source. Export data of the rest is in the build cache or made now.
func load(ctx context.Context) (*code, error) {
	list, err := program.New(program.Place{Env: os.Environ()}, "go", "list", "-deps", "-export",
		"-json=ImportPath,Dir,GoFiles,Imports,Export,Module", module+"/internal/...", module+"/cmd/...")
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	exit, err := list.Run(ctx, program.RunOptions{Stdout: &out, Stderr: os.Stderr})
	if err = errors.Join(err, exit.Err()); err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	all := map[string]listed{}
	for dec := json.NewDecoder(&out); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("read go list: %w", err)
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
			if c.sdk[path], err = c.check(p, imp); err != nil {
				return nil, err
			}
			c.version = p.Module.Version
		case strings.HasPrefix(path, module) && !strings.HasPrefix(path, own) && (slices.Contains(p.Imports, sdkModule) || slices.Contains(p.Imports, rpcPackage)):
			u, err := c.check(p, imp)
			if err != nil {
				return nil, err
			}
			c.users = append(c.users, u)
		}
	}
	if c.sdk[sdkModule] == nil || c.sdk[rpcPackage] == nil || len(c.users) == 0 {
		return nil, errors.New("the SDK, or whoever uses it, was not found")
	}
	return c, nil
}

func (c *code) check(p listed, imp types.Importer) (*checked, error) {
	out := &checked{listed: p, files: map[string]*ast.File{}, info: &types.Info{
		Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{}, Types: map[ast.Expr]types.TypeAndValue{}}}
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(c.fset, filepath.Join(p.Dir, name), nil, parser.ParseComments)
		if err != nil {
			return nil, fmt.Errorf("parse: %w", err)
		}
		short, err := filepath.Rel(p.Module.Dir, filepath.Join(p.Dir, name))
		if err != nil {
			return nil, err
		}
		out.files[filepath.ToSlash(short)] = f
		files = append(files, f)
	}
	conf := types.Config{Importer: imp}
	var err error
	if out.types, err = conf.Check(p.ImportPath, c.fset, files, out.info); err != nil {
		return nil, fmt.Errorf("check %s: %w", p.ImportPath, err)
	}
	return out, nil
}
