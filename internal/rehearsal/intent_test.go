package rehearsal

import (
	"reflect"
	"strings"
	"testing"
)

// firstCalls are the first calls of each request of a message, as "tool {args}".
func firstCalls(t *testing.T, message string) []string {
	t.Helper()
	box := newToolbox(newChat(message, builtins()...).request(t))
	intents, _ := readIntents(message, box.offered)
	var out []string
	for i := range intents {
		for _, c := range intents[i].next(box, nil).calls {
			out = append(out, c.name+" "+c.args)
		}
	}
	return out
}

const lookAround = `glob {"pattern":"{go.mod,Cargo.toml,package.json,pyproject.toml,Makefile}"}`

func create(path, text string) string {
	return `create {"file_text":"` + text + `","path":"/w/` + path + `"}`
}

func view(path string) string { return `view {"path":"` + path + `"}` }

func bash(command, description string) string {
	return `bash {"command":"` + command + `","description":"` + description + `"}`
}

func run(command string) string { return bash(command, "Run "+command) }

func grep(pattern string) string {
	return `grep {"-n":true,"output_mode":"content","pattern":"` + pattern + `"}`
}

func glob(pattern string) string { return `glob {"pattern":"` + pattern + `"}` }

func edit(path, old, text string) string {
	return `edit {"new_str":"` + text + `","old_str":"` + old + `","path":"/w/` + path + `"}`
}

func ask(question string) string { return `ask_user {"question":"` + question + `"}` }

