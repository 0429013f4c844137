package demomodel

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// converse plays a whole turn against tools that answer from a script, and
// returns the calls made and the last words.
func converse(t *testing.T, c *chat, results ...string) (calls []string, said string) {
	t.Helper()
	s := start(t)
	for _, result := range append(results, "") {
		g := post(t, s, c.json(t))
		if g.status != 200 || g.err != nil {
			t.Fatalf("%+v", g)
		}
		if len(g.calls) == 0 {
			return calls, g.text
		}
		for _, call := range g.calls {
			calls = append(calls, call.Name+" "+call.Arguments)
		}
		c.round(g.calls, result)
	}
	t.Fatalf("no end after %q", calls)
	return nil, ""
}

const exit0 = "\n<shellId: 0 completed with exit code 0>"

func TestTurns(t *testing.T) {
	const exists = "Path /w/a.txt already exists as a file. Use `view` to check contents then edit it."
	const rejected = "The user rejected this tool call. User feedback: policy says no"
	tests := []struct {
		name    string
		message string
		results []string
		calls   []string
		said    []string
	}{
		{"create", "create a.txt saying hi", []string{"Created file /w/a.txt with 3 characters"},
			[]string{create("a.txt", `hi\n`)}, []string{"I created a.txt."}},
		{"create what exists", "create a.txt saying hi", []string{exists},
			[]string{create("a.txt", `hi\n`)}, []string{"I could not create a.txt: ", "already exists"}},
		{"denied", "create a.txt saying hi; list the files; read b.txt", []string{rejected},
			[]string{create("a.txt", `hi\n`)}, []string{"I was not allowed to create a.txt: ", "policy says no", "did not list the files in the working directory"}},
		{"denied by a hook", "run ls", []string{"Denied by preToolUse hook: shell is off"}, []string{run("ls")}, []string{"not allowed to run `ls`", "shell is off"}},
		{"create in a new directory", "create n/a.md saying hi", []string{"Parent directory /w/n does not exist. You need to create it before creating the file.", exit0, "Created"},
			[]string{create("n/a.md", `hi\n`), bash("mkdir -p n", "Create the directory n"), create("n/a.md", `hi\n`)}, []string{"I created n/a.md."}},
		{"directory denied", "create n/a.md saying hi", []string{"Parent directory /w/n does not exist.", rejected},
			[]string{create("n/a.md", `hi\n`), bash("mkdir -p n", "Create the directory n")}, []string{"I was not allowed to create n/a.md"}},
		{"read", "read a.txt", []string{"one\ntwo\n"}, []string{view("/w/a.txt")}, []string{"I read a.txt:\n```\none\ntwo\n```"}},
		{"read what is not there", "read a.txt", []string{"Path /w/a.txt does not exist. Please provide a valid path."}, []string{view("/w/a.txt")}, []string{"I could not read a.txt"}},
		{"ask", "ask me what my name is", []string{"User responded: Ada"}, []string{ask("what my name is?")}, []string{"I asked you: what my name is?:", "Ada"}},
		{"several", "create a.txt saying hi and then run cat a.txt", []string{"Created", "hi" + exit0}, []string{create("a.txt", `hi\n`), run("cat a.txt")}, []string{"I created a.txt.\nI ran `cat a.txt`:\n```\nhi\n```"}},
		{"half understood", "frobnicate it and list the files", []string{"a.txt"}, []string{view("/w")}, []string{"I listed the files in the working directory:", "beyond me"}},
		{"complaint", "create a.txt saying hi", []string{"Error: disk full"}, []string{create("a.txt", `hi\n`)}, []string{"I could not create a.txt: Error: disk full"}},
		{"a file that complains", "read a.log", []string{"Error: disk full"}, []string{view("/w/a.log")}, []string{"I read a.log:\n```\nError: disk full"}},
		{"echo", "how are you?", nil, nil, []string{"You said: how are you?", "create hello.txt saying hi"}},
		{"unknown tool", "read a.txt", []string{"Tool 'view' does not exist. Available tools: none."}, []string{view("/w/a.txt")}, []string{"I could not read a.txt"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			calls, said := converse(t, newChat(tt.message, builtins()...), tt.results...)
			if !reflect.DeepEqual(calls, tt.calls) {
				t.Errorf("calls %q\n want %q", calls, tt.calls)
			}
			for _, want := range append(tt.said, "not Copilot", "copilot-bridge validate") {
				if !strings.Contains(said, want) {
					t.Errorf("%q does not say %q", said, want)
				}
			}
		})
	}
}

