package rehearsal

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// rule reads one form of request.
type rule struct {
	re       func() *regexp.Regexp
	verbatim bool // the last full stop belongs to the request
	make     func(r *reader, g groups) (intent, bool)
}

// groups are the named groups of a match.
type groups map[string]string

func (r *rule) match(s string) groups {
	re := r.re()
	m := re.FindStringSubmatch(s)
	if m == nil {
		return nil
	}
	g := groups{}
	for i, name := range re.SubexpNames() {
		// A name may stand in several alternatives; one of them matched.
		if name != "" && m[i] != "" {
			g[name] = m[i]
		}
	}
	return g
}

// form is a rule's expression. In it, {x} is a token, such as a path, in group
// x, and a space is any white space. It is compiled when it is first needed:
// all of them together take 20 ms, which every command would pay for.
func form(s string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp {
		s := token.ReplaceAllString(s, `(?P<$1>[`+literalClass+`]|[^\s`+literalClass+`]+)`)
		s = strings.ReplaceAll(s, " ", `\s+`)
		return regexp.MustCompile(`(?is)^` + s + `$`)
	})
}

var token = regexp.MustCompile(`\{([a-z]+)\}`)

const (
	article  = `(?:(?:a|an|the|my|this|another|new|empty|blank|text|small|short|plain|markdown) )*`
	contents = `(?:,? ?(?:saying|that says|which says|that reads|containing|that contains|which contains|with(?: the)?(?: following)?(?: text| contents?| words?| lines?| message| body| code)?)|:)(?: of)?:?`
	project  = `(?:the |this |my |our )?(?:code|codebase|project|repo|repository|workspace|files|source|sources|current directory|current folder)`
)

