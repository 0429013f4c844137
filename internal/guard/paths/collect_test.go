package paths

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

type collectCase struct {
	Name string
	Args json.RawMessage
	// Want holds "key=value", with "?" in front if uncertain, "+" if from a
	// patch, "*" if a pattern.
	Want []string
}

func collectCases(t testing.TB) []collectCase {
	t.Helper()
	raw, err := os.ReadFile("testdata/arguments.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []collectCase
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

func TestCollect(t *testing.T) {
	for _, tc := range collectCases(t) {
		t.Run(tc.Name, func(t *testing.T) {
			var args any
			if err := json.Unmarshal(tc.Args, &args); err != nil {
				t.Fatal(err)
			}
			found, err := Collect(args)
			if err != nil {
				t.Fatal(err)
			}
			got := []string{}
			for _, a := range found {
				s := a.Key + "=" + a.Value
				if a.Glob {
					s = "*" + s
				}
				if a.Patch {
					s = "+" + s
				}
				if !a.Certain {
					s = "?" + s
				}
				got = append(got, s)
			}
			if !slices.Equal(got, tc.Want) {
				t.Errorf("got  %q\nwant %q", got, tc.Want)
			}
		})
	}
}

func TestCollectIsBounded(t *testing.T) {
	var deep any = "/etc/passwd"
	for range maxDepth + 1 {
		deep = []any{deep}
	}
	text := `"/etc/passwd"`
	for range maxDepth + 1 {
		quoted, err := json.Marshal("[" + text + "]")
		if err != nil {
			t.Fatal(err)
		}
		if text = string(quoted); len(text) > 1<<20 {
			break
		}
	}
	many := make([]any, maxValues+1)
	for name, args := range map[string]any{
		"depth": deep, "count": many, "size": map[string]any{"content": strings.Repeat("x", maxBytes+1)},
		"keys": map[string]any{strings.Repeat("k", maxBytes+1): nil}, "no JSON": make(chan int), "bad JSON": json.RawMessage("{"),
	} {
		if found, err := Collect(args); err == nil {
			t.Errorf("%s: %d found", name, len(found))
		}
	}
}

func TestCollectTakesTypedValues(t *testing.T) {
	type edit struct {
		Path string `json:"path"`
	}
	for name, args := range map[string]any{
		"struct": edit{"/a"}, "pointer": &edit{"/a"}, "strings": map[string][]string{"paths": {"/a"}},
		"map of strings": map[string]string{"path": "/a"}, "raw": json.RawMessage(`{"path":"/a"}`),
	} {
		found, err := Collect(args)
		if err != nil || len(found) != 1 || found[0].Value != "/a" || !found[0].Certain {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
}

func TestKeys(t *testing.T) {
	kinds := map[keyKind][]string{
		pathKey: {"path", "paths", "file", "files", "filePath", "file_path", "FILEPATH", "file-path", "fileName", "filename", "directory", "dir",
			"outputPath", "inputPath", "output_path", "old_path", "newPath", "cwd", "workingDirectory", "working_directory", "root",
			"notebook_path", "absolutePath", "repoDir", "target_file", "srcFolder", "Path", "relative_workspace_path"},
		roleKey:    {"destination", "target", "from", "to", "src", "dest", "source", "uri"},
		patchKey:   {"patch", "diff", "unifiedDiff", "unified_diff"},
		patternKey: {"pattern", "glob", "include_pattern"},
		textKey:    {"file_text", "fileText", "old_str", "content", "prompt", "command", "url"},
		otherKey:   {"", "name", "empathy", "profile", "input", "view_range", "pathological"},
	}
	for want, keys := range kinds {
		for _, k := range keys {
			if got := kindOf(k); got != want {
				t.Errorf("%s: %v, want %v", k, got, want)
			}
		}
	}
}

func TestQuoteClips(t *testing.T) {
	q := malformed(strings.Repeat("é", 500), "is long", "").Error()
	if len(q) > 300 || strings.Contains(q, `\x`) {
		t.Error(q)
	}
	if got := malformed("a\u202eb", "is odd", "").Error(); strings.Contains(got, "\u202e") {
		t.Error(fmt.Sprint("bidi survives: ", got))
	}
}
