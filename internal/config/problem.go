package config

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// problem is one line of the error that Load returns.
type problem struct {
	source  Source // where to mend it; default if something is missing
	subject string // the setting under the name that its source knows it by, or file:line
	value   string // "" if there is none to show
	hidden  bool   // there is a value, but not to be shown
	from    string // "" if the subject says it
	text    string
}

// reject reports a setting whose value is wrong.
func (l *loader) reject(s *setting, text string, hide bool) {
	l.bad[s.key] = true
	g, _ := l.lookup(s.key)
	origin := l.cfg.origins[s.key]
	p := problem{source: origin.Source, subject: s.env, value: g.value, hidden: hide || s.secret(), from: origin.String(), text: text}
	if flag := l.opts.FlagNames[s.key]; origin.Source == SourceFlag && flag != "" {
		p.subject, p.from = flag, ""
	} else if origin.Source == SourceFlag || origin.Source == SourceFile {
		p.subject = s.key
	}
	l.problems = append(l.problems, p)
}

// missing reports a setting that is not given but should be.
func (l *loader) missing(key, text string) {
	s := find(l.table, key)
	l.bad[key] = true
	l.problems = append(l.problems, problem{source: SourceDefault, subject: s.env, text: text})
}

// failure makes one error of all problems.
func (l *loader) failure() error {
	secrets := l.knownSecrets()
	var lines []string
	var sources []Source
	for _, p := range l.problems {
		lines = append(lines, p.line(secrets))
		if !slices.Contains(sources, p.source) {
			sources = append(sources, p.source)
		}
	}
	return &bridge.Error{Code: bridge.CodeInvalid, Message: strings.Join(lines, "\n"), Remedy: l.remedy(sources)}
}

func (l *loader) remedy(sources []Source) string {
	file := filepath.Join(l.cfg.Home, fileName)
	var places []string
	for _, s := range sources {
		switch s {
		case SourceFlag:
			places = append(places, "on the command line")
		case SourceEnvironment:
			places = append(places, "in the environment")
		case SourceDotEnv:
			places = append(places, "in "+filepath.Join(l.opts.Dir, DotEnvName))
		case SourceFile:
			places = append(places, "in "+file)
		case SourceDefault:
			if l.cfg.Home == "" { // which is what is missing, and cannot be in the file
				places = append(places, "in the environment")
				continue
			}
			places = append(places, "in the environment or in "+file)
		}
	}
	return "Correct this " + strings.Join(places, "; ") + "."
}

// knownSecrets returns the secrets of all sources, also of those that are not
// in force: a value pasted into the wrong place must not be printed either.
func (l *loader) knownSecrets() []string {
	var all []string
	for _, s := range l.table {
		if !s.secret() {
			continue
		}
		for _, layer := range l.layers {
			if v := strings.TrimSpace(layer[s.key].value); v != "" {
				all = append(all, v)
			}
		}
	}
	return all
}

func (p *problem) line(secrets []string) string {
	text := p.text
	for _, secret := range secrets {
		if strings.Contains(p.value, secret) {
			p.hidden = true
		}
		if len(secret) >= 8 { // a shorter one is likely to be an ordinary word
			text = strings.ReplaceAll(text, secret, "(hidden)")
		}
	}
	var b strings.Builder
	b.WriteString(p.subject)
	switch {
	case p.hidden:
		b.WriteString(" (hidden)")
	case p.value != "":
		b.WriteString("=" + quote(p.value))
	}
	if p.from != "" {
		b.WriteString(" (from " + p.from + ")")
	}
	return b.String() + ": " + text
}

// quote keeps a value on one line and within bounds.
func quote(s string) string {
	const most = 80
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return strconv.Quote(s)
}
