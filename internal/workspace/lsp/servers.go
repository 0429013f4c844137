package lsp

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"
)

// Server says how a language is served. In Options an entry lies over the
// built-in one of the same name: what it leaves empty stays.
type Server struct {
	Command    []string // program and arguments; a bare name is looked for on PATH
	Extensions []string // ".go"; also whole file names
	LanguageID string   // as the protocol names it; by default from the built-in table, else the entry's name

	// Formatter reads content on its input and writes it formatted, when
	// there is no server or it cannot format. {file} stands for the path,
	// relative to the directory in which it runs.
	Formatter      []string
	FormatterFirst bool // use Formatter even if the server can format

	InitializationOptions any            // given to the server at its start
	Settings              map[string]any // answers to workspace/configuration, by section
	TabSize               int            // where a file does not show its own; 0: 4
	Install               string         // what to do if it is missing
	RunsCode              bool           // it may run code of the project, even where it is known as harmless

	ids       map[string]string                            // language ids by extension, for servers of several
	others    [][]string                                   // commands to try after Command
	organize  []string                                     // kinds of code actions, in order
	watch     []string                                     // further files that the server wants to know of
	harmless  []string                                     // programs that run nothing of a workspace, see Start
	settled   bool                                         // a person has chosen InitializationOptions
	configure func(m *Manager, server string) (any, error) // InitializationOptions by what is installed
}

const organizeImports = "source.organizeImports"

// builtin are the servers known without configuration. Servers that compile or
// run a project to understand it are left out (they can be configured), but
// for rust-analyzer. Formatters that load code from the workspace, as prettier
// does, are left out as well.
//
// harmless are the programs that have been found to run nothing of a workspace
// and to fetch nothing that it names, in the environment that pinned gives
// them. All others need consent: rust-analyzer runs cargo, pylsp and
// lua-language-server may load plugins of the project, yaml-language-server
// and taplo's server fetch the schemas that a file names.
func builtin() map[string]Server {
	clangd := []string{"clangd", "--enable-config=false"} // .clangd may name a server to ask
	web := "Run `npm install -g vscode-langservers-extracted`."
	return map[string]Server{
		"go": {
			Command: []string{"gopls"}, Extensions: []string{".go"}, Formatter: []string{"gofmt"}, TabSize: 8,
			watch:    []string{"go.mod", "go.sum", "go.work"},
			harmless: []string{"gopls", "gofmt"},
			Install:  "Run `go install golang.org/x/tools/gopls@latest` and see that its directory is on PATH.",
		},
		"typescript": {
			Command: []string{"typescript-language-server", "--stdio"}, TabSize: 2,
			Extensions: []string{".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs"},
			ids: map[string]string{
				".tsx": "typescriptreact", ".jsx": "javascriptreact",
				".js": "javascript", ".mjs": "javascript", ".cjs": "javascript",
			},
			organize:  []string{"source.removeUnusedImports.ts", "source.organizeImports.ts"},
			configure: configureTypeScript, harmless: []string{"typescript-language-server"},
			Install: "Run `npm install -g typescript-language-server typescript@5`.",
		},
		"python": {
			Command: []string{"pyright-langserver", "--stdio"}, Extensions: []string{".py", ".pyi"},
			others:    [][]string{{"basedpyright-langserver", "--stdio"}, {"pylsp"}, {"ruff", "server"}},
			Formatter: []string{"ruff", "format", "--stdin-filename", "{file}", "-"},
			harmless:  []string{"pyright-langserver", "basedpyright-langserver", "ruff"},
			Install:   "Run `npm install -g pyright` or `pip install python-lsp-server`; for formatting `pip install ruff`.",
		},
		"rust": {
			Command: []string{"rust-analyzer"}, Extensions: []string{".rs"}, Formatter: []string{"rustfmt", "--emit", "stdout"},
			watch: []string{"Cargo.toml", "Cargo.lock"}, harmless: []string{"rustfmt"},
			InitializationOptions: map[string]any{
				"cargo": map[string]any{"buildScripts": map[string]any{"enable": false}}, "procMacro": map[string]any{"enable": false},
				"checkOnSave": false, "cachePriming": map[string]any{"enable": false},
			},
			Install: "Run `rustup component add rust-analyzer rustfmt`.",
		},
		"c": {
			Command: clangd, Extensions: []string{".c", ".h"}, Formatter: []string{"clang-format", "--assume-filename={file}"},
			harmless: []string{"clangd", "clang-format"},
			Install:  "Install clangd and clang-format from your system's packages or from LLVM.",
		},
		"cpp": {
			Command: clangd, Extensions: []string{".cc", ".cpp", ".cxx", ".hpp", ".hh", ".hxx"},
			Formatter: []string{"clang-format", "--assume-filename={file}"}, harmless: []string{"clangd", "clang-format"},
			Install: "Install clangd and clang-format from your system's packages or from LLVM.",
		},
		"lua": {
			Command: []string{"lua-language-server"}, Extensions: []string{".lua"}, Formatter: []string{"stylua", "--stdin-filepath", "{file}", "-"},
			harmless: []string{"stylua"},
			Install:  "Install lua-language-server from your system's packages.",
		},
		"shellscript": {
			Command: []string{"bash-language-server", "start"}, Extensions: []string{".sh", ".bash"}, Formatter: []string{"shfmt", "-filename", "{file}"},
			harmless: []string{"bash-language-server", "shfmt"},
			Install:  "Run `npm install -g bash-language-server`; for formatting install shfmt.",
		},
		"json": {
			Command: []string{"vscode-json-language-server", "--stdio"}, Extensions: []string{".json", ".jsonc"}, TabSize: 2,
			ids: map[string]string{".jsonc": "jsonc"}, harmless: []string{"vscode-json-language-server"}, Install: web,
			// By itself it would fetch the schema that a file names.
			InitializationOptions: map[string]any{"provideFormatter": true, "handledSchemaProtocols": []string{}},
		},
		"css": {
			Command: []string{"vscode-css-language-server", "--stdio"}, Extensions: []string{".css", ".scss", ".less"}, TabSize: 2,
			ids: map[string]string{".scss": "scss", ".less": "less"}, harmless: []string{"vscode-css-language-server"},
			InitializationOptions: map[string]any{"provideFormatter": true}, Install: web,
		},
		"html": {
			Command: []string{"vscode-html-language-server", "--stdio"}, Extensions: []string{".html", ".htm"}, TabSize: 2,
			InitializationOptions: map[string]any{"provideFormatter": true}, harmless: []string{"vscode-html-language-server"}, Install: web,
		},
		"yaml": {
			Command: []string{"yaml-language-server", "--stdio"}, Extensions: []string{".yaml", ".yml"}, TabSize: 2,
			Settings: map[string]any{"yaml": map[string]any{"format": map[string]any{"enable": true}}},
			Install:  "Run `npm install -g yaml-language-server`.",
		},
		"toml": {
			Command: []string{"taplo", "lsp", "stdio"}, Extensions: []string{".toml"}, Formatter: []string{"taplo", "format", "-"},
			RunsCode: true, harmless: []string{"taplo"},
			Install: "Run `npm install -g @taplo/cli` or `cargo install taplo-cli --features lsp`.",
		},
		"markdown": {
			Command: []string{"marksman", "server"}, Extensions: []string{".md"}, harmless: []string{"marksman"}, Install: "Install marksman from your system's packages.",
		},
	}
}

