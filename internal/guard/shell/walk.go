package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// analyser gathers the result. It belongs to one call of Analyse.
type analyser struct {
	out     Analysis
	err     error
	scripts int
	manner  manner // of the command that is looked at
}

// scriptReader walks one script: the one that was given, or one inside it,
// such as the argument of sh -c.
type scriptReader struct {
	*analyser
	src   string
	via   string
	depth int
	piped bool // the standard input is a pipe or a file
}

// script parses and walks src, which starts in one of the directories d.
func (a *analyser) script(src string, d dirSet, via string) {
	if a.err != nil {
		return
	}
	if a.scripts++; a.scripts > maxScripts {
		a.fail("the command has too many scripts inside each other to be checked", nil)
		return
	}
	defer func() { a.scripts-- }()
	if a.err = readable(src + "\n:"); a.err != nil {
		return
	}
	hash := strings.Contains(src, "#")
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash), syntax.KeepComments(hash)).Parse(strings.NewReader(src), "")
	if err != nil {
		a.fail("the command cannot be parsed", err)
		return
	}
	if hash && !realComments(file, src) {
		a.fail("the command has a # that shells read differently", nil)
		return
	}
	a.flagLookalikes(src)
	outer := a.manner
	a.manner = fileManner
	defer func() { a.manner = outer }()
	s := &scriptReader{analyser: a, src: src, via: via}
	s.list(file.Stmts, d)
}

// realComments makes sure that what the parser leaves out as a comment is one
// for bash too: only a # at the beginning of a word starts one.
func realComments(file *syntax.File, src string) bool {
	genuine := true
	syntax.Walk(file, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.Comment); ok {
			at := c.Hash.Offset()
			if at > 0 && strings.IndexByte(" \t\n;&|()`", src[at-1]) < 0 || at > 1 && src[at-2] == '\\' {
				genuine = false
			}
		}
		return genuine
	})
	return genuine
}

func (a *analyser) fail(message string, cause error) {
	if a.err == nil {
		a.err = invalid(message, cause)
	}
}

func (a *analyser) opaque(reason string) { a.out.Opaque = appendNew(a.out.Opaque, reason) }

func (a *analyser) dangerous(reason string) { a.out.Dangerous = appendNew(a.out.Dangerous, reason) }

func (s *scriptReader) raw(n syntax.Node) string {
	return s.between(n.Pos().Offset(), n.End().Offset())
}

func (s *scriptReader) between(from, to uint) string {
	if from > to || to > uint(len(s.src)) {
		return s.src
	}
	return s.src[from:to]
}

// list walks statements one after the other. Like all that follows it returns
// where the shell may be if the last of them succeeds, and if it fails.
func (s *scriptReader) list(stmts []*syntax.Stmt, d dirSet) (ok, fail dirSet) {
	if s.depth++; s.depth > maxNesting {
		s.fail("the command is nested too deeply to be checked", nil)
	}
	defer func() { s.depth-- }()
	ok, fail = d, d
	for _, stmt := range stmts {
		if s.err != nil {
			return ok, fail
		}
		ok, fail = s.stmt(stmt, ok.or(fail))
	}
	return ok, fail
}

func (s *scriptReader) stmt(stmt *syntax.Stmt, d dirSet) (ok, fail dirSet) {
	s.redirects(stmt.Redirs, d)
	switch cmd := stmt.Cmd.(type) {
	case nil:
		ok, fail = d, d
	case *syntax.CallExpr:
		ok, fail = s.call(stmt, cmd, d)
	case *syntax.DeclClause:
		s.declare(cmd, d)
		ok, fail = d, d
	default:
		ok, fail = s.compound(cmd, d)
	}
	if stmt.Negated {
		ok, fail = fail, ok
	}
	if stmt.Background || stmt.Coprocess || stmt.Disown {
		return d, d
	}
	return ok, fail
}