func TestOtherTools(t *testing.T) {
	shell := tool("bash", "command!", "description!")
	tests := []struct {
		name    string
		message string
		tools   []any
		calls   []string
		said    string
	}{
		{"no tools", "create a.txt saying hi", nil, nil, "asked me to create a.txt, but no tool for that"},
		{"no shell", "delete a.txt", []any{tool("view", "path!")}, nil, "delete a.txt, but no tool"},
		{"no ask_user", "ask me something", []any{shell}, nil, "no tool"},
		{"create by shell", "create n/a.txt saying hi", []any{shell},
			[]string{bash(`mkdir -p n && cat > n/a.txt <<'REHEARSAL_END'\nhi\nREHEARSAL_END`, "Create n/a.txt")}, "created"},
		{"empty by shell", "create a.txt", []any{shell}, []string{bash(`cat > a.txt <<'REHEARSAL_END'\nREHEARSAL_END`, "Create a.txt")}, "created"},
		{"read by shell", `read "a b"`, []any{shell}, []string{bash("cat 'a b'", "Show a b")}, "read"},
		{"list by shell", "list the files", []any{shell}, []string{bash("ls .", "List the files")}, "listed"},
		{"another's tools", "create a.txt saying hi", []any{tool("Write", "file_path!", "content!")}, []string{`Write {"content":"hi\n","file_path":"/w/a.txt"}`}, "created"},
		{"schemaless", "run ls", []any{map[string]any{"type": "function", "function": map[string]any{"name": "bash"}}}, []string{run("ls")}, "ran"},
		{"command as array", "run ls -l", []any{map[string]any{"type": "function", "function": map[string]any{"name": "shell", "parameters": map[string]any{
			"type": "object", "properties": map[string]any{"command": map[string]any{"type": "array", "items": map[string]any{"type": "string"}}}, "required": []string{"command"}}}}},
			[]string{`shell {"command":["bash","-lc","ls -l"]}`}, "ran"},
		{"Codex", "create a.txt saying hi", []any{tool("exec_command", "cmd!", "justification")},
			[]string{`exec_command {"cmd":"cat > a.txt <<'REHEARSAL_END'\nhi\nREHEARSAL_END"}`}, "created"},
		{"Codex with patches", "create a.txt saying hi", []any{tool("exec_command", "cmd!"), tool("apply_patch", "input!")},
			[]string{`apply_patch {"input":"*** Begin Patch\n*** Add File: a.txt\n+hi\n*** End Patch\n"}`}, "created"},
		{"Codex with JavaScript", "run ls", []any{tool("exec", "input!")}, []string{`exec {"input":"text(await tools.exec_command({cmd: \"ls\"}))"}`}, "ran"},
		{"Qwen Code", "run ls", []any{tool("run_shell_command", "command!", "description")}, []string{`run_shell_command {"command":"ls","description":"Run ls"}`}, "ran"},
		{"Cline", "run ls", []any{map[string]any{"type": "function", "function": map[string]any{"name": "run_commands", "parameters": map[string]any{
			"type": "object", "properties": map[string]any{"commands": map[string]any{"type": "array", "items": map[string]any{"type": "string"}}}, "required": []string{"commands"}}}}},
			[]string{`run_commands {"commands":["ls"]}`}, "ran"},
		{"OpenCode", `"create a.txt saying hi"`, []any{tool("write", "filePath!", "content!")}, []string{`write {"content":"hi\n","filePath":"/w/a.txt"}`}, "created"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			calls, said := converse(t, newChat(tt.message, tt.tools...), "fine")
			if !reflect.DeepEqual(calls, tt.calls) || !strings.Contains(said, tt.said) {
				t.Errorf("calls %q\nsaid %q", calls, said)
			}
		})
	}
}

