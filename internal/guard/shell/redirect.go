package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// redirects lists the files that redirections open.
func (s *scriptReader) redirects(list []*syntax.Redirect, d dirSet) {
	for _, r := range list {
		s.substitutions(r.Word, d)
		if r.Hdoc != nil {
			s.substitutions(r.Hdoc, d)
		}
		fd := ""
		if r.N != nil {
			fd = r.N.Value
		}
		if strings.HasPrefix(fd, "{") {
			s.assigned(strings.Trim(fd, "{}"))
		}
		if at := r.Pos().Offset(); r.N == nil && at > 0 && s.between(at-1, at) == "}" {
			s.opaque("a redirection that may set a variable") // {a[1]}<file
		}
		write := false
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
			continue
		case syntax.RdrIn:
		case syntax.DplIn, syntax.DplOut:
			if isDescriptor(r.Word) {
				continue
			}
			write = r.Op == syntax.DplOut
		default:
			write = true
		}
		s.redirect(r, fd, write, d)
	}
}

func (s *scriptReader) redirect(r *syntax.Redirect, fd string, write bool, d dirSet) {
	op := r.Op.String()
	words := s.words([]*syntax.Word{r.Word})
	// Several words, or a glob, are an error or a choice that is made later.
	if len(words) != 1 || words[0].dynamic {
		if isProcess(r.Word) { // its commands are listed; it opens no file
			return
		}
		s.out.Redirects = append(s.out.Redirects, Redirect{Path: s.raw(r.Word), Op: op, FD: fd, Write: write, Dynamic: true})
		return
	}
	w := words[0]
	if isHarmlessDevice(w.text) {
		return
	}
	if url, ok := networkDevice(w.text); ok {
		s.url(url)
		return
	}
	for _, p := range d.in(w.text) {
		s.out.Redirects = append(s.out.Redirects, Redirect{Path: p, Op: op, FD: fd, Write: write})
	}
	outer := s.manner
	if s.manner = fileManner; w.pattern != "" {
		s.manner = manner{} // what it matches is opened, not only named
	}
	s.wordPath(w, d, write, true)
	s.manner = outer
}

// readsFile reports a statement whose standard input is redirected.
func readsFile(stmt *syntax.Stmt) bool {
	for _, r := range stmt.Redirs {
		if (r.N == nil || r.N.Value == "0") && (r.Op == syntax.RdrIn || r.Op == syntax.WordHdoc || r.Op == syntax.Hdoc || r.Op == syntax.DashHdoc) {
			return true
		}
	}
	return false
}

func isProcess(w *syntax.Word) bool {
	if len(w.Parts) != 1 {
		return false
	}
	_, ok := w.Parts[0].(*syntax.ProcSubst)
	return ok
}

// isDescriptor reports the target of >&2, <&-, >&3-.
func isDescriptor(w *syntax.Word) bool {
	text := strings.TrimSuffix(w.Lit(), "-")
	return w.Lit() != "" && strings.Trim(text, "0123456789") == ""
}

func isHarmlessDevice(path string) bool {
	switch path {
	case "/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom":
		return true
	}
	return false
}

// networkDevice recognises the names under which bash opens connections.
func networkDevice(path string) (url string, ok bool) {
	for _, proto := range []string{"tcp", "udp"} {
		if rest, found := strings.CutPrefix(path, "/dev/"+proto+"/"); found {
			host, port, _ := strings.Cut(rest, "/")
			return proto + "://" + host + ":" + port, true
		}
	}
	return "", false
}

// stdin returns the text that a statement's own redirections put on its
// standard input. The last one counts.
func (s *scriptReader) stdin(stmt *syntax.Stmt) *word {
	var text *word
	for _, r := range stmt.Redirs {
		if r.N != nil && r.N.Value != "0" {
			continue
		}
		switch r.Op {
		case syntax.WordHdoc:
			text = &word{dynamic: true}
			if words := s.words([]*syntax.Word{r.Word}); len(words) == 1 && words[0].pattern == "" {
				text = &words[0]
			}
		case syntax.Hdoc, syntax.DashHdoc:
			text = s.hereDocument(r)
		case syntax.RdrIn, syntax.RdrInOut, syntax.DplIn:
			text = nil
		default:
		}
	}
	return text
}

func (s *scriptReader) hereDocument(r *syntax.Redirect) *word {
	if r.Hdoc == nil {
		return &word{}
	}
	quoted := isQuoted(r.Word)
	var b strings.Builder
	for _, p := range r.Hdoc.Parts {
		lit, ok := p.(*syntax.Lit)
		if !ok {
			return &word{dynamic: true}
		}
		if quoted {
			b.WriteString(lit.Value)
		} else {
			b.WriteString(unescape(lit.Value, "$`\\"))
		}
	}
	text := b.String()
	if r.Op == syntax.DashHdoc {
		lines := strings.Split(text, "\n")
		for i := range lines {
			lines[i] = strings.TrimLeft(lines[i], "\t")
		}
		text = strings.Join(lines, "\n")
	}
	return &word{text: text}
}

// isQuoted reports a delimiter with any quoting, which keeps bash from
// expanding the document.
func isQuoted(w *syntax.Word) bool {
	for _, p := range w.Parts {
		if lit, ok := p.(*syntax.Lit); !ok || strings.Contains(lit.Value, `\`) {
			return true
		}
	}
	return false
}
