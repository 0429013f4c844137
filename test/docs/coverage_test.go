package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/config"
)

// coverageRow is a line of a table in docs/reference/source-coverage.md.
type coverageRow struct {
	line                              int
	id, ability, where, shown, reason string
}

var (
	rowID = regexp.MustCompile(`^(\d+(?:\.\d+)*)-\d+$`)
	// shownBy matches tests of one package, such as "`TestA`, `TestB/part` in `test/e2e`".
	shownBy  = regexp.MustCompile("^(`Test[A-Za-z0-9_]*(?:/[^`]+)?`(?:, `Test[A-Za-z0-9_]*(?:/[^`]+)?`)*) in `([a-z0-9./-]+)`$")
	declared = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]*)\(`)
	endpoint = regexp.MustCompile(`^(?:GET|POST|DELETE) (/\S*)$`)
	// methodOrTool matches methods of the tool bus, settings and commands in VS
	// Code, and tools over MCP.
	methodOrTool = regexp.MustCompile(`^(?:(?:mcp|bridge)\.|(?:copilot|openclaw)_)`)
	sections     = regexp.MustCompile(`(\d+(?:\.\d+)*) [^·]+`)
)

// readCoverage reads the tables of a text. Problems are lines that are no good
// rows, and sections and rows whose number is not unique in their document.
func readCoverage(text string) (rows []coverageRow, problems []string) {
	var known, used []string
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		bad := func(format string, args ...any) {
			problems = append(problems, fmt.Sprintf("line %d: ", n)+fmt.Sprintf(format, args...))
		}
		switch list, isList := strings.CutPrefix(line, "Sections: "); {
		case strings.HasPrefix(line, "## "):
			known, used = nil, nil
		case isList:
			for _, m := range sections.FindAllStringSubmatch(list, -1) {
				if slices.Contains(known, m[1]) {
					bad("section %s is there twice", m[1])
				}
				known = append(known, m[1])
			}
		case !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "| § |") || strings.HasPrefix(line, "|---"):
		default:
			cells := strings.Split(strings.ReplaceAll(strings.Trim(line, "|"), `\|`, "\x00"), "|")
			if len(cells) != 5 {
				bad("%d cells instead of 5", len(cells))
				continue
			}
			for i := range cells {
				cells[i] = strings.ReplaceAll(strings.TrimSpace(cells[i]), "\x00", "|")
			}
			r := coverageRow{n, cells[0], cells[1], cells[2], cells[3], cells[4]}
			if m := rowID.FindStringSubmatch(r.id); m == nil || !slices.Contains(known, m[1]) {
				bad("%q is not in a section that the document lists", r.id)
			}
			if slices.Contains(used, r.id) {
				bad("row %s is there twice", r.id)
			}
			used = append(used, r.id)
			rows = append(rows, r)
		}
	}
	return rows, problems
}

// product is what rows may name.
type product struct {
	root     string
	commands []command
	settings map[string]bool
	// sources is the text of the program's files, in which endpoints, methods
	// and tools are looked up.
	sources string
}

func newProduct(t *testing.T, root string) *product {
	t.Helper()
	p := &product{root: root, commands: commands(t), settings: map[string]bool{}}
	for _, k := range config.Keys() {
		p.settings[k.Key], p.settings[k.Env] = true, true
	}
	var b strings.Builder
	for _, top := range []string{"internal", "extensions"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(file string, d fs.DirEntry, err error) error {
			if d != nil && d.IsDir() && slices.Contains([]string{"node_modules", "testdata", "testing"}, d.Name()) {
				return filepath.SkipDir
			}
			if err != nil || strings.HasSuffix(file, "_test.go") || filepath.Ext(file) != ".go" && d.Name() != "package.json" {
				return err
			}
			text, err := os.ReadFile(file)
			b.Write(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	p.sources = b.String()
	return p
}

// problems says what is wrong with a row: it names something that does not
// exist, or neither a test nor a reason.
func (p *product) problems(r coverageRow) (all []string) {
	bad := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if r.ability == "" {
		bad("no ability")
	}
	hasReason := strings.HasPrefix(r.reason, "Different: ") || strings.HasPrefix(r.reason, "Not yet: ")
	switch {
	case r.shown != "–":
		for group := range strings.SplitSeq(r.shown, "; ") {
			m := shownBy.FindStringSubmatch(group)
			if m == nil {
				bad("%q names no test", group)
				continue
			}
			for _, name := range code.FindAllString(m[1], -1) {
				if why := p.lacksTest(m[2], strings.Trim(name, "`")); why != "" {
					bad("%s", why)
				}
			}
		}
	case !hasReason:
		bad("neither a test nor a reason")
	}
	named := code.FindAllString(r.where, -1)
	if len(named) == 0 && !hasReason {
		bad("nothing says where it is")
	}
	for _, name := range named {
		if name = strings.Trim(name, "`"); !p.has(name) {
			bad("there is no %s", name)
		}
	}
	return all
}

