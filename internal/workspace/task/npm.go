package task

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// discoverNPM reads the scripts of package.json.
func discoverNPM(w source) ([]Task, error) {
	b, ok, err := w.read("package.json")
	if err != nil || !ok {
		return nil, err
	}
	scripts, manager, err := parsePackage(b)
	if err != nil {
		return nil, &bridge.Error{
			Code: bridge.CodeInvalid, Message: "package.json cannot be read", Remedy: "Correct package.json.", Cause: err,
		}
	}
	if len(scripts) == 0 {
		return nil, nil
	}
	if manager == "" {
		manager = managerByLock(w.root, "")
	}
	var tasks []Task
	for _, s := range scripts {
		t := Task{Label: s.name, Source: SourceNPM, Detail: s.line, Command: runScript(manager, s.name)}
		if s.name == "" || strings.HasPrefix(s.name, "-") {
			t.Command, t.Reason = nil, "its name would be taken as an option"
		}
		tasks = append(tasks, runnable(t))
	}
	return tasks, nil
}

func runScript(manager, script string) []string { return []string{manager, "run", script} }

type script struct{ name, line string }

// parsePackage returns the scripts in the file's order, and the program that
// the project names for running them, if it names one.
func parsePackage(b []byte) (scripts []script, manager string, err error) {
	var pkg struct {
		Scripts        json.RawMessage `json:"scripts"`
		PackageManager any             `json:"packageManager"`
	}
	if err := json.Unmarshal(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")), &pkg); err != nil {
		return nil, "", err
	}
	if s, ok := pkg.PackageManager.(string); ok {
		manager, _, _ = strings.Cut(s, "@")
		if !knownManager(manager) {
			manager = ""
		}
	}
	if len(pkg.Scripts) == 0 || string(pkg.Scripts) == "null" {
		return nil, manager, nil
	}
	dec := json.NewDecoder(bytes.NewReader(pkg.Scripts))
	if t, err := dec.Token(); err != nil {
		return nil, "", err
	} else if t != json.Delim('{') {
		return nil, "", errors.New(`"scripts" is not an object`)
	}
	seen := map[string]int{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, "", err
		}
		var value any
		if err := dec.Decode(&value); err != nil {
			return nil, "", err
		}
		name, isName := key.(string)
		line, isLine := value.(string)
		if !isName || !isLine {
			continue // npm ignores it as well
		}
		if i, known := seen[name]; known {
			scripts[i].line = line // the last one counts
			continue
		}
		seen[name] = len(scripts)
		scripts = append(scripts, script{name, line})
	}
	return scripts, manager, nil
}

func knownManager(name string) bool {
	switch name {
	case "npm", "pnpm", "yarn", "bun":
		return true
	}
	return false
}

// managerByLock tells the program from the lock file it leaves.
func managerByLock(root *os.Root, dir string) string {
	for _, m := range []struct{ lock, manager string }{
		{"pnpm-lock.yaml", "pnpm"}, {"yarn.lock", "yarn"}, {"bun.lock", "bun"}, {"bun.lockb", "bun"},
	} {
		if _, err := root.Stat(path.Join(dir, m.lock)); err == nil {
			return m.manager
		}
	}
	return "npm"
}

// npmTask is VS Code's "type": "npm".
func npmTask(root *os.Root, dir, script string) (command []string, reason string) {
	switch {
	case script == "":
		return nil, "it names no script"
	case strings.HasPrefix(script, "-"):
		return nil, fmt.Sprintf("the script's name %q would be taken as an option", script)
	}
	return runScript(managerByLock(root, dir), script), ""
}
