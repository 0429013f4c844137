package task

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// workspace makes a directory with these files.
func workspace(t testing.TB, files map[string]string) *os.Root {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root
}

func discover(t *testing.T, files map[string]string, opts Options) []Task {
	t.Helper()
	tasks, err := Discover(t.Context(), workspace(t, files), opts)
	if err != nil {
		t.Fatal(err)
	}
	return tasks
}

func TestNamesAreUniqueAndFound(t *testing.T) {
	tasks := discover(t, map[string]string{
		".vscode/tasks.json": `{"version":"2.0.0","tasks":[
			{"label":"Build all","type":"shell","command":"a"},
			{"label":"Build all","type":"shell","command":"b"},
			{"label":"test","type":"shell","command":"c"}]}`,
		"Makefile":     "test:\n\tgo test\nlint:\n\tx\n",
		"package.json": `{"scripts":{"test":"jest","build":"tsc"}}`,
	}, Options{Declared: map[string]string{"check": "make lint test", "make:lint": "echo mine"}})
	var got []string
	for _, task := range tasks {
		got = append(got, task.Name)
	}
	want := []string{"check", "make:lint", "vscode:Build all", "vscode:Build all (2)", "vscode:test", "make:test", "make:lint (2)", "npm:test", "npm:build"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("names %q\nwant  %q", got, want)
	}
	for name, want := range map[string]string{
		"check": "check", "make:lint": "make:lint", "build": "npm:build", "npm:test": "npm:test", "vscode:Build all (2)": "vscode:Build all (2)",
		"lint": "make:lint (2)",
	} {
		if task, err := Find(tasks, name); err != nil || task.Name != want {
			t.Errorf("Find(%q) = %q, %v; want %q", name, task.Name, err, want)
		}
	}
	for name, want := range map[string]bridge.Code{"test": bridge.CodeInvalid, "Build all": bridge.CodeInvalid, "none": bridge.CodeNotFound} {
		_, err := Find(tasks, name)
		if bridge.CodeOf(err) != want || bridge.AsError(err).Remedy == "" {
			t.Errorf("Find(%q): %v", name, err)
		}
	}
}

func TestVSCodeOldVersion(t *testing.T) {
	tasks := discover(t, map[string]string{".vscode/tasks.json": `{"version":"0.1.0","command":"gulp","tasks":[{"taskName":"x","command":"y"}]}`}, Options{})
	if len(tasks) != 1 || tasks[0].Runnable || tasks[0].Name != "vscode:x" || !strings.Contains(tasks[0].Reason, "0.1.0") {
		t.Errorf("got %+v", tasks)
	}
}

func TestBrokenFileDoesNotHideOthers(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"tasks.json":   {".vscode/tasks.json": `{"tasks":[`, "Makefile": "a:\n"},
		"package.json": {"package.json": `{"scripts":[]}`, "Makefile": "a:\n"},
		"too long":     {"package.json": strings.Repeat(" ", maxFile) + "{}", "Makefile": "a:\n"},
	} {
		t.Run(name, func(t *testing.T) {
			tasks, err := Discover(t.Context(), workspace(t, files), Options{})
			if bridge.CodeOf(err) != bridge.CodeInvalid || len(tasks) != 1 || tasks[0].Name != "make:a" {
				t.Errorf("got %+v, %v", tasks, err)
			}
		})
	}
}

func TestPackageManagers(t *testing.T) {
	for name, tt := range map[string]struct {
		files map[string]string
		want  string
	}{
		"npm":            {map[string]string{"package-lock.json": ""}, "npm"},
		"no lock":        {nil, "npm"},
		"pnpm":           {map[string]string{"pnpm-lock.yaml": ""}, "pnpm"},
		"yarn":           {map[string]string{"yarn.lock": ""}, "yarn"},
		"bun":            {map[string]string{"bun.lock": ""}, "bun"},
		"named":          {map[string]string{"yarn.lock": "", "package.json": `{"packageManager":"pnpm@9.1.0","scripts":{"b":"x"}}`}, "pnpm"},
		"named, unknown": {map[string]string{"package.json": `{"packageManager":"evil@1","scripts":{"b":"x"}}`}, "npm"},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"package.json": `{"scripts":{"b":"x","-c":"y","n":5}}`}
			for k, v := range tt.files {
				files[k] = v
			}
			tasks := discover(t, files, Options{})
			if !reflect.DeepEqual(tasks[0].Command, []string{tt.want, "run", "b"}) || tasks[0].Detail != "x" {
				t.Errorf("got %+v", tasks[0])
			}
			if len(tasks) > 1 && (len(tasks) != 2 || tasks[1].Runnable) {
				t.Errorf("got %+v", tasks[1:])
			}
		})
	}
}

