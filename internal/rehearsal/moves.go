package rehearsal

import (
	"strings"
)

// maxRewrite bounds the files that are appended to by editing them.
const maxRewrite = 16 << 10

// next returns the move after the given rounds, which are this intent's own.
// It takes at most three rounds, so a turn always ends.
func (in *intent) next(b *toolbox, past []round) move {
	switch in.kind {
	case createFile:
		return in.create(b, past)
	case appendText:
		return in.append(b, past)
	case runTests, runBuild:
		return in.project(b, past)
	default:
		if len(past) > 0 {
			return in.report(past)
		}
		if calls := in.only(b); calls != nil {
			return move{calls: calls}
		}
		return in.cannot()
	}
}

// only returns the call of an intent that takes one call.
func (in *intent) only(b *toolbox) []callStep {
	d := b.dialect()
	switch in.kind {
	case readFile:
		return either(b.call(viewing, map[string]any{"path": b.join(in.path)}), b.sh(d.read(in.path), "Show "+in.path))
	case listFiles:
		if b.offered("view") || !b.has(globbing) {
			return either(b.view(in.path), b.sh(d.list(in.path), "List the files"))
		}
		return b.glob(in.path, "*")
	case findFiles:
		return either(b.glob(in.path, in.text), b.sh(d.find(in.path, in.text), "Find files"))
	case searchText:
		args := map[string]any{"pattern": in.text, "mode": "content", "lines": true}
		if in.path != "" {
			args["paths"] = b.join(in.path)
		}
		return either(b.call(grepping, args), b.sh(d.search(in.path, in.text), "Search for "+in.text))
	case replaceText:
		edit := map[string]any{"path": b.join(in.path), "old": in.old, "new": in.text}
		if b.has(editing) || strings.Contains(in.old+in.text, "\n") {
			return b.call(editing, edit)
		}
		return b.sh(d.replace(in.path, in.old, in.text), "Edit "+in.path)
	case deleteFile:
		return b.sh(d.remove(in.path), "Delete "+in.path)
	case deleteDir:
		return b.sh(d.removeDir(in.path), "Remove the empty directory "+in.path)
	case makeDir:
		return b.sh(d.makeDir(in.path), "Create the directory "+in.path)
	case runCommand:
		return b.sh(in.text, "Run "+in.text)
	case askUser:
		return b.call(asking, map[string]any{"question": in.text})
	case delegate:
		return b.call(tasking, map[string]any{"prompt": in.text, "name": "rehearsal", "description": "Rehearsed task", "kind": "general-purpose"})
	case fetchURL:
		return b.call(fetching, map[string]any{"url": in.text})
	case callTool:
		return in.byName(b)
	case createFile, appendText, runTests, runBuild:
		// They take several calls and do not come here.
	}
	return nil
}

// either returns the first of several ways that there is a tool for.
func either(ways ...[]callStep) []callStep {
	for _, w := range ways {
		if w != nil {
			return w
		}
	}
	return nil
}

// view lists a directory with the runtime's own view; tools of that kind
// elsewhere read files only.
func (b *toolbox) view(dir string) []callStep {
	if !b.offered("view") {
		return nil
	}
	return b.call(viewing, map[string]any{"path": b.join(dir)})
}

func (b *toolbox) glob(dir, pattern string) []callStep {
	args := map[string]any{"pattern": pattern}
	if dir != "" {
		args["paths"] = b.join(dir)
	}
	return b.call(globbing, args)
}

// byName calls a tool that the user named, with the arguments given as JSON,
// or with words put into the first argument that takes some.
func (in *intent) byName(b *toolbox) []callStep {
	tool := b.named(in.path)
	if tool == nil {
		return nil
	}
	if isObject(in.text) {
		return []callStep{{name: tool.Name, args: in.text}}
	}
	args := tool.required()
	if in.text != "" {
		args[tool.wordy(args)] = in.text
	}
	return []callStep{{name: tool.Name, args: object(args)}}
}