// lacksTest says what is missing of a test, such as TestA or TestA/part.
func (p *product) lacksTest(dir, test string) string {
	name, parts, _ := strings.Cut(test, "/")
	files, err := filepath.Glob(filepath.Join(p.root, filepath.FromSlash(dir), "*_test.go"))
	if err != nil {
		return err.Error()
	}
	found, texts := false, ""
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err.Error()
		}
		texts += string(text)
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			found = found || m[1] == name
		}
	}
	if !found {
		return fmt.Sprintf("%s has no %s", dir, name)
	}
	for part := range strings.SplitSeq(parts, "/") {
		if part != "" && !strings.Contains(texts, `"`+part+`"`) && !p.hasCase(dir, part) {
			return fmt.Sprintf("%s in %s has no case %q", name, dir, part)
		}
	}
	return ""
}

// hasCase reports whether a file below the package is named like a case, or a
// script there or a shared contract has it.
func (p *product) hasCase(dir, name string) bool {
	found := false
	look := func(file string) {
		text, err := os.ReadFile(file)
		found = found || err == nil && strings.Contains(string(text), `"`+name+`"`)
	}
	err := filepath.WalkDir(filepath.Join(p.root, filepath.FromSlash(dir)), func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d.IsDir():
			return err
		case strings.HasPrefix(d.Name(), name+"."):
			found = true
		case filepath.Ext(file) == ".mjs":
			look(file)
		}
		return nil
	})
	contracts, globErr := filepath.Glob(filepath.Join(p.root, "internal", "testing", "*", "*.go"))
	for _, file := range contracts {
		look(file)
	}
	return found && err == nil && globErr == nil
}

// has reports whether a command, setting, endpoint, method, tool or path exists.
func (p *product) has(name string) bool {
	m := endpoint.FindStringSubmatch(name)
	switch {
	case strings.HasPrefix(name, "copilot-bridge "):
		return unknownCommand(p.commands, name) == ""
	case m != nil:
		return strings.Contains(p.sources, `"`+m[1]+`"`) || strings.Contains(p.sources, name)
	case methodOrTool.MatchString(name):
		return strings.Contains(p.sources, `"`+name+`"`)
	case p.settings[name]:
		return true
	}
	_, err := os.Stat(filepath.Join(p.root, filepath.FromSlash(name)))
	return err == nil
}

// Each row of the table of the source documents' abilities names what exists.
func TestSourceCoverage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "reference", "source-coverage.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows, problems := readCoverage(string(text))
	for _, problem := range problems {
		t.Error(problem)
	}
	if len(rows) < minimumRows {
		t.Errorf("only %d rows", len(rows))
	}
	p := newProduct(t, root)
	for _, r := range rows {
		for _, problem := range p.problems(r) {
			t.Errorf("line %d, %s: %s", r.line, r.id, problem)
		}
	}
}

// minimumRows keeps the table from being emptied unnoticed.
const minimumRows = 550

