package demomodel

import (
	"cmp"
	"path"
	"regexp"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// task is one simple request of a message:
//
//	create FILE [saying TEXT]    read FILE       list the files [in DIR]
//	replace OLD with NEW in FILE    delete FILE    run COMMAND    ask me QUESTION
type task struct {
	do, done string // in words: "create a.txt", "created a.txt"
	file     string
	text     string
	changes  bool                        // its tool's result is about the change, not something to show
	calls    func(b *toolbox) []callStep // nil if no tool for it is offered
}

const (
	maxMessage = 16 << 10 // a longer message is not a simple request
	maxTasks   = 20
	maxShown   = 1500 // bytes of a tool's result that are shown to people
)

// separator matches separators between two tasks, and quoted texts.
var separator = regexp.MustCompile("(?i)\"[^\"]*\"|`[^`]*`|\\s*\\n\\s*|\\s*;\\s*|,?\\s+(?:and\\s+)?then\\s+|[.!]\\s+(?:then\\s+)?|,?\\s+and\\s+")

// piece is a part of a message between two separators.
type piece struct {
	text string
	then bool // it depends on the piece before it
}

// pieces divides a message. A piece that is no task belongs to the one before.
func pieces(message string) (out []piece) {
	begin, at, then := 0, 0, false // begin is that of the last piece
	add := func(end int) {
		text := strings.TrimSpace(message[at:end])
		_, ok := readTask(text)
		switch {
		case text == "":
		case ok || len(out) == 0:
			out = append(out, piece{text, then})
			begin = at
		default:
			out[len(out)-1].text = strings.TrimSpace(message[begin:end])
		}
	}
	for _, cut := range separator.FindAllStringIndex(message, -1) {
		found := message[cut[0]:cut[1]]
		if strings.ContainsAny(found[:1], "\"`") {
			continue
		}
		add(cut[0])
		at, then = cut[1], strings.Contains(strings.ToLower(found), "then")
	}
	add(len(message))
	return out
}

// readTasks finds the tasks of a message, in order. all is false if part of it
// could not be read.
func readTasks(message string) (found []task, all bool) {
	if len(message) > maxMessage {
		return nil, false
	}
	all = true
	for _, p := range pieces(unquote(message)) { // OpenCode quotes its argument
		t, ok := readTask(p.text)
		if all = all && ok; ok && len(found) < maxTasks {
			found = append(found, t)
		}
	}
	return found, all
}

var (
	polite   = regexp.MustCompile(`(?i)^(?:please|now|then|(?:can|could) you)\s+`)
	creating = regexp.MustCompile(`(?is)^(?:create|write|make)\s+(?:(?:a|the|new|file|called|named)\s+)*("[^"]+"|\S+?)(?:\s+(?:saying|containing|with)\s+(.*))?$`)
	reading  = regexp.MustCompile(`(?i)^(?:read|show|cat|open)\s+(?:(?:me|the|file)\s+)*("[^"]+"|\S+)(?:\s+again)?$`)
	listing  = regexp.MustCompile(`(?i)^(?:list|show)\s+(?:me\s+)?(?:all\s+)?(?:the\s+)?files(?:\s+in\s+("[^"]+"|\S+))?$|^ls(?:\s+(\S+))?$`)
	deleting = regexp.MustCompile(`(?i)^(?:delete|remove)\s+(?:(?:the|file)\s+)*("[^"]+"|\S+)$`)
	changing = regexp.MustCompile(`(?is)^(?:replace|change)\s+(.+?)\s+(?:with|to)\s+(.+?)\s+in\s+("[^"]+"|\S+)$`)
	running  = regexp.MustCompile(`(?is)^(?:run|execute)\s+(?:the\s+command:?\s+)?(.+)$`)
	asked    = regexp.MustCompile(`(?is)^ask me\s+(.+)$`)
)

func readTask(s string) (task, bool) {
	s = polite.ReplaceAllString(strings.TrimSpace(s), "")
	bare := strings.TrimRight(s, ".!? ")
	if m := creating.FindStringSubmatch(s); m != nil {
		return createTask(unquote(m[1]), line(unquote(m[2]))), true
	}
	if m := reading.FindStringSubmatch(bare); m != nil && !strings.HasSuffix(m[1], "files") {
		file := unquote(m[1])
		return task{do: "read " + file, done: "read " + file, file: file, calls: func(b *toolbox) []callStep {
			return either(b.call(viewing, map[string]any{"path": b.join(file)}), b.sh("cat "+quote(file), "Show "+file))
		}}, true
	}
	if m := listing.FindStringSubmatch(bare); m != nil {
		return listTask(unquote(m[1] + m[2])), true
	}
	if m := deleting.FindStringSubmatch(bare); m != nil {
		file := unquote(m[1])
		return task{do: "delete " + file, done: "deleted " + file, file: file, changes: true, calls: func(b *toolbox) []callStep {
			return b.sh("rm "+quote(file), "Delete "+file)
		}}, true
	}
	if m := changing.FindStringSubmatch(bare); m != nil {
		file := unquote(m[3])
		return task{do: "edit " + file, done: "edited " + file, file: file, changes: true, calls: func(b *toolbox) []callStep {
			return b.call(editing, map[string]any{"path": b.join(file), "old": unquote(m[1]), "new": unquote(m[2])})
		}}, true
	}
	if m := running.FindStringSubmatch(s); m != nil {
		command := unquote(m[1])
		return task{do: "run `" + command + "`", done: "ran `" + command + "`", calls: func(b *toolbox) []callStep { return b.sh(command, "Run "+command) }}, true
	}
	if m := asked.FindStringSubmatch(bare); m != nil {
		question := unquote(m[1]) + "?"
		return task{do: "ask you: " + question, done: "asked you: " + question, calls: func(b *toolbox) []callStep {
			return b.call(asking, map[string]any{"question": question})
		}}, true
	}
	return task{}, false
}

func createTask(file, text string) task {
	return task{do: "create " + file, done: "created " + file, file: file, text: text, changes: true, calls: func(b *toolbox) []callStep {
		command := "cat > " + quote(file) + " <<'REHEARSAL_END'\n" + text + "REHEARSAL_END"
		if dir := path.Dir(file); dir != "." && dir != "/" {
			command = "mkdir -p " + quote(dir) + " && " + command
		}
		patch := "*** Begin Patch\n*** Add File: " + file + "\n"
		for l := range strings.Lines(text) {
			patch += "+" + l
		}
		return either(b.call(writing, map[string]any{"path": b.join(file), "text": text}),
			either(b.call(patching, map[string]any{"patch": patch + "*** End Patch\n"}), b.sh(command, "Create "+file)))
	}}
}

func listTask(dir string) task {
	where := cmp.Or(dir, "the working directory")
	return task{do: "list the files in " + where, done: "listed the files in " + where, calls: func(b *toolbox) []callStep {
		if b.named("view") != nil { // the runtime's own; those of others read files only
			return b.call(viewing, map[string]any{"path": b.join(dir)})
		}
		return b.sh("ls "+quote(cmp.Or(dir, ".")), "List the files")
	}}
}

// either returns the first of two ways that there is a tool for.
func either(first, second []callStep) []callStep {
	if first != nil {
		return first
	}
	return second
}

// next returns the move after the given rounds, which are this task's own: its
// call, and for a file in a new directory mkdir and the call again.
func (t *task) next(b *toolbox, past []round) move {
	calls := t.calls(b)
	switch len(past) {
	case 0:
		if calls == nil {
			return move{failed: true, say: "You asked me to " + t.do + ", but no tool for that is offered to me here."}
		}
		return move{calls: calls}
	case 1:
		how, text := judge(past[0].result())
		if dir := path.Dir(t.file); how == failed && t.changes && noParent.MatchString(text) && dir != "." && b.named(shelling.names...) != nil {
			return move{calls: b.sh("mkdir -p "+quote(dir), "Create the directory "+dir)}
		}
	case 2:
		if how, _ := judge(past[1].result()); how == succeeded {
			return move{calls: calls}
		}
	}
	return t.report(past[len(past)-1].result())
}

// report says how the last call went.
func (t *task) report(result string) move {
	how, said := judge(result)
	if how == succeeded && t.changes && complaint.MatchString(said) {
		how = failed
	}
	switch {
	case how == denied:
		return move{failed: true, say: "I was not allowed to " + t.do + ": " + text.Clip(strings.TrimPrefix(said, "Denied by preToolUse hook: "), maxShown)}
	case how == failed:
		return move{failed: true, say: "I could not " + t.do + ": " + text.Clip(said, maxShown)}
	case t.changes:
		return move{say: "I " + t.done + "."}
	case said == "":
		return move{say: "I " + t.done + "; there was no output."}
	}
	return move{say: "I " + t.done + ":\n" + fenced(said)}
}

func (r *round) result() string { return strings.Join(r.results, "\n") }

func fenced(s string) string {
	fence := "```"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	return fence + "\n" + line(text.Clip(s, maxShown)) + fence
}

// unquote takes one pair of quotes off.
func unquote(s string) string {
	s = strings.TrimSpace(s)
	if inner := strings.TrimRight(s, ".!?"); len(inner) > 1 && strings.ContainsAny(inner[:1], "\"'`") && inner[0] == inner[len(inner)-1] {
		return inner[1 : len(inner)-1]
	}
	return s
}

// line makes contents a text file's: ended by a line break, unless empty.
func line(s string) string {
	if s == "" || strings.HasSuffix(s, "\n") {
		return s
	}
	return s + "\n"
}

// sh calls the shell tool.
func (b *toolbox) sh(command, description string) []callStep {
	if b.named(shelling.names...) == nil {
		return b.call(scripting, map[string]any{"script": "text(await tools.exec_command({cmd: " + string(encoded(command)) + "}))"})
	}
	return b.call(shelling, map[string]any{"command": command, "description": text.Clip(description, 90)})
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./][A-Za-z0-9_./-]*$`)

// quote makes a name one word of a shell, and no option.
func quote(name string) string {
	if strings.HasPrefix(name, "-") {
		name = "./" + name
	}
	if plainWord.MatchString(name) {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}
