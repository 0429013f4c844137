package shell

import (
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
			s.arithmetic(n, d)
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
	for _, p := range w.Parts {
		switch p.(type) {
		case *syntax.Lit, *syntax.SglQuoted:
		default:
			return false
		}
	}
	return true
}

// commandSubstitution reads the text between backquotes the way bash does: it
// is unescaped first and parsed as a script then.
func (s *scriptReader) commandSubstitution(n *syntax.CmdSubst, d dirSet) {
	if !n.Backquotes {
		s.list(n.Stmts, d)
		return
	}
	inner := s.between(n.Left.Offset()+1, n.Right.Offset())
	if !strings.Contains(inner, `\`) {
		s.list(n.Stmts, d)
		return
	}
	// Inside double quotes \" is unescaped as well. Where the two readings
	// differ both are looked at.
	plain := unescapeBackquotes(inner, "$`\\")
	s.script(plain, s.lang, d, s.via, s.lineOf(n))
	if quoted := unescapeBackquotes(inner, "$`\\\""); quoted != plain && s.err == nil {
		s.script(quoted, s.lang, d, s.via, s.lineOf(n))
	}
}

func unescapeBackquotes(s, special string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte(special, s[i+1]) >= 0 {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
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
	// A subscript and an offset are arithmetic.
	if n.Index != nil {
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

// arithmetic walks an arithmetic expression.
func (s *scriptReader) arithmetic(n syntax.Node, d dirSet) {
	switch n := n.(type) {
	case *syntax.ArithmExp:
		s.evaluates(n.X)
		s.substitutions(n.X, d)
	case *syntax.ArithmCmd:
		s.evaluates(n.X)
		s.substitutions(n.X, d)
	case *syntax.LetClause:
		for _, x := range n.Exprs {
			s.evaluates(x)
			s.substitutions(x, d)
		}
	case *syntax.CStyleLoop:
		for _, x := range []syntax.ArithmExpr{n.Init, n.Cond, n.Post} {
			if x != nil {
				s.evaluates(x)
				s.substitutions(x, d)
			}
		}
	}
}

// evaluates looks for quoted text inside an arithmetic expression: bash
// expands the subscripts in it once more, so '$(…)' there is run.
func (s *scriptReader) evaluates(x syntax.ArithmExpr) {
	if x == nil {
		return
	}
	syntax.Walk(x, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst, *syntax.ProcSubst:
			return false
		case *syntax.SglQuoted:
			s.subscript(n.Value)
		case *syntax.Lit:
			s.subscript(n.Value)
		}
		return true
	})
}

// subscript flags text that runs a command if bash takes it for arithmetic.
func (s *analyser) subscript(text string) {
	if strings.Contains(text, "$(") || strings.Contains(text, "`") || strings.Contains(text, "${") {
		s.opaque("an arithmetic expression with a command in its text")
	}
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
			if n.Op == syntax.TsVarSet || n.Op == syntax.TsRefVar {
				s.testOperand(n.X)
			} else if w, ok := n.X.(*syntax.Word); ok && isFileTest(n.Op) {
				for _, e := range s.words([]*syntax.Word{w}) {
					s.wordPath(e, d, false, true)
				}
			}
		case *syntax.BinaryTest:
			switch n.Op {
			case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
				s.testOperand(n.X)
				s.testOperand(n.Y)
			default:
			}
		}
		return true
	})
}

func (s *scriptReader) testOperand(x syntax.TestExpr) {
	w, ok := x.(*syntax.Word)
	if !ok {
		return
	}
	for _, e := range s.words([]*syntax.Word{w}) {
		if !e.dynamic {
			s.subscript(e.text)
		}
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
