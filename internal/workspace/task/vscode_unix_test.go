//go:build unix

package task

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestVSCode(t *testing.T) {
	const head = `{ // with comments
		"version": "2.0.0", /* and */
		"options": {"env": {"ALL": "1"}},
		"tasks": [`
	tests := []struct {
		name, task string
		want       Task // of it: Command, Shell, Dir, Env, DependsOn, Group
		reason     string
	}{
		{"shell line", `{"type":"shell","command":"echo a | wc -l","group":"build"}`, Task{Shell: "echo a | wc -l", Group: "build"}, ""},
		{"shell arguments", `{"type":"shell","command":"my tool","args":["a b","$X","'c d'","","it's a"]}`,
			Task{Shell: `'my tool' 'a b' $X 'c d' '' 'it'\''s a'`}, ""},
		{"shell quoting", `{"type":"shell","command":"echo","args":[{"value":"a b","quoting":"escape"},{"value":"$X y","quoting":"weak"},{"value":"$X","quoting":"strong"}]}`,
			Task{Shell: `echo a\ b "$X y" '$X'`}, ""},
		{"process", `{"type":"process","command":"go","args":["test","./...","a b"],"group":{"kind":"test","isDefault":true}}`,
			Task{Command: []string{"go", "test", "./...", "a b"}, Group: "test"}, ""},
		{"process by default", `{"command":"go","args":["vet"]}`, Task{Command: []string{"go", "vet"}}, ""},
		{"directory and environment", `{"type":"shell","command":"x","options":{"cwd":"${workspaceFolder}/sub/dir","env":{"A":"${env:KNOWN}-${env:UNKNOWN}"}}}`,
			Task{Shell: "x", Dir: "sub/dir", Env: map[string]string{"A": "yes-"}}, ""},
		{"relative directory", `{"type":"shell","command":"x","options":{"cwd":"sub"}}`, Task{Shell: "x", Dir: "sub"}, ""},
		{"the workspace itself", `{"type":"shell","command":"x","options":{"cwd":"${workspaceFolder}"}}`, Task{Shell: "x"}, ""},
		{"variables", `{"type":"process","command":"${workspaceFolder}${/}bin${pathSeparator}x","args":["${workspaceFolderBasename}","${userHome}","${","$5"]}`,
			Task{Command: []string{"DIR/bin/x", "BASE", "/home/me", "${", "$5"}}, ""},
		{"other shell", `{"type":"shell","command":"x y","options":{"shell":{"executable":"/bin/bash"}}}`, Task{Command: []string{"/bin/bash", "-c", "x y"}}, ""},
		{"other shell with arguments", `{"type":"shell","command":"x","options":{"shell":{"executable":"bash","args":["-l","-c"]}}}`,
			Task{Command: []string{"bash", "-l", "-c", "x"}}, ""},
		{"this system", `{"type":"shell","command":"other","windows":{"command":"win"},"linux":{"command":"lin"},"osx":{"command":"lin","args":[]}}`, Task{Shell: "lin"}, ""},
		{"npm", `{"type":"npm","script":"build"}`, Task{Command: []string{"yarn", "run", "build"}}, ""},
		{"npm elsewhere", `{"type":"npm","script":"build","path":"web"}`, Task{Command: []string{"pnpm", "run", "build"}, Dir: "web"}, ""},
		{"dependencies only", `{"dependsOn":["a","b"]}`, Task{DependsOn: []string{"a", "b"}}, ""},
		{"one dependency", `{"type":"shell","command":"x","dependsOn":"a"}`, Task{Shell: "x", DependsOn: []string{"a"}}, ""},
		{"command list", `{"type":"shell","command":["a","b"]}`, Task{Shell: "a b"}, ""},

		{"open file", `{"type":"shell","command":"gcc","args":["${file}"]}`, Task{}, "${file}"},
		{"input", `{"type":"shell","command":"${input:what}"}`, Task{}, "${input:what}"},
		{"config", `{"type":"shell","command":"x","options":{"cwd":"${config:a.b}"}}`, Task{}, "${config:a.b}"},
		{"background", `{"type":"shell","command":"x","isBackground":true}`, Task{}, "background"},
		{"extension", `{"type":"typescript","tsconfig":"tsconfig.json"}`, Task{}, "extension"},
		{"dependency of an extension", `{"type":"shell","command":"x","dependsOn":{"type":"npm"}}`, Task{}, "extension"},
		{"outside", `{"type":"shell","command":"x","options":{"cwd":"../other"}}`, Task{}, "outside"},
		{"outside, absolute", `{"type":"shell","command":"x","options":{"cwd":"/etc"}}`, Task{}, "outside"},
		{"nothing", `{"type":"shell"}`, Task{}, "no command"},
		{"empty", `{"type":"shell","command":" "}`, Task{}, "empty"},
		{"wrong", `{"type":"shell","command":"x","args":"y"}`, Task{}, "not written as"},
		{"no text", `{"type":"shell","command":5}`, Task{}, "no text"},
		{"NUL", `{"type":"process","command":"a\u0000b"}`, Task{}, "NUL"},
		{"npm option", `{"type":"npm","script":"--foo"}`, Task{}, "option"},
		{"bad variable name", `{"type":"shell","command":"x","options":{"env":{"A=B":"1"}}}`, Task{}, "environment variable"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			task := `{"label":"it",` + strings.TrimPrefix(tt.task, "{")
			root := workspace(t, map[string]string{
				".vscode/tasks.json": head + task + ",]}", "yarn.lock": "", "web/pnpm-lock.yaml": "",
			})
			tasks, err := Discover(t.Context(), root, Options{Env: []string{"KNOWN=yes", "HOME=/home/me"}})
			if err != nil || len(tasks) != 1 {
				t.Fatalf("got %+v, %v", tasks, err)
			}
			got := tasks[0]
			if got.Runnable != (tt.reason == "") || !strings.Contains(got.Reason, tt.reason) {
				t.Fatalf("runnable %v, reason %q", got.Runnable, got.Reason)
			}
			if tt.reason != "" {
				if got.Command != nil || got.Shell != "" {
					t.Errorf("it still has a command: %+v", got)
				}
				return
			}
			for i, w := range tt.want.Command {
				w = strings.ReplaceAll(w, "DIR", root.Name())
				tt.want.Command[i] = strings.ReplaceAll(w, "BASE", filepath.Base(root.Name()))
			}
			if tt.want.Env == nil {
				tt.want.Env = map[string]string{}
			}
			tt.want.Env["ALL"] = "1"
			short := Task{Command: got.Command, Shell: got.Shell, Dir: got.Dir, Env: got.Env, DependsOn: got.DependsOn, Group: got.Group}
			if !reflect.DeepEqual(short, tt.want) {
				t.Errorf("got  %+v\nwant %+v", short, tt.want)
			}
		})
	}
}
