package shell

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// substitutions walks what n runs while it is expanded, and notes variables
// that the expansion itself sets.
func (s *scriptReader) substitutions(n syntax.Node, d dirSet) {
	if w, ok := n.(*syntax.Word); n == nil || ok && (w == nil || isLiteral(w)) {
		return
	}
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst:
			s.commandSubstitution(n, d)
			return false
		case *syntax.ProcSubst:
			s.list(n.Stmts, d)
			return false
		case *syntax.ArithmExp:
			s.arithmetic(d, n.X)
			return false
		case *syntax.ParamExp:
			s.parameter(n)
		case *syntax.ExtGlob:
			if strings.ContainsAny(n.Pattern.Value, "$`") {
				s.opaque("an extended pattern with a substitution in it")
			}
		case *syntax.BinaryArithm:
			s.arithmeticAssign(n)
		}
		return true
	})
}

// isLiteral reports a word in which nothing is expanded.
func isLiteral(w *syntax.Word) bool {
	return !slices.ContainsFunc(w.Parts, func(p syntax.WordPart) bool {
		_, plain := p.(*syntax.Lit)
		_, quoted := p.(*syntax.SglQuoted)
		return !plain && !quoted
	})
}

// commandSubstitution walks $(…) and `…`. Between backquotes bash unescapes the
// text before it parses it, which is not followed.
func (s *scriptReader) commandSubstitution(n *syntax.CmdSubst, d dirSet) {
	if n.Backquotes && strings.Contains(s.between(n.Left.Offset()+1, n.Right.Offset()), `\`) {
		s.opaque("a substitution in backquotes with a backslash in it")
	}
	s.list(n.Stmts, d)
}

// parameter notes the expansions that do more than look a value up.
func (s *scriptReader) parameter(n *syntax.ParamExp) {
	if n.Exp != nil {
		switch n.Exp.Op {
		case syntax.AssignUnset, syntax.AssignUnsetOrNull:
			if n.Param != nil {
				s.assigned(n.Param.Value)
			}
		case syntax.OtherParamOps:
			if n.Exp.Word != nil && strings.ContainsAny(s.raw(n.Exp.Word), "P") {
				s.opaque("${" + paramName(n) + "@P} runs what the variable holds")
			}
		default:
		}
	}
	if n.Excl && n.Names == 0 {
		s.opaque("${!" + paramName(n) + "} evaluates what the variable holds")
	}
	// A subscript and an offset are arithmetic.
	if w, ok := n.Index.(*syntax.Word); n.Index != nil && (!ok || w.Lit() != "@" && w.Lit() != "*") {
		s.evaluates(n.Index)
	}
	if n.Slice != nil {
		s.evaluates(n.Slice.Offset)
		s.evaluates(n.Slice.Length)
	}
}

func paramName(n *syntax.ParamExp) string {
	if n.Param == nil {
		return ""
	}
	return n.Param.Value
}

// arithmetic walks arithmetic expressions.
func (s *scriptReader) arithmetic(d dirSet, list ...syntax.ArithmExpr) {
	for _, x := range list {
		if x != nil {
			s.evaluates(x)
			s.substitutions(x, d)
		}
	}
}

// evaluates looks at an arithmetic expression. Bash evaluates the value of
// every name in it as an expression again, where a subscript runs commands and
// an assignment may set any variable. So only numbers are known to be safe.
func (s *scriptReader) evaluates(x syntax.ArithmExpr) {
	if x == nil {
		return
	}
	syntax.Walk(x, func(n syntax.Node) bool {
		w, ok := n.(*syntax.Word)
		if ok && !isInteger(w) {
			s.opaque("an arithmetic expression with a variable in it")
		}
		return !ok
	})
}

// isInteger reports a word that is a number, or that expands to one whatever
// the script did before.
func isInteger(w *syntax.Word) bool {
	parts := w.Parts
	if len(parts) == 1 {
		if q, ok := parts[0].(*syntax.DblQuoted); ok && !q.Dollar {
			parts = q.Parts
		}
	}
	if len(parts) != 1 {
		return false
	}
	switch p := parts[0].(type) {
	case *syntax.Lit:
		return number.MatchString(p.Value)
	case *syntax.ParamExp:
		return p.Length && !p.Excl || p.Param != nil && slices.Contains([]string{"#", "?", "$"}, p.Param.Value) && p.Short
	}
	return false
}

var number = regexp.MustCompile(`^[-+]?(0[xX][0-9a-fA-F]+|[0-9]+)$`)

// subscript flags text that runs a command if bash takes it for arithmetic.
func (s *analyser) subscript(text string) {
	if strings.Contains(text, "$(") || strings.Contains(text, "`") || strings.Contains(text, "${") {
		s.opaque("an arithmetic expression with a command in its text")
	}
}

// element returns the variable that a name with or without a subscript means,
// and flags a subscript that is more than a number.
func (s *analyser) element(name string) string {
	name, index, found := strings.Cut(name, "[")
	if index = strings.TrimSuffix(strings.TrimSuffix(index, "+"), "]"); found && index != "@" && index != "*" && !number.MatchString(index) {
		s.opaque("a subscript that is evaluated")
	}
	return name
}

func (s *scriptReader) arithmeticAssign(n *syntax.BinaryArithm) {
	switch n.Op {
	case syntax.Assgn, syntax.AddAssgn, syntax.SubAssgn, syntax.MulAssgn, syntax.QuoAssgn, syntax.RemAssgn,
		syntax.AndAssgn, syntax.OrAssgn, syntax.XorAssgn, syntax.ShlAssgn, syntax.ShrAssgn:
		if w, ok := n.X.(*syntax.Word); ok && w.Lit() != "" {
			s.assigned(w.Lit())
		}
	default:
	}
}

// test walks [[ … ]]. Comparisons of numbers and -v evaluate arithmetic.
func (s *scriptReader) test(cmd *syntax.TestClause, d dirSet) {
	s.substitutions(cmd, d)
	syntax.Walk(cmd, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst, *syntax.ProcSubst:
			return false
		case *syntax.UnaryTest:
			switch w, ok := n.X.(*syntax.Word); {
			case n.Op == syntax.TsVarSet || n.Op == syntax.TsRefVar:
				if !ok || !isName(w.Lit()) {
					s.opaque("a test of a variable whose name is evaluated")
				}
			case isFileTest(n.Op):
				s.testFile(n.X, d)
			}
		case *syntax.BinaryTest:
			switch n.Op {
			case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
				s.testNumber(n.X)
				s.testNumber(n.Y)
			case syntax.TsNewer, syntax.TsOlder, syntax.TsDevIno:
				s.testFile(n.X, d)
				s.testFile(n.Y, d)
			default:
			}
		}
		return true
	})
}