func (s *scriptReader) compound(cmd syntax.Command, d dirSet) (ok, fail dirSet) {
	if s.depth++; s.depth > maxNesting {
		s.fail("the command is nested too deeply to be checked", nil)
		return d, d
	}
	defer func() { s.depth-- }()
	switch cmd := cmd.(type) {
	case *syntax.BinaryCmd:
		return s.binary(cmd, d)
	case *syntax.Block:
		return s.list(cmd.Stmts, d)
	case *syntax.Subshell:
		s.list(cmd.Stmts, d)
	case *syntax.IfClause:
		return s.branch(cmd, d)
	case *syntax.WhileClause:
		okCond, failCond := s.list(cmd.Cond, d)
		s.loop(cmd.Do, d, okCond.or(failCond))
	case *syntax.ForClause:
		s.forLoop(cmd, d)
	case *syntax.CaseClause:
		return s.cases(cmd, d)
	case *syntax.FuncDecl:
		s.function(cmd, d)
	case *syntax.TimeClause:
		if cmd.Stmt != nil {
			return s.stmt(cmd.Stmt, d)
		}
	case *syntax.CoprocClause:
		s.substitutions(cmd.Name, d)
		s.stmt(cmd.Stmt, d)
		s.opaque("coproc runs a command that is not certain")
	case *syntax.ArithmCmd:
		s.arithmetic(d, cmd.X)
	case *syntax.LetClause:
		s.arithmetic(d, cmd.Exprs...)
		s.opaque("let evaluates text")
	case *syntax.TestClause:
		s.test(cmd, d)
	default: // a construct of a dialect that we do not parse
		s.opaque("a construct that is not known")
	}
	return d, d
}

func (s *scriptReader) binary(cmd *syntax.BinaryCmd, d dirSet) (ok, fail dirSet) {
	switch cmd.Op {
	case syntax.AndStmt:
		okX, failX := s.stmt(cmd.X, d)
		okY, failY := s.stmt(cmd.Y, okX)
		return okY, failX.or(failY)
	case syntax.OrStmt:
		okX, failX := s.stmt(cmd.X, d)
		okY, failY := s.stmt(cmd.Y, failX)
		return okX.or(okY), failY
	default: // each side of a pipe runs on its own
		s.stmt(cmd.X, d)
		piped := s.piped
		s.piped = true
		if _, timed := cmd.Y.Cmd.(*syntax.TimeClause); timed {
			s.opaque("time behind a pipe is a program and no word of the shell")
		}
		s.stmt(cmd.Y, d)
		s.piped = piped
		return d, d
	}
}

func (s *scriptReader) branch(cmd *syntax.IfClause, d dirSet) (ok, fail dirSet) {
	okCond, failCond := d, d
	if len(cmd.Cond) > 0 {
		okCond, failCond = s.list(cmd.Cond, d)
	}
	ok, fail = s.list(cmd.Then, okCond)
	if cmd.Else == nil {
		if len(cmd.Cond) == 0 { // an else
			return ok, fail
		}
		return ok.or(failCond), fail
	}
	okElse, failElse := s.branch(cmd.Else, failCond)
	return ok.or(okElse), fail.or(failElse)
}

func (s *scriptReader) cases(cmd *syntax.CaseClause, d dirSet) (ok, fail dirSet) {
	s.substitutions(cmd.Word, d)
	ok, fail = d, d
	for _, item := range cmd.Items {
		for _, p := range item.Patterns {
			s.substitutions(p, d)
		}
		okItem, failItem := s.list(item.Stmts, d.or(ok).or(fail)) // ;& falls through
		ok, fail = ok.or(okItem), fail.or(failItem)
	}
	return ok, fail
}

// foundLater is why words that expand to several ones, perhaps to the names in
// a directory, are not known even if no command gets them.
const foundLater = "a list of names that are found when it runs"

func (s *scriptReader) forLoop(cmd *syntax.ForClause, d dirSet) {
	switch loop := cmd.Loop.(type) {
	case *syntax.WordIter:
		s.assigned(loop.Name.Value)
		for _, w := range loop.Items {
			s.substitutions(w, d)
		}
		// What a loop runs over is often a list of files.
		outer := s.manner
		for _, w := range s.words(loop.Items) {
			if s.manner = fileManner; w.pattern != "" {
				s.manner = wordManner
			}
			if w.dynamic && w.splits {
				s.opaque(foundLater)
			} else if !w.dynamic && (w.pattern != "" || looksLikePath(w.text)) {
				s.wordPath(w, d, false, true)
			}
		}
		s.manner = outer
	case *syntax.CStyleLoop:
		s.arithmetic(d, loop.Init, loop.Cond, loop.Post)
	}
	s.loop(cmd.Do, d, d)
}

// loop walks a body that may run any number of times. It starts in before the
// first time, and must end there, or the directory of the next round is unknown.
func (s *scriptReader) loop(body []*syntax.Stmt, before, d dirSet) {
	ok, fail := s.list(body, d)
	if end := ok.or(fail).or(before); !end.same(before) {
		s.opaque("the working directory changes in a loop, so what paths in it mean is not known")
	}
}

// function walks what a function does. Where and with which names it is called
// is not followed.
func (s *scriptReader) function(cmd *syntax.FuncDecl, d dirSet) {
	s.opaque("a function, which is called where its definition does not show")
	s.stmt(cmd.Body, d)
}