func TestIntents(t *testing.T) {
	tests := []struct {
		message string
		want    []string
	}{
		// Creating.
		{"create hello.txt saying hi", []string{create("hello.txt", `hi\n`)}},
		{`Please create hello.txt saying "hi there".`, []string{create("hello.txt", `hi there\n`)}},
		{"write a file notes/a.md with the text Remember the milk", []string{create("notes/a.md", `Remember the milk\n`)}},
		{`create a file called 'my notes.txt' containing "a; b and then c"`, []string{create("my notes.txt", `a; b and then c\n`)}},
		{"make a new file named TODO with the content: x", []string{create("TODO", `x\n`)}},
		{"create a.go with:\n```go\npackage main\n```", []string{create("a.go", `package main\n`)}},
		{"create a.txt with the text:\nline one\nlist the files", []string{create("a.txt", `line one\nlist the files\n`)}},
		{"write hello to greeting.txt", []string{create("greeting.txt", `hello\n`)}},
		{`save "x = 1" as conf.py`, []string{create("conf.py", `x = 1\n`)}},
		{"put hi into a.txt", []string{create("a.txt", `hi\n`)}},
		{"write to a.txt: hello", []string{create("a.txt", `hello\n`)}},
		{"write 'hello' in a.txt", []string{create("a.txt", `hello\n`)}},
		{"touch empty.txt", []string{create("empty.txt", "")}},
		{"add a new file at x.txt", []string{create("x.txt", "")}},
		{"create x.ts in the src folder saying hi", []string{create("src/x.ts", `hi\n`)}},
		{`write "it's fine" to 'a b.txt'`, []string{create("a b.txt", `it's fine\n`)}},
		{"create page.html containing <h1>Hi</h1>", []string{create("page.html", `<h1>Hi</h1>\n`)}},
		{"create /etc/motd saying hi", []string{`create {"file_text":"hi\n","path":"/etc/motd"}`}},
		{"make a directory called docs", []string{bash("mkdir -p docs", "Create the directory docs")}},
		// Reading.
		{"read hello.txt", []string{view("/w/hello.txt")}},
		{"show me the contents of src/main.go", []string{view("/w/src/main.go")}},
		{"cat README.md", []string{view("/w/README.md")}},
		{"What's in notes/a.md?", []string{view("/w/notes/a.md")}},
		{"what does a.txt say?", []string{view("/w/a.txt")}},
		{`can you open the file "my notes.txt" please`, []string{view("/w/my notes.txt")}},
		// Listing.
		{"list the files", []string{view("/w")}},
		{"List files in src.", []string{view("/w/src")}},
		{"ls", []string{view("/w")}},
		{"ls -la src", []string{view("/w/src")}},
		{"show me all the files", []string{glob("**/*")}},
		{"list the go files in src", []string{`glob {"paths":"/w/src","pattern":"**/*.go"}`}},
		{"what files are here?", []string{view("/w")}},
		{"list the contents of the src directory", []string{view("/w/src")}},
		// Editing.
		{"replace foo with bar in a.txt", []string{edit("a.txt", "foo", "bar")}},
		{`change "old text" to "new text" in the file src/main.go`, []string{edit("src/main.go", "old text", "new text")}},
		{"in a.txt replace x with y", []string{edit("a.txt", "x", "y")}},
		{"edit a.txt and replace x with y", []string{edit("a.txt", "x", "y")}},
		{`append "bye" to a.txt`, []string{view("/w/a.txt")}},
		{"add the line hello world to the end of notes.md", []string{view("/w/notes.md")}},
		{"add to a.txt: more", []string{view("/w/a.txt")}},
		// Deleting.
		{"delete a.txt", []string{bash("rm a.txt", "Delete a.txt")}},
		{`remove the file "my notes.txt"`, []string{bash("rm 'my notes.txt'", "Delete my notes.txt")}},
		{"delete -x.txt", []string{bash("rm ./-x.txt", "Delete -x.txt")}},
		{"delete the folder build", []string{bash("rmdir build", "Remove the empty directory build")}},
		// Running.
		{"run the tests", []string{lookAround}},
		{"Run all tests.", []string{lookAround}},
		{"test it", []string{lookAround}},
		{"build the project", []string{lookAround}},
		{"run `ls -la`", []string{run("ls -la")}},
		{"run echo hi", []string{run("echo hi")}},
		{`run echo "a b" && ls | wc`, []string{run(`echo \"a b\" && ls | wc`)}},
		{"execute the command git status", []string{run("git status")}},
		{"$ go version", []string{run("go version")}},
		// Searching.
		{"search for TODO", []string{grep("TODO")}},
		{"find all TODOs", []string{grep("TODO")}},
		{`search the code for "f(x)"`, []string{grep(`f\\(x\\)`)}},
		{`grep for func\s+main in src`, []string{`grep {"-n":true,"output_mode":"content","paths":"/w/src","pattern":"func\\s+main"}`}},
		{"find files named *.go", []string{glob("**/*.go")}},
		{"where is main.go?", []string{glob("**/main.go")}},
		// Asking, delegating, calling.
		{"ask me something", []string{ask("What should the rehearsal do next?")}},
		{"ask me for my name", []string{ask("What is your name?")}},
		{"ask me which colour to use", []string{ask("Which colour to use?")}},
		{"use a sub-agent to create a.txt saying hi", []string{`task {"agent_type":"general-purpose","description":"Rehearsed task","name":"rehearsal","prompt":"create a.txt saying hi"}`}},
		{`call glob with {"pattern":"*.md"}`, []string{`glob {"pattern":"*.md"}`}},
		{"use the view tool with /etc/hosts", []string{`view {"path":"/etc/hosts"}`}},
		{"fetch https://example.com/x?y=1", []string{`web_fetch {"url":"https://example.com/x?y=1"}`}},
		// Several.
		{"create hello.txt saying hi and then list the files", []string{create("hello.txt", `hi\n`), view("/w")}},
		{"create a.txt saying one; create b.txt saying two; ls", []string{create("a.txt", `one\n`), create("b.txt", `two\n`), view("/w")}},
		{"Hello!\n1. create a.txt saying one\n2. then read a.txt\nand run the tests\nThanks", []string{create("a.txt", `one\n`), view("/w/a.txt"), lookAround}},
		{"create a.txt saying salt and pepper and list the files", []string{create("a.txt", `salt and pepper\n`), view("/w")}},
		{"search for salt and pepper", []string{grep("salt and pepper")}},
		{"run the tests and make me happy", []string{lookAround}},
		// Nothing that can be done.
		{"hello", nil},
		{"", nil},
		{"write a poem", nil},
		{"run away", nil},
		{"what is the meaning of life?", nil},
		{"find a way home", nil},
		{"make dinner", nil},
		{"create a plan for world peace. Then tell me about it.", nil},
		{"show mercy", nil},
		{"list groceries", nil},
		{"open the door", nil},
		{"call my mother with love", nil},
		{"I don't know what I'm doing, it's hard", nil},
	}
	for _, tt := range tests {
		t.Run(tt.message, func(t *testing.T) {
			if got := firstCalls(t, tt.message); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestRestOfMessage(t *testing.T) {
	none := func(string) bool { return false }
	for message, want := range map[string]bool{
		"Hi there! Please list the files. Thank you!": true,
		"fix the bug and list the files":              false,
		"list the files\nand be quick about it":       false,
		strings.Repeat("list the files\n", 5):         true,
	} {
		if found, all := readIntents(message, none); all != want || len(found) == 0 {
			t.Errorf("%q: %v %v", message, found, all)
		}
	}
}

func TestBounds(t *testing.T) {
	none := func(string) bool { return false }
	if found, _ := readIntents(strings.Repeat("list the files\n", 100), none); len(found) != maxIntents {
		t.Errorf("%d intents", len(found))
	}
	if found, _ := readIntents(strings.Repeat("x ", maxReadable)+"\nlist the files", none); len(found) != 0 {
		t.Errorf("%d intents of a long message", len(found))
	}
	long := "create a.txt with:\n```\n" + strings.Repeat("long line\n", maxReadable/5) + "```"
	if found, _ := readIntents(long, none); len(found) != 1 || len(found[0].text) < maxReadable {
		t.Errorf("quoted contents count as text: %d intents", len(found))
	}
}

func TestMask(t *testing.T) {
	for _, tt := range []struct {
		text  string
		inner []string
	}{
		{`say "a b" and 'c' or ` + "`d`" + ` and “e”, ‘f’`, []string{"a b", "c", "d", "e", "f"}},
		{`don't won't 'tis`, nil},
		{`'it's fine'`, []string{"it's fine"}},
		{`he said "unclosed`, nil},
		{"```sh\nx\ny\n``` then ```z```", []string{"x\ny\n", "z"}},
		{"```unclosed", nil},
		{`5" and 6"`, nil},
		{"a \uE000 b", nil},
	} {
		m := mask(tt.text)
		var got []string
		for _, l := range m.literals {
			got = append(got, l.inner)
		}
		if !reflect.DeepEqual(got, tt.inner) {
			t.Errorf("%q: %q", tt.text, got)
		}
		if back := m.unmask("x " + m.text); back != "x "+strings.ReplaceAll(tt.text, "\uE000", "\uFFFD") {
			t.Errorf("%q came back as %q", tt.text, back)
		}
	}
}

func FuzzIntents(f *testing.F) {
	for _, seed := range []string{
		"create hello.txt saying hi and then list the files", "```\n`\"'", "run `x`; \uE000 \uF8FF", "replace a with b in c.txt",
		"ask me\x00", "append 'x' to \"y\"", "with:\ncreate a.b:\nc", "call glob with {", "find files named [", "grep (",
	} {
		f.Add(seed)
	}
	tools := newChat("", builtins()...)
	f.Fuzz(func(t *testing.T, message string) {
		box := newToolbox(tools.request(t))
		found, _ := readIntents(message, box.offered)
		if len(found) > maxIntents {
			t.Errorf("%d intents", len(found))
		}
		for i := range found {
			// Whatever the tools answer, an intent comes to an end.
			for _, result := range []string{"", "Parent directory /x does not exist", "go.mod", "The user rejected this tool call.", message} {
				in := found[i]
				var past []round
				for len(past) <= 3 {
					m := in.next(box, past)
					if len(m.calls) == 0 {
						if m.say == "" {
							t.Errorf("%+v says nothing", in)
						}
						break
					}
					for _, c := range m.calls {
						if !isObject(c.args) || len(c.args) > 20*len(message)+1000 {
							t.Errorf("arguments %s", c.args)
						}
					}
					past = append(past, round{calls: []Call{{Name: m.calls[0].name}}, results: []string{result}})
				}
				if len(past) > 3 {
					t.Errorf("%+v does not end", in)
				}
			}
		}
	})
}
