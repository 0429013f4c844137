package repo

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// maxSettings bounds a configuration file.
const maxSettings = 1 << 20

// setting is one line of a configuration: section.key or
// section.subsection.key, in lower case but for the subsection.
type setting struct {
	key   string
	value string
}

type settings []setting

// last returns the value that counts.
func (c settings) last(key string) (value string, ok bool) {
	for _, s := range c {
		if s.key == key {
			value, ok = s.value, true
		}
	}
	return value, ok
}

// readSettings reads a configuration file. There may be none.
func readSettings(file string) (settings, error) {
	text, err := read(file, maxSettings)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c, err := parseSettings(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

var errUnusual = errors.New("its configuration is written in an unusual way")

// parseSettings takes the plain form that git itself writes, and refuses the
// rest of the syntax: values over several lines, control characters, names
// with anything but letters, digits and dashes.
func parseSettings(text string) (settings, error) {
	var out settings
	section := ""
	text = strings.TrimPrefix(text, "\ufeff")
	for line := range strings.Lines(text) {
		line = strings.Trim(strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"), " \t")
		if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) || strings.HasSuffix(line, `\`) {
			return nil, errUnusual
		}
		if strings.HasPrefix(line, "[") {
			var ok bool
			if section, line, ok = parseSection(line); !ok {
				return nil, errUnusual
			}
		}
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		s, ok := parseSetting(line)
		if !ok || section == "" {
			return nil, errUnusual
		}
		s.key = section + "." + s.key
		out = append(out, s)
	}
	return out, nil
}

// parseSection reads [name] or [name "subsection"] and returns what follows on
// the line.
func parseSection(line string) (section, rest string, ok bool) {
	end := 1
	for end < len(line) && (isNameByte(line[end]) || line[end] == '.') {
		end++
	}
	name := strings.ToLower(line[1:end])
	line = strings.TrimLeft(line[end:], " \t")
	if name == "" || line == "" {
		return "", "", false
	}
	if line[0] == '"' {
		var sub string
		if sub, line, ok = parseQuoted(line); !ok || line == "" {
			return "", "", false
		}
		name += "." + sub
	}
	if line[0] != ']' {
		return "", "", false
	}
	return name, strings.TrimLeft(line[1:], " \t"), true
}

func parseQuoted(line string) (text, rest string, ok bool) {
	var b strings.Builder
	for i := 1; i < len(line); i++ {
		switch line[i] {
		case '"':
			return b.String(), line[i+1:], true
		case '\\':
			if i++; i >= len(line) {
				return "", "", false
			}
		}
		b.WriteByte(line[i])
	}
	return "", "", false
}

// parseSetting reads key, or key = value. A value in quotes or with escapes is
// kept as it is written: no value that counts has any.
func parseSetting(line string) (setting, bool) {
	end := 0
	for end < len(line) && isNameByte(line[end]) {
		end++
	}
	key, rest := strings.ToLower(line[:end]), strings.TrimLeft(line[end:], " \t")
	if key == "" {
		return setting{}, false
	}
	if rest == "" || rest[0] == '#' || rest[0] == ';' {
		return setting{key: key, value: "true"}, true
	}
	if rest[0] != '=' {
		return setting{}, false
	}
	value := strings.TrimLeft(rest[1:], " \t")
	if !strings.Contains(value, `"`) {
		if i := strings.IndexAny(value, "#;"); i >= 0 {
			value = strings.TrimRight(value[:i], " \t")
		}
	}
	return setting{key: key, value: value}, true
}

func isNameByte(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '-'
}

func has(list, word string) bool { return slices.Contains(strings.Fields(list), word) }

// harmless reports a setting that makes no command that only reads run a
// program, fetch anything or look at another place. An unknown setting is not
// harmless.
func (s setting) harmless() bool {
	first, rest, _ := strings.Cut(s.key, ".")
	last := rest[strings.LastIndexByte(rest, '.')+1:]
	plain := last == rest // no subsection
	switch first {
	case "branch", "submodule", "user", "author", "committer", "color", "column", "advice", "gui", "gc", "pack", "index", "feature", "push",
		"pull", "fetch", "rebase", "checkout", "commit", "tag", "rerere", "stash", "apply", "i18n", "worktree", "maintenance", "http", "url", "init", "receive", "transfer", "fsck":
		return true
	case "status":
		return last != "submodulesummary" // it runs a script
	case "core":
		if last == "fsmonitor" || last == "bare" {
			return plain && (s.value == "false" || s.value == "")
		}
		return plain && has(harmlessCore, last)
	case "remote":
		return has("url pushurl fetch push tagopt prune prunetags mirror skipdefaultupdate skipfetchall gh-resolved pushdefault followremotehead", last)
	case "extensions":
		if last == "refstorage" { // newer versions take a place as well
			return plain && has("files reftable", s.value)
		}
		return plain && has("worktreeconfig objectformat compatobjectformat relativeworktrees preciousobjects noop", last)
	case "diff":
		return plain && has("renames renamelimit algorithm mnemonicprefix noprefix context interhunkcontext colormoved colormovedws indentheuristic"+
			" ignoresubmodules suppressblankempty wserrorhighlight statgraphwidth statnamewidth relative dirstat tool guitool", last)
	case "merge":
		return plain && has("conflictstyle ff renames renamelimit directoryrenames stat log tool autostash", last)
	case "log":
		if last == "follow" { // shows files under their earlier names
			return plain && s.value == "false"
		}
		return plain && has("date decorate abbrevcommit initialdecorationset", last)
	case "lfs":
		return last == "repositoryformatversion" || last == "access" || last == "locksverify"
	}
	return false
}

const harmlessCore = "repositoryformatversion filemode logallrefupdates ignorecase precomposeunicode symlinks autocrlf safecrlf eol quotepath abbrev compression" +
	" loosecompression bigfilethreshold untrackedcache preloadindex sparsecheckout sparsecheckoutcone longpaths protectntfs protecthfs fscache multipackindex" +
	" commitgraph whitespace commentchar warnambiguousrefs checkstat trustctime fsync fsyncmethod sharedrepository hidedotfiles deltabasecachelimit packedgitlimit" +
	" packedgitwindowsize createobject maxtreedepth splitindex"
