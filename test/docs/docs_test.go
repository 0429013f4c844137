// Package docs checks the project's documentation: paragraphs and pages are
// short, links have targets, named packages exist, and the reference pages
// match the program. It checks only what a program can count or look up, not
// style.
package docs

import (
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	root = "../.."
	// maxParagraph and maxPage are numbers of words.
	maxParagraph = 120
	maxPage      = 900
)

// generated pages come from programs, which check their wording.
var generated = []string{
	"docs/reference/capabilities.md", "docs/reference/commands.md", "docs/reference/configuration.md", "docs/reference/errors.md", "docs/reference/toolbus.md",
}

// page is a Markdown file of the project.
type page struct{ name, text string }

func pages(t *testing.T) []page {
	t.Helper()
	skip := []string{".git", "testdata", "node_modules", "build", "bin"}
	var all []page
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(skip, d.Name()):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(file) != ".md":
			return nil
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(file)
		all = append(all, page{filepath.ToSlash(name), string(text)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 30 {
		t.Fatalf("only %d pages", len(all))
	}
	return all
}

// written reports whether the page is maintained by hand. The changelog is not:
// its old entries stay as they are.
func (p page) written() bool { return p.name != "CHANGELOG.md" && !slices.Contains(generated, p.name) }

var (
	fence    = regexp.MustCompile("(?ms)^ *```.*?^ *```[ \t]*$")
	comment  = regexp.MustCompile(`(?s)<!--.*?-->`)
	listItem = regexp.MustCompile(`^\s*([-*]|\d+\.) `)
	code     = regexp.MustCompile("`[^`\n]+`")
)

// prose is the page without code blocks.
func (p page) prose() string { return comment.ReplaceAllString(fence.ReplaceAllString(p.text, ""), "") }

// paragraphs splits a text at blank lines, list items, headings and table
// cells.
func paragraphs(text string) []string {
	var all []string
	current := ""
	flush := func() {
		if strings.TrimSpace(current) != "" {
			all = append(all, strings.TrimSpace(current))
		}
		current = ""
	}
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "":
			flush()
		case strings.HasPrefix(trimmed, "|"):
			flush()
			all = append(all, strings.Split(strings.ReplaceAll(trimmed, `\|`, "/"), "|")...)
		case strings.HasPrefix(trimmed, "#"):
			flush()
		case listItem.MatchString(line):
			flush()
			current = trimmed
		default:
			current += " " + trimmed
		}
	}
	flush()
	return all
}

func TestParagraphsAreShort(t *testing.T) {
	for _, p := range pages(t) {
		if !p.written() {
			continue
		}
		for _, text := range paragraphs(p.prose()) {
			if n := len(strings.Fields(text)); n > maxParagraph {
				t.Errorf("%s: a paragraph has %d words, at most %d: %.80s…", p.name, n, maxParagraph, text)
			}
		}
	}
}

func TestDesignPagesAreShort(t *testing.T) {
	found := 0
	for _, p := range pages(t) {
		if path.Dir(p.name) != "docs/design" {
			continue
		}
		found++
		if n := len(strings.Fields(p.text)); n > maxPage {
			t.Errorf("%s has %d words, at most %d", p.name, n, maxPage)
		}
		for _, heading := range []string{"Purpose", "Contract", "Invariants", "Failure"} {
			if path.Base(p.name) != "dependencies.md" && !strings.Contains(p.text, "\n## "+heading+"\n") {
				t.Errorf("%s has no section %q", p.name, heading)
			}
		}
	}
	if found < 18 {
		t.Errorf("only %d pages in docs/design", found)
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
	notSlug = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors are the anchor names that GitHub gives to the page's headings.
func (p page) anchors() []string {
	var all []string
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(p.text, ""), -1) {
		slug := notSlug.ReplaceAllString(strings.ToLower(m[1]), "")
		all = append(all, strings.ReplaceAll(slug, " ", "-"))
	}
	return all
}

func TestLinksLeadSomewhere(t *testing.T) {
	all := pages(t)
	for _, p := range all {
		if p.name == "CHANGELOG.md" {
			continue // old entries may name pages that were moved since
		}
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(p.prose(), ""), -1) {
			target, err := url.Parse(m[1])
			if err != nil || target.Scheme != "" {
				continue // not a file of this project
			}
			name := p.name
			if target.Path != "" {
				name = path.Join(path.Dir(p.name), target.Path)
			}
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(name))); err != nil {
				t.Errorf("%s: the link to %s has no target", p.name, m[1])
				continue
			}
			i := slices.IndexFunc(all, func(other page) bool { return other.name == name })
			if target.Fragment != "" && (i < 0 || !slices.Contains(all[i].anchors(), target.Fragment)) {
				t.Errorf("%s: %s has no heading %q", p.name, name, target.Fragment)
			}
		}
	}
}