// create writes a file, and makes its directory if the tool will not.
func (in *intent) create(b *toolbox, past []round) move {
	write := either(
		b.call(writing, map[string]any{"path": b.join(in.path), "text": in.text}),
		b.sh(b.dialect().write(in.path, in.text), "Create "+in.path))
	switch {
	case write == nil:
		return in.cannot()
	case len(past) == 0:
		return move{calls: write}
	case len(past) == 1:
		how, text := judge(past[0].result())
		if dir := parent(in.path); how == failed && noParent.MatchString(text) && dir != "" && b.has(writing, shelling) {
			return move{calls: b.sh(b.dialect().makeDir(dir), "Create the directory "+dir)}
		}
	case len(past) == 2:
		if how, _ := judge(past[1].result()); how == succeeded {
			return move{calls: write}
		}
	}
	return in.report(past)
}

// append adds a line by viewing and editing the file, which asks for less
// than a shell does, and by the shell where that cannot be done.
func (in *intent) append(b *toolbox, past []round) move {
	byShell := b.sh(b.dialect().appendTo(in.path, in.text), "Append to "+in.path)
	switch {
	case len(past) == 0 && b.has(viewing, editing):
		return move{calls: b.call(viewing, map[string]any{"path": b.join(in.path)})}
	case len(past) == 0 && byShell != nil:
		return move{calls: byShell}
	case len(past) == 0:
		return in.cannot()
	case len(past) == 1 && b.has(viewing, editing):
		body := past[0].result()
		if how, _ := judge(body); how != succeeded {
			return in.report(past)
		}
		old := tail(body)
		if old == "" || len(body) > maxRewrite || truncated.MatchString(body) {
			if byShell == nil {
				return in.cannot()
			}
			return move{calls: byShell}
		}
		return move{calls: b.call(editing, map[string]any{"path": b.join(in.path), "old": old, "new": line(old) + in.text})}
	}
	return in.report(past)
}

// tail returns the last line of body, or all of it if that line is not the
// only one of its kind.
func tail(body string) string {
	trimmed := strings.TrimRight(body, "\n")
	last := trimmed[strings.LastIndexByte(trimmed, '\n')+1:] + body[len(trimmed):]
	if strings.TrimSpace(last) != "" && strings.Count(body, last) == 1 {
		return last
	}
	return body
}

// project looks what kind of project this is, and runs what belongs to it.
func (in *intent) project(b *toolbox, past []round) move {
	if !b.has(shelling) {
		return in.cannot()
	}
	switch len(past) {
	case 0:
		look := either(b.glob("", "{"+strings.Join(markerFiles(), ",")+"}"), b.view(""), b.sh(b.dialect().list(""), "List the files"))
		return move{calls: look}
	case 1:
		how, text := judge(past[0].result())
		if how != succeeded {
			return in.report(past)
		}
		in.text = in.projectCommand(b, text)
		if in.text == "" {
			return move{failed: true, say: "I could not " + in.infinitive() + ": none of " + strings.Join(markerFiles(), ", ") + " is in the working directory."}
		}
		return move{calls: b.sh(in.text, "Run "+in.text)}
	}
	in.text = in.projectCommand(b, past[0].result())
	return in.report(past)
}

// marker is a file that tells the kind of a project.
type marker struct{ file, test, build string }

var projectMarkers = []marker{
	{"go.mod", "go test ./...", "go build ./..."},
	{"Cargo.toml", "cargo test", "cargo build"},
	{"package.json", "npm test", "npm run build"},
	{"pyproject.toml", "python3 -m pytest", "python3 -m build"},
	{"Makefile", "make test", "make"},
}

func markerFiles() []string {
	names := make([]string, len(projectMarkers))
	for i, m := range projectMarkers {
		names[i] = m.file
	}
	return names
}

func (in *intent) projectCommand(b *toolbox, listing string) string {
	top := map[string]bool{}
	for l := range strings.Lines(listing) {
		name := strings.TrimSpace(l)
		name = strings.TrimPrefix(strings.TrimPrefix(name, b.join("")+"/"), "./")
		top[name] = true
	}
	for _, m := range projectMarkers {
		if top[m.file] {
			if in.kind == runBuild {
				return m.build
			}
			return m.test
		}
	}
	return ""
}
