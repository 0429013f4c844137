package shell

import (
	"slices"
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
		s.redirect(r, write, d)
	}
}

func (s *scriptReader) redirect(r *syntax.Redirect, write bool, d dirSet) {
	words := s.words([]*syntax.Word{r.Word})
	// Several words, or a glob, are an error or a choice that is made later.
	if len(words) != 1 || words[0].dynamic {
		if isProcess(r.Word) { // its commands are listed; it opens no file
			return
		}
		s.out.Redirects = append(s.out.Redirects, Redirect{Path: s.raw(r.Word), Write: write})
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
	outer := s.manner
	if s.manner = fileManner; w.pattern != "" {
		s.manner = manner{} // what it matches is opened, not only named
	}
	s.wordPath(w, d, write, true)
	s.manner = outer
}

// readsFile reports a statement whose standard input is redirected.
func readsFile(stmt *syntax.Stmt) bool {
	return slices.ContainsFunc(stmt.Redirs, func(r *syntax.Redirect) bool {
		return (r.N == nil || r.N.Value == "0") && (r.Op == syntax.RdrIn || r.Op == syntax.WordHdoc || r.Op == syntax.Hdoc || r.Op == syntax.DashHdoc)
	})
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
	return has("/dev/null /dev/stdout /dev/stderr /dev/stdin /dev/tty /dev/zero /dev/full /dev/random /dev/urandom", path)
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