func TestParseMakefile(t *testing.T) {
	const text = `# a comment: no target
VERSION := 1:2
X ?= y
export Z = a:b
.PHONY: all test
all: build test ## everything there is
## compile it
build: bin/app
bin/app: main.go | dir
	go build: not a target
%.o: %.c
	cc
$(GEN): x
ifeq ($(A),b:c)
cond: ; echo
endif
define RECIPE
inside: out
endef
test lint:: \
   more
more: FLAGS = -x # y
a b &: c
include other.mk: x
build: other
objs: %.o: %.c
## documented: by name
documented:
	true
last:`
	want := []target{
		{"all", "everything there is"}, {"build", "compile it"}, {"bin/app", ""}, {"cond", ""}, {"test", ""}, {"lint", ""},
		{"more", ""}, {"a", ""}, {"b", ""}, {"objs", ""}, {"documented", "by name"}, {"last", ""},
	}
	if got := parseMakefile(text); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got := parseMakefile(strings.ReplaceAll(text, "\n", "\r\n")); !reflect.DeepEqual(got, want) {
		t.Errorf("with CRLF got %q", got)
	}
}

func TestPlan(t *testing.T) {
	tasks := discover(t, map[string]string{".vscode/tasks.json": `{"version":"2.0.0","tasks":[
		{"label":"all","dependsOn":["b","a"]},
		{"label":"a","type":"shell","command":"a","dependsOn":"base"},
		{"label":"b","type":"shell","command":"b","dependsOn":["base"]},
		{"label":"base","type":"shell","command":"base"},
		{"label":"loop","type":"shell","command":"x","dependsOn":"loop2"},
		{"label":"loop2","type":"shell","command":"x","dependsOn":"loop"},
		{"label":"lost","type":"shell","command":"x","dependsOn":"none"},
		{"label":"blocked","type":"shell","command":"x","dependsOn":"editor"},
		{"label":"editor","type":"shell","command":"${file}"}]}`}, Options{})
	plan, err := Plan(tasks, "all")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range plan {
		got = append(got, p.Shell)
	}
	if !reflect.DeepEqual(got, []string{"base", "b", "a"}) {
		t.Errorf("plan %q", got)
	}
	for name, want := range map[string]bridge.Code{
		"loop": bridge.CodeInvalid, "lost": bridge.CodeNotFound, "blocked": bridge.CodeUnsupported, "editor": bridge.CodeUnsupported, "?": bridge.CodeNotFound,
	} {
		if _, err := Plan(tasks, name); bridge.CodeOf(err) != want {
			t.Errorf("Plan(%q): %v, want %s", name, err, want)
		}
	}
}

// A file that may not be read declares nothing.
func TestDiscoverAsksWhatMayBeRead(t *testing.T) {
	root := workspace(t, map[string]string{
		".vscode/tasks.json": `{"version":"2.0.0","tasks":[{"label":"v","type":"shell","command":"echo"}]}`,
		"Makefile":           "m:\n", "GNUmakefile": "g:\n", "package.json": `{"scripts":{"n":"x"}}`,
	})
	for denied, want := range map[string]string{
		"": "vscode:v make:g npm:n", ".vscode/tasks.json": "make:g npm:n", "GNUmakefile": "vscode:v npm:n", "package.json": "vscode:v make:g",
	} {
		tasks, err := Discover(t.Context(), root, Options{MayRead: func(path string) bool { return path != denied }})
		var got []string
		for _, found := range tasks {
			got = append(got, found.Name)
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("without %q: %v, %v", denied, got, err)
		}
	}
}

func FuzzMakefile(f *testing.F) {
	f.Add("a: b\n\tc\n.PHONY: a\nx := y\n")
	f.Add("define X\na:\nendef\n## d\nb: ## e\\\n")
	f.Fuzz(func(t *testing.T, text string) {
		seen := map[string]bool{}
		for _, found := range parseMakefile(text) {
			if !plainTarget.MatchString(found.name) || seen[found.name] {
				t.Errorf("target %q", found.name)
			}
			seen[found.name] = true
		}
	})
}

func FuzzPackageJSON(f *testing.F) {
	f.Add([]byte(`{"scripts":{"a":"b","a":"c"},"packageManager":"pnpm@9"}`))
	f.Add([]byte(`{"scripts":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		scripts, manager, err := parsePackage(b)
		if err == nil && manager != "" && !knownManager(manager) {
			t.Errorf("manager %q", manager)
		}
		seen := map[string]bool{}
		for _, s := range scripts {
			if seen[s.name] {
				t.Errorf("script %q twice", s.name)
			}
			seen[s.name] = true
		}
	})
}

func FuzzTasksJSON(f *testing.F) {
	f.Add([]byte(`{"version":"2.0.0","tasks":[{"label":"a","type":"shell","command":"x","args":["b c",{"value":"d","quoting":"weak"}]},]}`))
	f.Add([]byte(`{"tasks":[{"type":"npm","script":"x","path":"../.."},{"dependsOn":["a"]}],"options":{"cwd":"${env:X}"}} // end`))
	root := workspace(f, nil)
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := parseTasks(b)
		if err != nil {
			return
		}
		for _, def := range file.Tasks {
			task := runnable(file.task(root, def, variables{dir: root.Name(), env: []string{"X=/etc"}}))
			if task.Runnable && task.Dir != "" && !filepath.IsLocal(filepath.FromSlash(task.Dir)) {
				t.Errorf("runs in %q", task.Dir)
			}
			if !task.Runnable && (task.Reason == "" || task.Shell != "" || task.Command != nil) {
				t.Errorf("got %+v", task)
			}
			if strings.ContainsRune(task.Shell+strings.Join(task.Command, ""), 0) {
				t.Errorf("NUL in %+v", task)
			}
		}
	})
}