// The check must be able to fail.
func TestSourceCoverageNoticesBadRows(t *testing.T) {
	p := newProduct(t, root)
	for name, tt := range map[string]struct{ row, want string }{
		"a good one":                     {"| 1-1 | a | `internal/api/abp` | `TestEnvelopeOrder` in `internal/api/abp` | |", ""},
		"several tests":                  {"| 1-1 | a | `POST /v1/chat/completions` | `TestEnvelopeOrder`, `TestPolicyStopsTools/deny_read` in `internal/api/abp`; `TestScripts/abp` in `test/e2e` | |", ""},
		"a case of a contract":           {"| 1-1 | a | `internal/agent/sdk` | `TestContract/by abort` in `internal/agent/sdk` | |", ""},
		"a command":                      {"| 1-1 | a | `copilot-bridge run --attach`, `max_retries`, `COPILOT_MAX_RETRIES` | `TestScripts` in `test/e2e` | |", ""},
		"methods and tools":              {"| 1-1 | a | `mcp.fs.read`, `bridge.readOnly`, `copilot_code` | `TestScripts` in `test/e2e` | |", ""},
		"a reason":                       {"| 1-1 | a | | – | Different: it is better so |", ""},
		"something missing":              {"| 1-1 | a | | – | Not yet: nobody has built it |", ""},
		"a deleted test":                 {"| 1-1 | a | `internal/api/abp` | `TestThatWasDeleted` in `internal/api/abp` | |", "internal/api/abp has no TestThatWasDeleted"},
		"one of two is deleted":          {"| 1-1 | a | `internal/api/abp` | `TestEnvelopeOrder`, `TestThatWasDeleted` in `internal/api/abp` | |", "has no TestThatWasDeleted"},
		"in another package":             {"| 1-1 | a | `internal/api/abp` | `TestEnvelopeOrder` in `internal/api/acp` | |", "internal/api/acp has no TestEnvelopeOrder"},
		"no such package":                {"| 1-1 | a | `internal/api/abp` | `TestEnvelopeOrder` in `internal/api/none` | |", "internal/api/none has no TestEnvelopeOrder"},
		"no such case":                   {"| 1-1 | a | `internal/api/abp` | `TestPolicyStopsTools/deny_all` in `internal/api/abp` | |", `no case "deny_all"`},
		"no such script":                 {"| 1-1 | a | `internal/api/abp` | `TestScripts/no-such-script` in `test/e2e` | |", `no case "no-such-script"`},
		"a test to be named":             {"| 1-1 | a | `internal/api/abp` | TODO-9 | |", "names no test"},
		"a test and one to come":         {"| 1-1 | a | `internal/api/abp` | `TestEnvelopeOrder` in `internal/api/abp`; TODO-9 | |", "names no test"},
		"neither test nor reason":        {"| 1-1 | a | `internal/api/abp` | – | it works |", "neither a test nor a reason"},
		"nothing":                        {"| 1-1 | a | `internal/api/abp` | | |", "names no test"},
		"no place":                       {"| 1-1 | a | somewhere | `TestEnvelopeOrder` in `internal/api/abp` | |", "nothing says where it is"},
		"no ability":                     {"| 1-1 | | `internal/api/abp` | `TestEnvelopeOrder` in `internal/api/abp` | |", "no ability"},
		"no such setting":                {"| 1-1 | a | `abp.transports` | `TestEnvelopeOrder` in `internal/api/abp` | |", "there is no abp.transports"},
		"a variable that the code knows": {"| 1-1 | a | `GITHUB_TOKEN` | `TestEnvelopeOrder` in `internal/api/abp` | |", "there is no GITHUB_TOKEN"},
		"no such variable":               {"| 1-1 | a | `ABP_COPILOT_NONE` | `TestEnvelopeOrder` in `internal/api/abp` | |", "there is no ABP_COPILOT_NONE"},
		"no such command":                {"| 1-1 | a | `copilot-bridge sessions fly` | `TestEnvelopeOrder` in `internal/api/abp` | |", "there is no copilot-bridge sessions fly"},
		"no such flag":                   {"| 1-1 | a | `copilot-bridge run --fly` | `TestEnvelopeOrder` in `internal/api/abp` | |", "there is no copilot-bridge run --fly"},
		"no such endpoint":               {"| 1-1 | a | `GET /v1/flights` | `TestEnvelopeOrder` in `internal/api/abp` | |", "there is no GET /v1/flights"},
		"no such tool":                   {"| 1-1 | a | `copilot_fly` | `TestEnvelopeOrder` in `internal/api/abp` | |", "there is no copilot_fly"},
		"no such path":                   {"| 1-1 | a | `internal/flight` | `TestEnvelopeOrder` in `internal/api/abp` | |", "there is no internal/flight"},
		"no such method":                 {"| 1-1 | a | `mcp.fs.fly` | `TestEnvelopeOrder` in `internal/api/abp` | |", "there is no mcp.fs.fly"},
		"too few cells":                  {"| 1-1 | a | `internal/api/abp` |", "3 cells"},
		"an unknown section":             {"| 3-1 | a | | – | Not yet: x |", "not in a section"},
		"no number":                      {"| 1 | a | | – | Not yet: x |", "not in a section"},
		"a number used twice":            {"| 1-1 | a | | – | Not yet: x |\n| 1-1 | b | | – | Not yet: x |", "1-1 is there twice"},
	} {
		t.Run(name, func(t *testing.T) {
			rows, all := readCoverage("## D\n\nSections: 1 first · 2.1 second\n\n| § | Ability | Where | Shown by | Notes |\n|---|---|---|---|---|\n" + tt.row + "\n")
			for _, r := range rows {
				all = append(all, p.problems(r)...)
			}
			if got := strings.Join(all, "; "); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("problems %q, want %q", got, tt.want)
			}
		})
	}
	if _, all := readCoverage("## D\nSections: 1 first · 1 again\n"); len(all) != 1 {
		t.Errorf("a section that is there twice: %q", all)
	}
}

// A row that was good fails once its test is gone.
func TestSourceCoverageNoticesADeletedTest(t *testing.T) {
	p := &product{root: t.TempDir(), settings: map[string]bool{"model": true}}
	r := coverageRow{id: "1-1", ability: "a", where: "`model`", shown: "`TestKept`, `TestOther` in `pkg`"}
	file := filepath.Join(p.root, "pkg", "a_test.go")
	if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]int{
		"package pkg\n\nfunc TestKept(t *testing.T) {}\n\nfunc TestOther(t *testing.T) {}\n": 0,
		"package pkg\n\nfunc TestOther(t *testing.T) {}\n\n// func TestKept(\n":              1,
		"package pkg\n": 2,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := p.problems(r); len(got) != want {
			t.Errorf("%q: problems %q, want %d", text, got, want)
		}
	}
}