// rules in the order in which they are tried: the first that fits wins.
var rules = []rule{
	{re: form(`(?:fetch|get|download|open|visit|read|show|browse)(?: me)?(?: the)?(?: page| url| site)? (?P<url>https?://\S+)`), make: makeFetch},
	{re: form(`(?:use|ask|start|launch|spawn|have|let|tell) (?:a|an|the|one|another) (?:sub-?agent|agent|helper)(?: to|:)? (?P<text>.+)`), verbatim: true, make: makeText(delegate)},
	{re: form(`delegate(?: to a sub-?agent:?)? (?P<text>.+?)(?: to (?:a|an|the) (?:sub-?)?agent)?`), make: makeText(delegate)},
	{re: form(`ask (?:me|the user)(?P<text>\b.*)`), verbatim: true, make: makeAsk},
	{re: form(`(?:call|use|invoke|try)(?: the)?(?: tool)? {name}(?: tool)?(?: (?:with|using|on) (?P<text>.+))?`), verbatim: true, make: makeCall},

	{re: form(`(?:create|make|add|new) ` + article + `(?:folder|directory|dir)(?: named| called)? {path}`), make: makeDirectory},
	{re: form(`mkdir(?: -p)? {path}`), make: makeDirectory},
	{re: form(`(?:append|add) to (?:the )?(?:end of )?(?:file )?{path}:?(?: the)?(?: line| text| words?)?:? (?P<text>.+)`), verbatim: true, make: makeAppend},
	{re: form(`(?:append|add) (?:(?:the|a) )?(?:(?:line|text|words?|sentence):? )?(?P<text>.+?) (?:to|onto|to the (?:end|bottom) of|at the (?:end|bottom) of) (?:the )?(?:file )?{path}`), make: makeAppend},
	{re: form(`(?:write|save|put|store) (?P<text>.+?) (?:to|into|in|as) (?:(?:a|the) )?(?:new )?(?:file )?(?:(?:named|called) )?{path}`), make: makeWrite},
	{re: form(`(?:create|make|write|add|save|generate|touch|new) ` + article + `(?:file )?(?:(?P<named>named|called) |at |as |to )?{path}(?: file)?(?: in (?:the )?{dir}(?: folder| directory)?)?(?:` + contents + `\s*(?P<text>.*))?`), verbatim: true, make: makeCreate},

	{re: form(`(?:replace|change|substitute|swap) (?:the (?:word|text|string|line) )?(?P<old>.+?) (?:with|to|by|into|for) (?:the (?:word|text|string|line) )?(?P<text>.+?) (?:in|inside|within) (?:the )?(?:file )?{path}`), make: makeReplace},
	{re: form(`(?:edit|in|update|modify|change|open) (?:the )?(?:file )?{path},?:?(?: and| to)? (?:replace|change|substitute) (?P<old>.+?) (?:with|to|by|into) (?P<text>.+)`), make: makeReplace},
	{re: form(`(?:delete|remove|rm|erase|unlink) (?:-f )?(?:the |my )?(?:(?P<what>file|folder|directory) )?(?:(?:named|called) )?{path}(?P<after> file| folder| directory)?`), make: makeDelete},

	{re: form(`(?:list|ls|dir|show|display|print|give|what are)(?: me)?(?: (?P<all>all|every))?(?: of)?(?: the| my)?(?: {type})? files(?: and (?:folders|directories))?(?: here| there)?(?: (?:in|of|under|inside) (?:(?:the |this |my )?(?:current |working |project |root )?(?:directory|folder|project|repo|repository|workspace)|(?:the )?(?:(?:folder|directory) )?{path}(?: folder| directory)?))?(?P<deep> recursively)?`), make: makeList},
	{re: form(`(?:what|which) files (?:are|do (?:we|you|i) have|exist)(?: here| there)?(?: (?:in|under|inside) (?:(?:this|the current) (?:directory|folder)|(?:the )?(?:(?:folder|directory) )?{path}(?: folder| directory)?))?`), make: makeList},
	{re: form(`(?:(?P<strict>list)|ls|dir)(?: -[a-z]+)*(?: {path})?`), make: makeList},
	{re: form(`(?:list|show|look at)(?: me)?(?: the)?(?: contents? of)?(?: the| this)?(?: current| working)? (?:directory|folder)(?: {path})?`), make: makeList},
	{re: form(`(?:list|show)(?: me)?(?: the)? contents? of (?:the )?{path} (?:directory|folder)`), make: makeList},

	{re: form(`(?:run|execute|start)(?: all)?(?: of)?(?: the| my| our| its)?(?: unit| go| npm| existing)? tests?(?: suite)?(?: now| again)?`), make: makePlain(runTests)},
	{re: form(`(?:test (?:it|this|` + project + `)|do (?:the|our|my|all) tests pass)`), make: makePlain(runTests)},
	{re: form(`(?:run the build|(?:build|compile) (?:it|this|` + project + `))`), make: makePlain(runBuild)},
	{re: form(`(?:run|execute|exec)(?:(?: the| this)?(?: shell| bash)? command:?)? (?P<text>.+?)(?: in (?:the |a )?(?:shell|terminal))?`), verbatim: true, make: makeRun},
	{re: form(`\$ (?P<text>.+)`), verbatim: true, make: makeText(runCommand)},

	{re: form(`(?:find|locate|search for|look for)(?: me)?(?: all)?(?: the| a| any)? files? (?:(?:named|called|matching|like) )?{pattern}`), make: makeFind},
	{re: form(`(?:where is|where's|locate|find)(?: all)?(?: the)?(?: file)? {glob}(?: files)?`), make: makeFind},
	{re: form(`grep(?: -[a-z]+)*(?: for)? {regex}(?: (?:in|under) (?:` + project + `|(?:the )?(?:file |folder |directory )?{path}))?`), make: makeSearch},
	{re: form(`(?:(?:search|look|grep|scan)(?: ` + project + `| in ` + project + `| through ` + project + `)? for|search)(?: all| every| any)?(?: the (?:word|text|string))?(?: (?:uses?|occurrences?|mentions?) of)? (?P<text>.+?)(?: (?:in|under) (?:` + project + `|(?:the )?(?:file |folder |directory )?{path}))?`), make: makeSearch},
	{re: form(`find(?: me)?(?: all| every| any)?(?: the (?:word|text|string))?(?: (?:the )?(?:uses?|occurrences?|mentions?) of)? {word}(?: (?:in|under) (?:` + project + `|(?:the )?(?:file |folder |directory )?{path}))?`), make: makeSearch},

	{re: form(`(?:read|show|cat|open|print|display|view|look at|see|tell me)(?: me)?(?: (?:what is|what's|what’s) in)?(?: the)?(?: (?:contents?|text) of)?(?: the)?(?: file)?(?: named| called)? {path}(?: file)?(?: to me)?`), make: makeRead},
	{re: form(`(?:what is|what's|what’s) (?:in|inside|written in) (?:the )?(?:file )?{path}`), make: makeRead},
	{re: form(`what does (?:the file )?{path} (?:say|contain)`), make: makeRead},
}

func makePlain(k kind) func(*reader, groups) (intent, bool) {
	return func(*reader, groups) (intent, bool) { return intent{kind: k}, true }
}

func makeText(k kind) func(*reader, groups) (intent, bool) {
	return func(r *reader, g groups) (intent, bool) {
		text := r.m.unmask(g["text"])
		return intent{kind: k, text: text}, text != ""
	}
}

func makeFetch(_ *reader, g groups) (intent, bool) {
	return intent{kind: fetchURL, text: g["url"]}, true
}

func makeCall(r *reader, g groups) (intent, bool) {
	name, _ := r.name(g["name"])
	return intent{kind: callTool, path: name, text: r.m.unmask(g["text"])}, r.offered(name)
}

func makeAsk(r *reader, g groups) (intent, bool) {
	return intent{kind: askUser, text: question(r.m.unmask(strings.TrimLeft(g["text"], " :,")))}, true
}

