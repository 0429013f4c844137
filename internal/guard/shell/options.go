package shell

import (
	"slices"
	"strings"
)

// optionSpec says how a program reads its options, as far as it is needed to
// find the words behind them.
type optionSpec struct {
	flags     string // short options without a value
	values    string // short options with one
	longFlags string // long options without a value or with an optional one, separated by spaces
	longs     string // long options with a value
	operands  int    // words in front of the command: the seconds of timeout
	assigns   bool   // NAME=value may stand in front of the command
	numbers   bool   // -5 is an option
	plusMinus bool   // options may begin with +
	dashEnds  bool   // a lone dash ends the options, as for shells
	dashFlag  bool   // a lone dash is an option, as for env
}

// option is one that was found.
type option struct {
	name  string // with its dashes
	value word
}

// parse splits args into options and the words from the first operand on. It
// reports false if an option is not known or cannot be seen: then it is not
// known where the command begins.
func (spec optionSpec) parse(args []word) (opts []option, rest []word, ok bool) {
	for len(args) > 0 {
		w := args[0]
		if w.splits || w.pattern != "" && strings.HasPrefix(w.text, "-") {
			return opts, args, false
		}
		if w.dynamic { // one word, but it may be an option
			return opts, args, spec.operands > 0 || spec.assigns
		}
		text := w.text
		switch {
		case text == "--", text == "-" && spec.dashEnds:
			return opts, args[1:], true
		case text == "-" && spec.dashFlag:
			args = args[1:]
		case spec.numbers && len(text) > 1 && text[0] == '-' && strings.Trim(text[1:], "-0123456789") == "":
			args = args[1:]
		case strings.HasPrefix(text, "--"):
			name, value, glued := strings.Cut(text[2:], "=")
			args = args[1:]
			switch {
			case name != "" && has(spec.longFlags, name):
				opts = append(opts, option{"--" + name, word{text: value}})
			case name == "" || !has(spec.longs, name):
				return opts, args, false
			case glued:
				opts = append(opts, option{"--" + name, word{text: value}})
			case len(args) == 0 || args[0].many():
				return opts, args, false
			default:
				opts = append(opts, option{"--" + name, args[0]})
				args = args[1:]
			}
		case len(text) > 1 && (text[0] == '-' || spec.plusMinus && text[0] == '+'):
			more, left, known := spec.cluster(text, args[1:])
			if opts = append(opts, more...); !known {
				return opts, args, false
			}
			args = left
		default:
			return opts, args, true
		}
	}
	return opts, nil, true
}

// cluster reads -xyz; the last letter may take the next word.
func (spec optionSpec) cluster(text string, args []word) (opts []option, rest []word, ok bool) {
	for i := 1; i < len(text); i++ {
		name := "-" + text[i:i+1]
		switch {
		case strings.IndexByte(spec.flags, text[i]) >= 0:
			opts = append(opts, option{name: name})
		case strings.IndexByte(spec.values, text[i]) < 0:
			return opts, args, false
		case i+1 < len(text):
			return append(opts, option{name, word{text: text[i+1:]}}), args, true
		case len(args) == 0 || args[0].many():
			return opts, args, false
		default:
			return append(opts, option{name, args[0]}), args[1:], true
		}
	}
	return opts, args, true
}

func find(opts []option, names ...string) (word, bool) {
	for _, o := range slices.Backward(opts) {
		if slices.Contains(names, o.name) {
			return o.value, true
		}
	}
	return word{}, false
}