// Pages that the code and its comments name exist.
func TestPagesThatTheCodeNamesExist(t *testing.T) {
	named := regexp.MustCompile(`\bdocs/(?:[A-Za-z0-9_-]+/)*[A-Za-z0-9_-]+\.md\b`)
	// File names that only tests use.
	invented := []string{"docs/a.md", "docs/z.md", "docs/agents.md", "docs/grammar.md"}
	for _, top := range []string{"bridge", "cmd", "internal", "test", "tools", "extensions"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() && d.Name() == "node_modules" {
				return errorOrSkip(err)
			}
			if !slices.Contains([]string{".go", ".ts", ".js", ".mjs", ".md", ".txtar"}, filepath.Ext(file)) || file == filepath.Join(root, "test/docs/docs_test.go") {
				return nil
			}
			text, err := os.ReadFile(file)
			for _, name := range named.FindAllString(string(text), -1) {
				if slices.Contains(invented, name) {
					continue
				}
				if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(name))); err != nil {
					t.Errorf("%s names %s, which does not exist", file, name)
				}
			}
			return err
		})
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
}

func errorOrSkip(err error) error {
	if err != nil {
		return err
	}
	return filepath.SkipDir
}

var (
	// inFull matches a path from the top of the repository.
	inFull = regexp.MustCompile(`(?:^|[^\w./~-])((?:internal|cmd|test|extensions)(?:/[a-z0-9_-]+)+(?:\.(?:go|yaml|json))?)`)
	// inShort matches a package below internal in code quotes.
	inShort = regexp.MustCompile("`([a-z0-9]+(?:/[a-z0-9]+)+)`")
)

func TestPackagesExist(t *testing.T) {
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(root, filepath.FromSlash(name)))
		return err == nil
	}
	for _, p := range pages(t) {
		if !p.written() {
			continue
		}
		text := link.ReplaceAllString(p.prose(), "]")
		for _, m := range inFull.FindAllStringSubmatch(text, -1) {
			if !exists(m[1]) {
				t.Errorf("%s names %s, which does not exist", p.name, m[1])
			}
		}
		for _, m := range inShort.FindAllStringSubmatch(text, -1) {
			first, _, _ := strings.Cut(m[1], "/")
			if m[1] != "testing/synctest" && exists("internal/"+first) && !exists("internal/"+m[1]) {
				t.Errorf("%s names `%s`, and there is no internal/%s", p.name, m[1], m[1])
			}
		}
	}
}

// The package map in docs/ARCHITECTURE.md names every package of the program.
func TestThePackageMapIsWhole(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, top := range []string{"bridge", "cmd", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(dir string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return err
			}
			sources, err := filepath.Glob(filepath.Join(dir, "*.go"))
			if err != nil || d.Name() == "testdata" || !slices.ContainsFunc(sources, func(f string) bool { return !strings.HasSuffix(f, "_test.go") }) {
				return err
			}
			name, err := filepath.Rel(root, dir)
			if name = filepath.ToSlash(name); !strings.Contains(string(text), "`"+name+"`") {
				t.Errorf("docs/ARCHITECTURE.md does not name `%s`", name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Tests that the documentation names exist.
func TestNamedTestsExist(t *testing.T) {
	exists := map[string]bool{}
	for _, top := range []string{"bridge", "copilotbridge_test.go", "examples", "extensions", "internal", "test", "tools"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(file string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(file, "_test.go") {
				return err
			}
			text, err := os.ReadFile(file)
			for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
				exists[m[1]] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range pages(t) {
		for _, name := range regexp.MustCompile(`\bTest[A-Z][A-Za-z0-9]+\b`).FindAllString(p.text, -1) {
			if p.written() && !exists[name] {
				t.Errorf("%s names %s, which does not exist", p.name, name)
			}
		}
	}
}

// Every module that the program or its tests import is explained.
func TestDependenciesHaveReasons(t *testing.T) {
	module, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	reasons, err := os.ReadFile(filepath.Join(root, "docs", "design", "dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(string(module), -1) {
		if !strings.Contains(string(reasons), m[1]) {
			t.Errorf("docs/design/dependencies.md does not say why %s is needed", m[1])
		}
	}
}