// over lays a configured entry over the built-in one.
func (s Server) over(base Server) Server {
	if len(s.Command) > 0 {
		base.Command, base.others = s.Command, nil
	}
	if len(s.Extensions) > 0 {
		base.Extensions = s.Extensions
	}
	if s.LanguageID != "" {
		base.LanguageID, base.ids = s.LanguageID, nil
	}
	if len(s.Formatter) > 0 {
		base.Formatter = s.Formatter
	}
	base.FormatterFirst = base.FormatterFirst || s.FormatterFirst
	if s.InitializationOptions != nil {
		base.InitializationOptions, base.configure, base.settled = s.InitializationOptions, nil, true
	}
	if len(s.Settings) > 0 {
		base.Settings = s.Settings
	}
	base.TabSize = cmp.Or(max(s.TabSize, 0), base.TabSize)
	base.Install = cmp.Or(s.Install, base.Install)
	base.RunsCode = base.RunsCode || s.RunsCode
	return base
}

// table is who serves which file: the configured entries before the built-in
// ones, each in the order of their names.
type table struct {
	servers map[string]Server
	order   []string
}

func newTable(configured map[string]Server) table {
	t := table{servers: builtin()}
	for name, s := range configured {
		t.servers[name] = s.over(t.servers[name])
	}
	t.order = slices.Sorted(maps.Keys(configured))
	for _, name := range slices.Sorted(maps.Keys(t.servers)) {
		if _, first := configured[name]; !first {
			t.order = append(t.order, name)
		}
	}
	return t
}

// find returns the language of a file, by its name or its longest extension
// that is known, and the protocol's id of it.
func (t table) find(file string) (language, id string, ok bool) {
	base := path.Base(file)
	for _, suffix := range suffixes(base) {
		for _, name := range t.order {
			s := t.servers[name]
			if !slices.ContainsFunc(s.Extensions, func(e string) bool { return strings.EqualFold(e, suffix) }) {
				continue
			}
			return name, cmp.Or(s.ids[strings.ToLower(suffix)], s.LanguageID, name), true
		}
	}
	return "", "", false
}

// suffixes of "a.d.ts" are itself, ".d.ts" and ".ts".
func suffixes(base string) []string {
	found := []string{base}
	for i := 0; i < len(base); i++ {
		if base[i] == '.' {
			found = append(found, base[i:])
		}
	}
	return found
}