func (s *scriptReader) testNumber(x syntax.TestExpr) {
	if w, ok := x.(*syntax.Word); !ok || !isInteger(w) {
		s.opaque("a comparison of numbers with a variable in it")
	}
}

// testFile lists a file that [[ … ]] asks about. Neither braces nor wildcards
// are expanded there.
func (s *scriptReader) testFile(x syntax.TestExpr, d dirSet) {
	w, ok := x.(*syntax.Word)
	if !ok {
		s.opaque("a test of a file that is not known")
		return
	}
	for _, e := range s.append(nil, w) {
		if e.dynamic {
			s.opaque("a test of a file that is not known")
		}
		e.pattern = ""
		s.wordPath(e, d, false, true)
	}
}

func isFileTest(op syntax.UnTestOperator) bool {
	switch op {
	case syntax.TsExists, syntax.TsRegFile, syntax.TsDirect, syntax.TsCharSp, syntax.TsBlckSp, syntax.TsNmPipe, syntax.TsSocket,
		syntax.TsSmbLink, syntax.TsSticky, syntax.TsGIDSet, syntax.TsUIDSet, syntax.TsGrpOwn, syntax.TsUsrOwn, syntax.TsModif,
		syntax.TsRead, syntax.TsWrite, syntax.TsExec, syntax.TsNoEmpty:
		return true
	default:
		return false
	}
}
