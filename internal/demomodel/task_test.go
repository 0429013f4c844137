package demomodel

import (
	"reflect"
	"strings"
	"testing"
)

func create(path, text string) string {
	return `create {"file_text":"` + text + `","path":"/w/` + path + `"}`
}

func view(path string) string { return `view {"path":"` + path + `"}` }

func bash(command, description string) string {
	return `bash {"command":"` + command + `","description":"` + description + `"}`
}

func run(command string) string { return bash(command, "Run "+command) }

func edit(path, old, text string) string {
	return `edit {"new_str":"` + text + `","old_str":"` + old + `","path":"/w/` + path + `"}`
}

func ask(question string) string { return `ask_user {"question":"` + question + `"}` }

func TestTasks(t *testing.T) {
	for _, tt := range []struct {
		message string
		want    []string
	}{
		{"create hello.txt saying hi", []string{create("hello.txt", `hi\n`)}},
		{`Please create hello.txt saying "hi there".`, []string{create("hello.txt", `hi there\n`)}},
		{`create a file called "my notes.txt" containing "a; b and then list the files"`, []string{create("my notes.txt", `a; b and then list the files\n`)}},
		{"create a.txt saying one and two", []string{create("a.txt", `one and two\n`)}},
		{"create a.txt saying hi and create b.txt saying ho, then list the files.", []string{create("a.txt", `hi\n`), create("b.txt", `ho\n`), view("/w")}},
		{"write a.txt", []string{create("a.txt", "")}},
		{"read a.txt; show the file b.txt", []string{view("/w/a.txt"), view("/w/b.txt")}},
		{"list the files in src", []string{view("/w/src")}},
		{"list files\nrun go test ./...", []string{view("/w"), run("go test ./...")}},
		{"replace one with two in a.txt", []string{edit("a.txt", "one", "two")}},
		{`change "a b" to "c" in a.txt`, []string{edit("a.txt", "a b", "c")}},
		{"delete old.txt", []string{bash("rm old.txt", "Delete old.txt")}},
		{"delete -rf", []string{bash("rm ./-rf", "Delete -rf")}},
		{"run `ls; pwd`", []string{run("ls; pwd")}},
		{"ask me which colour I like", []string{ask("which colour I like?")}},
		{"what is the meaning of it?", nil},
		{"show me the files", []string{view("/w")}},
		{"", nil},
	} {
		box := newToolbox(newChat(tt.message, builtins()...).request(t))
		tasks, _ := readTasks(tt.message)
		var got []string
		for i := range tasks {
			for _, c := range tasks[i].next(box, nil).calls {
				got = append(got, c.name+" "+c.args)
			}
		}
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%q: %q\nwant %q", tt.message, got, tt.want)
		}
	}
	if found, _ := readTasks(strings.Repeat("list the files\n", 100)); len(found) != maxTasks {
		t.Errorf("%d tasks", len(found))
	}
	if found, all := readTasks(strings.Repeat("x", maxMessage+1)); found != nil || all {
		t.Error("a long message was read")
	}
}

func FuzzTasks(f *testing.F) {
	for _, seed := range []string{"create hello.txt saying hi and then list the files", "run `x`; ", "replace a with b in c.txt", "ask me\x00", `create "a`} {
		f.Add(seed)
	}
	tools := newChat("", builtins()...)
	f.Fuzz(func(t *testing.T, message string) {
		box := newToolbox(tools.request(t))
		found, _ := readTasks(message)
		if len(found) > maxTasks {
			t.Errorf("%d tasks", len(found))
		}
		for i := range found {
			// Whatever the tools answer, a task comes to an end.
			for _, result := range []string{"", "Parent directory /x does not exist", "The user rejected this tool call.", message} {
				var past []round
				for {
					m := found[i].next(box, past)
					if len(m.calls) == 0 {
						if m.say == "" {
							t.Errorf("%+v says nothing", found[i])
						}
						break
					}
					if past = append(past, round{calls: []Call{{Name: m.calls[0].name}}, results: []string{result}}); len(past) > 3 {
						t.Fatalf("%+v does not end", found[i])
					}
				}
			}
		}
	})
}
