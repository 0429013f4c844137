package rehearsal

import (
	"path"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

const maxShown = 1500 // bytes of a tool's result that are shown to people

func (r *round) result() string { return strings.Join(r.results, "\n") }

// report says how the last call went.
func (in *intent) report(past []round) move {
	how, text := judge(past[len(past)-1].result())
	if how == succeeded && in.changes() && complaint.MatchString(text) {
		how = failed
	}
	switch how {
	case denied:
		return move{failed: true, say: "I was not allowed to " + in.infinitive() + ": " + clip(text, maxShown)}
	case failed:
		if in.kind == runCommand || len(past) == 2 && (in.kind == runTests || in.kind == runBuild) {
			return move{failed: true, say: "I " + in.past() + ", and it failed:\n" + fenced(text)}
		}
		return move{failed: true, say: "I could not " + in.infinitive() + ": " + clip(text, maxShown)}
	case succeeded:
	}
	say := "I " + in.past()
	switch {
	case in.changes():
		return move{say: say + "."}
	case in.kind == askUser:
		return move{say: say + " You answered: " + clip(strings.TrimPrefix(text, "User responded: "), maxShown)}
	case text == "":
		return move{say: say + "; there was no output."}
	}
	return move{say: say + ":\n" + fenced(text)}
}

// changes reports whether the intent changes files, so that its tool's result
// is about the change and not something to show.
func (in *intent) changes() bool {
	switch in.kind {
	case createFile, replaceText, appendText, deleteFile, deleteDir, makeDir:
		return true
	case readFile, listFiles, runCommand, runTests, runBuild, searchText, findFiles, askUser, delegate, callTool, fetchURL:
	}
	return false
}

// cannot says that the request offers no tool for this.
func (in *intent) cannot() move {
	return move{failed: true, say: "You asked me to " + in.infinitive() + ", but no tool for that is offered to me here."}
}

func fenced(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "\n" + line(clip(text, maxShown)) + fence
}

// phrases say what a kind does: to do it, and having done it. A % is what it
// was done to.
var phrases = map[kind][2]string{
	createFile:  {"create %", "created %"},
	readFile:    {"read %", "read %"},
	listFiles:   {"list the files in %", "listed the files in %"},
	replaceText: {"edit %", "edited %"},
	appendText:  {"append to %", "appended a line to %"},
	deleteFile:  {"delete %", "deleted %"},
	makeDir:     {"create the directory %", "created the directory %"},
	deleteDir:   {"remove the directory %", "removed the directory %"},
	runCommand:  {"run `%`", "ran `%`"},
	runTests:    {"run the tests%", "ran the tests%"},
	runBuild:    {"build the project%", "built the project%"},
	searchText:  {"search for %", "searched for %"},
	findFiles:   {"find files like %", "looked for files like %"},
	askUser:     {"ask you: %", "asked you: %"},
	delegate:    {"hand this to a sub-agent: %", "handed this to a sub-agent: %"},
	callTool:    {"call %", "called %"},
	fetchURL:    {"fetch %", "fetched %"},
}

func (in *intent) infinitive() string {
	return strings.Replace(phrases[in.kind][0], "%", in.object(), 1)
}
func (in *intent) past() string { return strings.Replace(phrases[in.kind][1], "%", in.object(), 1) }

func (in *intent) object() string {
	switch in.kind {
	case listFiles:
		if in.path == "" || in.path == "." {
			return "the working directory"
		}
		return in.path
	case runTests, runBuild:
		if in.text == "" {
			return ""
		}
		return " with `" + in.text + "`"
	case runCommand, searchText, findFiles, askUser, delegate, fetchURL:
		return clip(in.text, 200)
	case createFile, readFile, replaceText, appendText, deleteFile, makeDir, deleteDir, callTool:
	}
	return in.path
}

func infinitives(rest []intent) string {
	out := make([]string, len(rest))
	for i := range rest {
		out[i] = rest[i].infinitive()
	}
	return strings.Join(out, ", nor ")
}

// parent returns the directory of a relative name, or "".
func parent(name string) string {
	if dir := path.Dir(strings.ReplaceAll(name, `\`, "/")); dir != "." && dir != "/" {
		return dir
	}
	return ""
}

// question makes a question of what the user wants to be asked.
func question(s string) string {
	s = strings.TrimRight(strings.TrimSpace(s), ".!? ")
	switch strings.ToLower(s) {
	case "", "something", "anything", "a question", "a question please", "something please":
		return "What should the rehearsal do next?"
	}
	for _, p := range [][2]string{{"for my ", "What is your "}, {"for ", "Could you give me "}, {"about ", "What do you think about "}, {"a question about ", "What do you think about "}} {
		if rest, ok := strings.CutPrefix(s, p[0]); ok {
			return p[1] + rest + "?"
		}
	}
	r, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[size:] + "?"
}

var extensions = map[string]string{
	"go": "go", "python": "py", "py": "py", "javascript": "js", "js": "js", "typescript": "ts", "ts": "ts",
	"markdown": "md", "md": "md", "json": "json", "yaml": "yaml", "yml": "yml", "toml": "toml", "text": "txt", "txt": "txt",
	"rust": "rs", "java": "java", "html": "html", "css": "css", "shell": "sh", "c": "c", "c++": "cpp",
}

// filePattern reads "go", ".go" or "*.go" as a glob.
func filePattern(s string) (string, bool) {
	if strings.ContainsAny(s, "*?") {
		return anywhere(s), true
	}
	if ext, ok := extensions[strings.ToLower(strings.TrimPrefix(s, "."))]; ok {
		return "**/*." + ext, true
	}
	return "", false
}

// wordy returns the name of the argument that takes words: the first that
// must be a string, else the first that may be one.
func (t *Tool) wordy(required map[string]any) string {
	names := make([]string, 0, len(required))
	for name, value := range required {
		if _, ok := value.(string); ok {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		for name, p := range t.properties() {
			if p.Type == "string" {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return "input"
	}
	sort.Strings(names)
	return names[0]
}
