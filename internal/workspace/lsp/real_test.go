package lsp

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/languagetest"
	"github.com/copilot-bridge/copilot-bridge/internal/workspace/task"
)

// installed is a manager for a directory with these files, that finds the pinned
// servers and what they need.
func installed(t testing.TB, files map[string]string, opts Options) *Manager {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		write(t, dir, name, content)
	}
	if opts.Env == nil {
		opts.Env = task.PlainEnviron(os.Environ())
	}
	opts.Env = append(opts.Env, realPath(t))
	opts.StartTimeout, opts.RequestTimeout = 2*time.Minute, 2*time.Minute // for a busy machine
	m := New(dir, opts)
	t.Cleanup(func() {
		if err := m.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return m
}

// realPath is a PATH on which the pinned servers come first.
func realPath(t testing.TB) string {
	t.Helper()
	return "PATH=" + strings.Join([]string{filepath.Dir(languagetest.Gopls(t)), filepath.Dir(languagetest.TypeScript(t)), os.Getenv("PATH")}, string(filepath.ListSeparator))
}

var goFiles = map[string]string{
	"go.mod": "module example.com/m\n\ngo 1.24\n",
	"a.go":   "package m\n\n// Größe is 😀 wide.\ntype Größe struct {\n\tBreite int\n}\n\nfunc (g *Größe) Fläche() int { return g.Breite }\n\nconst /* 😀 */ Eins = 1\n",
	"b/b.go": "package b\n\n// B is known to others.\nfunc B() {}\n",
}

func TestGopls(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // it leaves directories behind when it is stopped
	// An empty module cache, so that gopls has nothing to look through.
	m := installed(t, goFiles, Options{Env: append(task.PlainEnviron(os.Environ()), "GOMODCACHE="+t.TempDir(), "GOPROXY=off")})
	t.Run("symbols", func(t *testing.T) {
		got, err := m.Symbols(t.Context(), "a.go")
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 3 {
			t.Fatalf("got %+v", got)
		}
		größe, fläche, eins := got[0], got[1], got[2]
		if größe.Name != "Größe" || größe.Kind != "struct" || größe.Range != (Range{4, 6, 6, 2}) || größe.Selection != (Range{4, 6, 4, 11}) ||
			len(größe.Children) != 1 || größe.Children[0].Name != "Breite" || größe.Children[0].Kind != "field" || größe.Children[0].Detail != "int" {
			t.Errorf("got %+v", größe)
		}
		if fläche.Kind != "method" || !strings.Contains(fläche.Name, "Fläche") || fläche.Selection != (Range{8, 17, 8, 23}) {
			t.Errorf("got %+v", fläche)
		}
		if eins.Kind != "constant" || eins.Selection != (Range{10, 15, 10, 19}) {
			t.Errorf("got %+v", eins)
		}
	})
	rewrites(t, m, []rewriting{
		{"format", (*Manager).Format, "c.go", "package m\nfunc   F( ) {\nx:=\"😀😀\" ;_=x}\n", "package m\n\nfunc F() {\n\tx := \"😀😀\"\n\t_ = x\n}\n"},
		{"format, nothing to do", (*Manager).Format, "a.go", goFiles["a.go"], goFiles["a.go"]},
		{"format CRLF", (*Manager).Format, "c.go", "package m\r\nfunc   F( ) {}\r\n", "package m\r\n\r\nfunc F() {}\r\n"},
		{"organise adds and removes", (*Manager).Organize, "c.go",
			"package m\n\nimport (\n\t\"strings\"\n\t\"os\"\n)\n\nfunc F() {\n\tfmt.Println(\"😀\", os.Args)\n}\n",
			"package m\n\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n\nfunc F() {\n\tfmt.Println(\"😀\", os.Args)\n}\n"},
		{"organise knows the module", (*Manager).Organize, "c.go", "package m\n\nfunc F() { b.B() }\n",
			"package m\n\nimport \"example.com/m/b\"\n\nfunc F() { b.B() }\n"},
		{"organise, nothing to do", (*Manager).Organize, "a.go", goFiles["a.go"], goFiles["a.go"]},
		{"tidy", (*Manager).Tidy, "sub/c.go", "package sub\nfunc F() {fmt.Println()}\n", "package sub\n\nimport \"fmt\"\n\nfunc F() { fmt.Println() }\n"},
	})
	t.Run("syntax error", func(t *testing.T) {
		_, _, err := m.Format(t.Context(), "c.go", "package m\nfunc {\n")
		if bridge.CodeOf(err) != bridge.CodeInvalid || bridge.AsError(err).Remedy == "" {
			t.Errorf("got %v", err)
		}
	})
	t.Run("sees what others write", func(t *testing.T) {
		write(t, m.dir, "go.mod", "module example.com/other\n\ngo 1.24\n")
		m.Changed()
		got, _, err := m.Organize(t.Context(), "c.go", "package m\n\nvar _ = b.B\n")
		if err != nil || !strings.Contains(got, `import "example.com/other/b"`) {
			t.Errorf("got %q, %v", got, err)
		}
	})
	if stats := m.Stats(); len(stats) != 1 || stats[0].Starts != 1 {
		t.Errorf("stats %+v", stats)
	}
}

func TestTypeScript(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // its server leaves directories behind
	const a = "/** 😀 */ export class Größe {\n  constructor(readonly breite: number) {}\n  fläche(): number { return this.breite; }\n}\nexport const eins = 1;\n"
	m := installed(t, map[string]string{
		"tsconfig.json": `{"compilerOptions":{"strict":true,"jsx":"preserve"}}`,
		"a.ts":          a,
		"b.tsx":         "export const B = () => <p>😀</p>;\n",
		// If this were taken for TypeScript nothing below could work.
		"node_modules/typescript/package.json":    `{"name":"typescript","version":"5.9.3"}`,
		"node_modules/typescript/lib/tsserver.js": "require('fs').writeFileSync('taken', '')\n",
	}, Options{})
	t.Run("symbols", func(t *testing.T) {
		got, err := m.Symbols(t.Context(), "a.ts")
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 2 || got[0].Name != "Größe" || got[0].Kind != "class" || got[0].Selection != (Range{1, 23, 1, 28}) || got[0].Range.EndLine != 4 {
			t.Fatalf("got %+v", got)
		}
		var children []string
		for _, c := range got[0].Children {
			children = append(children, c.Kind+" "+c.Name)
		}
		if !slices.Contains(children, "method fläche") || !slices.Contains(children, "constructor constructor") {
			t.Errorf("got %q", children)
		}
		got, err = m.Symbols(t.Context(), "b.tsx")
		if err != nil || len(got) != 1 || got[0].Name != "B" {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	rewrites(t, m, []rewriting{
		{"format", (*Manager).Format, "c.ts", "function  f( a:string ){\nreturn   '😀'+a}\n", "function f(a: string) {\n  return '😀' + a\n}\n"},
		{"format with tabs", (*Manager).Format, "c.ts", "function f() {\n\tif (1) {\n\t\tg()\n\t\t\th( )\n\t}\n}\n", "function f() {\n\tif (1) {\n\t\tg()\n\t\th()\n\t}\n}\n"},
		{"format CRLF", (*Manager).Format, "c.js", "let  a=1\r\nlet  b = '😀',c=2\r\n", "let a = 1\r\nlet b = '😀', c = 2\r\n"},
		{"format JSX", (*Manager).Format, "c.jsx", "const a=<p  >x</p>\n", "const a = <p  >x</p>\n"},
		{"organise", (*Manager).Organize, "c.ts",
			"import { eins, Größe } from './a';\nimport { B } from './b';\nimport * as fs from 'fs';\n\nconsole.log('😀', eins, B);\n",
			"import { eins } from './a';\nimport { B } from './b';\n\nconsole.log('😀', eins, B);\n"},
		{"organise sorts", (*Manager).Organize, "c.ts",
			"import { B } from './b';\nimport { eins } from './a';\n\nconsole.log(eins, B);\n",
			"import { eins } from './a';\nimport { B } from './b';\n\nconsole.log(eins, B);\n"},
		{"tidy", (*Manager).Tidy, "c.ts", "import { B } from './b';\nlet  a = 1\n", "let a = 1\n"},
	})
	if _, err := os.Stat(filepath.Join(m.dir, "taken")); err == nil {
		t.Error("the workspace's own TypeScript was run")
	}
	if entries, err := os.ReadDir(m.dir); err != nil || len(entries) != 4 {
		t.Errorf("files were left in the workspace: %v, %v", entries, err)
	}
}

type rewriting struct {
	name          string
	do            rewriter
	path          string
	before, after string
}

func rewrites(t *testing.T, m *Manager, list []rewriting) {
	t.Helper()
	for _, r := range list {
		t.Run(r.name, func(t *testing.T) {
			got, changed, err := r.do(m, t.Context(), r.path, r.before)
			if err != nil {
				t.Fatal(err)
			}
			if got != r.after || changed != (r.before != r.after) {
				t.Errorf("changed %v\ngot  %q\nwant %q", changed, got, r.after)
			}
		})
	}
}

func TestIdleServerIsStopped(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // as above
	m := installed(t, goFiles, Options{IdleTimeout: 50 * time.Millisecond})
	for starts := 1; starts <= 2; starts++ {
		if _, err := m.Symbols(t.Context(), "a.go"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it is stopped", func() bool { return !m.Stats()[0].Running })
		if s := m.Stats()[0]; s.Starts != starts || s.LastError != "" {
			t.Errorf("stats %+v", s)
		}
	}
}