func TestToolChoice(t *testing.T) {
	weather := tool("get_weather", "city!", "unit")
	for _, tt := range []struct {
		choice any
		want   []string
	}{
		{"auto", nil},
		{"none", nil},
		{"required", []string{`get_weather {"city":"rehearsal"}`}},
		{map[string]any{"type": "function", "function": map[string]any{"name": "get_weather"}}, []string{`get_weather {"city":"rehearsal"}`}},
	} {
		c := newChat("How is it outside?", weather)
		c.ToolChoice = tt.choice
		calls, said := converse(t, c, "sunny")
		if !reflect.DeepEqual(calls, tt.want) || (tt.want != nil) != strings.Contains(said, "sunny") {
			t.Errorf("%v: %q %q", tt.choice, calls, said)
		}
	}
	c := newChat("list the files", builtins()...)
	c.ToolChoice = "none"
	if calls, said := converse(t, c); calls != nil || !strings.Contains(said, "no tool") {
		t.Errorf("%q %q", calls, said)
	}
}

func TestResponseFormat(t *testing.T) {
	c := newChat("create a.txt saying hi", builtins()...)
	c.Format = map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "x", "strict": true, "schema": map[string]any{
		"type": "object", "required": []string{"ok", "kind"}, "properties": map[string]any{"ok": map[string]any{"type": "boolean"}, "kind": map[string]any{"enum": []string{"b", "a"}}}}}}
	calls, said := converse(t, c, "Created")
	if len(calls) != 1 || said != `{"kind":"b","ok":false}` {
		t.Errorf("%q %q", calls, said)
	}
	c = newChat("hello")
	c.Format = map[string]any{"type": "json_object"}
	_, said = converse(t, c)
	var doc map[string]string
	if err := json.Unmarshal([]byte(said), &doc); err != nil || !strings.Contains(doc["message"], "You said: hello") {
		t.Errorf("%q %v", said, err)
	}
}

func TestJudge(t *testing.T) {
	for _, tt := range []struct {
		result string
		how    outcome
		text   string
	}{
		{"", succeeded, ""},
		{"fine\n", succeeded, "fine"},
		{"hi\n<shellId: 0 completed with exit code 0>", succeeded, "hi"},
		{"\n<exited with exit code 127>", failed, "exit code 127"},
		{"no\n<shellId: 3 completed with exit code 2>", failed, "exit code 2\nno"},
		{"Chunk ID: 6\nWall time: 0.1 seconds\nProcess exited with code 0\nOriginal token count: 1\nOutput:\nhi\n", succeeded, "hi"},
		{"Chunk ID: 6\nWall time: 0.1 seconds\nProcess exited with code 2\nOutput:\nno", failed, "exit code 2\nno"},
		{"Denied by rules: no", denied, "Denied by rules: no"},
		{"Permission denied and could not request permission from user", denied, "Permission denied and could not request permission from user"},
		{"Error: in a file", succeeded, "Error: in a file"},
		{"first line\nError: in a file", succeeded, "first line\nError: in a file"},
	} {
		if how, text := judge(tt.result); how != tt.how || text != tt.text {
			t.Errorf("%q: %d %q", tt.result, how, text)
		}
	}
}

func TestJoin(t *testing.T) {
	for _, tt := range [][3]string{
		{"/w", "a", "/w/a"}, {"/w/", "./a", "/w/a"}, {"/w", "", "/w"}, {"/w", ".", "/w"}, {"/w", "/x", "/x"}, {"", "a", "a"}, {"/w", "~/a", "~/a"},
		{`C:\w`, "a/b", `C:\w\a\b`}, {`C:\w`, `D:\x`, `D:\x`},
	} {
		if got := (&toolbox{cwd: tt[0]}).join(tt[1]); got != tt[2] {
			t.Errorf("%q + %q = %q", tt[0], tt[1], got)
		}
	}
}

// The directory is told by the runtime and each coding agent in its own way.
func TestWorkingDirectory(t *testing.T) {
	for _, tt := range []chatMessage{
		{Role: "system", Content: "<environment_context>\n* Current working directory: /a b\n"},
		{Role: "system", Content: "<env>\n  Working directory: /a b\n</env>"},
		{Role: "user", Content: "# Environment\n - Primary working directory: /a b\n - Platform: linux\n\nhi"},
		{Role: "user", Content: "<environment_context>\n  <cwd>/a b</cwd>\n</environment_context>\nhi"},
		{Role: "user", Content: "[DIALOG]\nuser: Hello.\nI'm currently working in the directory: /a b\nuser: hi"},
	} {
		if got := newToolbox((&chat{Messages: []chatMessage{tt}}).request(t)).cwd; got != "/a b" {
			t.Errorf("%q: %q", tt.Content, got)
		}
	}
}