func makeDirectory(r *reader, g groups) (intent, bool) {
	name, _ := r.name(g["path"])
	return intent{kind: makeDir, path: name}, name != ""
}

// makeWrite is for "write hi to a.txt". What has the name first, as "write
// a.txt with what is in b.txt", is makeCreate's.
func makeWrite(r *reader, g groups) (intent, bool) {
	path, ok := r.name(g["path"])
	first, _, _ := strings.Cut(g["text"], " ")
	if _, named := r.name(first); first != g["text"] && named || strings.Contains(g["text"], "file ") {
		return intent{}, false
	}
	return intent{kind: createFile, path: path, text: line(r.m.unmask(g["text"]))}, ok
}

func makeCreate(r *reader, g groups) (intent, bool) {
	path, ok := r.name(g["path"])
	if g["named"] != "" {
		ok = path != ""
	}
	if dir, isDir := r.name(g["dir"]); dir != "" {
		ok = ok && (isDir || !strings.ContainsAny(dir, " "))
		path = strings.TrimRight(dir, "/") + "/" + path
	}
	return intent{kind: createFile, path: path, text: line(r.m.unmask(g["text"]))}, ok
}

func makeAppend(r *reader, g groups) (intent, bool) {
	path, ok := r.name(g["path"])
	return intent{kind: appendText, path: path, text: line(r.m.unmask(g["text"]))}, ok
}

func makeReplace(r *reader, g groups) (intent, bool) {
	path, ok := r.name(g["path"])
	old := r.m.unmask(g["old"])
	return intent{kind: replaceText, path: path, old: old, text: r.m.unmask(g["text"])}, ok && old != ""
}

func makeDelete(r *reader, g groups) (intent, bool) {
	path, ok := r.name(g["path"])
	what := g["what"] + strings.TrimSpace(g["after"])
	k := deleteFile
	if strings.Contains(what, "folder") || strings.Contains(what, "directory") {
		k = deleteDir
	}
	return intent{kind: k, path: path}, path != "" && (ok || what != "")
}

func makeRead(r *reader, g groups) (intent, bool) {
	path, ok := r.name(g["path"])
	return intent{kind: readFile, path: path}, ok
}

func makeList(r *reader, g groups) (intent, bool) {
	path, ok := r.name(g["path"])
	if g["strict"] != "" && path != "" && !ok {
		return intent{}, false
	}
	if t := g["type"]; t != "" {
		pattern, known := filePattern(t)
		return intent{kind: findFiles, path: path, text: pattern}, known
	}
	if g["all"] != "" || g["deep"] != "" {
		return intent{kind: findFiles, path: path, text: "**/*"}, true
	}
	return intent{kind: listFiles, path: path}, true
}

// proseWords begin what people say to run, but never a command.
var proseWords = []string{"the", "a", "an", "my", "our", "it", "this", "that", "some", "all", "away", "and", "for", "to", "into", "out"}

func makeRun(r *reader, g groups) (intent, bool) {
	first, _, _ := strings.Cut(strings.ToLower(g["text"]), " ")
	if slices.Contains(proseWords, first) {
		return intent{}, false
	}
	command := r.m.unmask(g["text"])
	return intent{kind: runCommand, text: command}, command != ""
}

func makeFind(r *reader, g groups) (intent, bool) {
	if p := g["pattern"]; p != "" {
		name, _ := r.name(p)
		if pattern, known := filePattern(name); known {
			name = pattern
		}
		return intent{kind: findFiles, text: anywhere(name)}, name != ""
	}
	name, ok := r.name(g["glob"])
	_, quoted := r.m.only(g["glob"])
	return intent{kind: findFiles, text: anywhere(name)}, ok && !quoted || strings.ContainsAny(name, "*?")
}

func makeSearch(r *reader, g groups) (intent, bool) {
	path, _ := r.name(g["path"])
	in := intent{kind: searchText, path: path}
	switch {
	case g["regex"] != "":
		in.text = r.m.unmask(g["regex"])
		if _, err := regexp.Compile(in.text); err != nil {
			in.text = regexp.QuoteMeta(in.text)
		}
	default:
		in.text = regexp.QuoteMeta(singular(r.m.unmask(g["text"] + g["word"])))
	}
	return in, in.text != ""
}

var markers = regexp.MustCompile(`^([A-Z]{3,})s$`)

// singular makes "TODOs" searchable.
func singular(s string) string { return markers.ReplaceAllString(s, "$1") }

func anywhere(pattern string) string {
	if strings.Contains(pattern, "/") {
		return pattern
	}
	return "**/" + pattern
}

// line makes contents a text file's: ended by a line break, unless empty.
func line(s string) string {
	if s == "" || strings.HasSuffix(s, "\n") {
		return s
	}
	return s + "\n"
}
