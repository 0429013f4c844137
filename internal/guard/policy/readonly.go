package policy

import (
	"maps"
	"slices"
	"strings"
)

// isReadOnly reports whether a command is on the built-in list of those that
// only read, with these very arguments. It errs on the side of no: a flag
// that it does not know, an assignment in front, or a program called by its
// path is enough. What the arguments point at is not its business; the paths
// of an action are judged by themselves.
func isReadOnly(cmd *Command) bool {
	if cmd.opaque() || len(cmd.Words) == 0 || len(cmd.Env) > 0 || cmd.Unsafe != "" {
		return false
	}
	name, args := cmd.Words[0], cmd.Words[1:]
	if slices.Contains(harmless, name) {
		return true
	}
	for _, g := range cmd.Globs {
		if !isHarmlessGlob(name, cmd.Words, g) {
			return false
		}
	}
	if check, ok := readOnlyChecks[name]; ok {
		return check(args)
	}
	flags, ok := readOnlyFlags[name]
	if !ok {
		return false
	}
	_, ok = flags.parse(args)
	return ok
}

// harmless commands only read, whatever their arguments.
var harmless = []string{"ls", "cat", "head", "tail", "pwd", "echo", "uname", "whoami", "id", "which", "type", "stat", "df",
	"cut", "tr", "cmp", "basename", "dirname", "realpath", "readlink", "true", "false"}

// isHarmlessGlob reports whether the files that a glob expands to, however
// many there are and whatever they are called, leave a command as it is. A
// file may be called -delete or --pre=sh; but all names begin with the text in
// front of the wildcard.
func isHarmlessGlob(name string, words []string, glob int) bool {
	switch name {
	case "uniq", "test", "[", "printf", "date", "env":
		return false // the number of words matters
	}
	if glob >= len(words) {
		return false
	}
	if name != "find" && slices.Contains(words[:glob], "--") {
		return true
	}
	prefix := words[glob]
	if at := strings.IndexAny(prefix, wildcards); at >= 0 {
		prefix = prefix[:at]
	}
	return prefix != "" && (prefix[0] != '-' || strings.Contains(prefix, "="))
}

// readOnlyChecks look at the arguments of commands that need more than a list
// of flags.
var readOnlyChecks = map[string]func(args []string) bool{
	"printf": checkPrintf,
	"env":    func(args []string) bool { return len(args) == 0 },
	"test":   checkTest,
	"[": func(args []string) bool {
		return len(args) > 0 && args[len(args)-1] == "]" && checkTest(args[:len(args)-1])
	},
	"find": checkFind,
	"git":  checkGit,
	"date": checkDate,
}

// ReadOnlyCommands are the commands on the built-in list, sorted; those of git
// are given as "git status".
func ReadOnlyCommands() []string {
	names := slices.AppendSeq(slices.Clone(harmless), maps.Keys(readOnlyFlags))
	for name := range readOnlyChecks {
		if name != "git" {
			names = append(names, name)
		}
	}
	for name := range gitFlags {
		names = append(names, "git "+name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// checkPrintf refuses -v, which assigns a variable of the shell, PATH perhaps.
func checkPrintf(args []string) bool {
	return len(args) == 0 || !strings.HasPrefix(args[0], "-v")
}

// checkTest refuses -v and -R, for which bash evaluates subscripts and with
// them substitutions, and anything that looks like a substitution.
func checkTest(args []string) bool {
	for _, a := range args {
		if a == "-v" || a == "-R" || strings.ContainsAny(a, "$`") {
			return false
		}
	}
	return true
}

// checkDate wants a format, not a time: a bare number would set the clock.
func checkDate(args []string) bool {
	rest, ok := readOnlyFlags["date"].parse(args)
	return ok && (len(rest) == 0 || len(rest) == 1 && strings.HasPrefix(rest[0], "+"))
}

// flagSet is what a command may be given. Long flags are matched whole:
// abbreviations are unknown, and unknown is refused.
type flagSet struct {
	short      string // letters that take no value
	shortValue string // letters that take one, attached or next
	attached   string // letters whose value, if any, is attached
	long       string // names that take no value; with a final =, names that take one after it
	longValue  string // names that take a value, after = or next
	operands   int    // most operands; 0 means any number
}

// parse returns the operands, and whether everything else is known.
func (f *flagSet) parse(args []string) (operands []string, ok bool) {
	for i := 0; i < len(args); i++ {
		a := args[i]
		takesNext, known := false, true
		switch {
		case a == "--":
			operands = append(operands, args[i+1:]...)
			i = len(args)
		case strings.HasPrefix(a, "--"):
			takesNext, known = f.name(a[2:])
		case len(a) > 1 && a[0] == '-':
			takesNext, known = f.letters(a[1:])
		default:
			operands = append(operands, a)
		}
		if !known {
			return nil, false
		}
		if takesNext {
			// A value that looks like a flag would be one to a version of the
			// command that takes no value here.
			if i++; i >= len(args) || strings.HasPrefix(args[i], "-") {
				return nil, false
			}
		}
	}
	return operands, f.operands == 0 || len(operands) <= f.operands
}

// name reads a long flag.
func (f *flagSet) name(flag string) (takesNext, known bool) {
	name, _, hasValue := strings.Cut(flag, "=")
	if has(f.longValue, name) {
		return !hasValue, true
	}
	if hasValue {
		name += "="
	}
	return false, has(f.long, name)
}

// has looks for a word in a list that is separated by spaces.
func has(list, word string) bool {
	return slices.Contains(strings.Fields(list), word)
}

// letters reads a group of short flags.
func (f *flagSet) letters(group string) (takesNext, known bool) {
	for i := range len(group) {
		switch c := group[i]; {
		case strings.IndexByte(f.short, c) >= 0:
		case strings.IndexByte(f.shortValue, c) >= 0:
			return i == len(group)-1, true
		case strings.IndexByte(f.attached, c) >= 0:
			return false, true
		default:
			return false, false
		}
	}
	return false, true
}

// readOnlyFlags has the commands of which some flags write, run a program, or
// read files that a list names or that lie behind links, and so escape the rules
// for paths. Those flags are missing here.
var readOnlyFlags = map[string]*flagSet{
	"wc":    {short: "clmLw", long: "bytes chars lines words max-line-length total="},
	"grep":  grepFlags,
	"egrep": grepFlags,
	"fgrep": grepFlags,
	"rg": {
		short: "isSvwxFPUnNHIlcoquaph.0b", shortValue: "egtTABCmrdMEj",
		long: "ignore-case case-sensitive smart-case invert-match word-regexp line-regexp fixed-strings pcre2 multiline multiline-dotall line-number " +
			"no-line-number with-filename no-filename files files-with-matches files-without-match count count-matches only-matching quiet hidden " +
			"no-ignore no-ignore-vcs unrestricted text pretty heading no-heading null json vimgrep column no-column trim stats type-list version " +
			"no-messages no-config byte-offset passthru one-file-system",
		longValue: "regexp glob iglob type type-not after-context before-context context max-count replace max-depth max-columns max-filesize encoding " +
			"color colors sort sortr threads context-separator",
	},
	"sort": {
		short: "bdfghiMnRrVcCmsuz", shortValue: "ktS",
		long: "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort human-numeric-sort ignore-nonprinting month-sort numeric-sort " +
			"random-sort reverse version-sort check check= merge stable unique zero-terminated sort= debug",
		longValue: "key field-separator buffer-size parallel",
	},
	"uniq": {
		short: "cdDuiz", shortValue: "fsw", operands: 1, // the second would be written to
		long:      "count repeated unique ignore-case zero-terminated all-repeated all-repeated= group group=",
		longValue: "skip-fields skip-chars check-chars",
	},
	"diff": {
		short: "abBcdeEiNnpqstuTwyZ0123456789", shortValue: "CUWxIFL",
		long: "brief unified unified= context context= side-by-side ignore-case ignore-all-space ignore-space-change ignore-blank-lines " +
			"ignore-trailing-space text new-file report-identical-files minimal suppress-common-lines strip-trailing-cr no-dereference color color= ed " +
			"normal show-c-function",
		longValue: "width exclude ignore-matching-lines show-function-line label horizon-lines",
	},
	"file": {
		short: "bihkLN0rv", shortValue: "F",
		long:      "brief mime mime-type mime-encoding keep-going dereference no-dereference no-pad raw print0 version extension",
		longValue: "separator",
	},
	"du": {
		short: "abchHklmsSx0", shortValue: "dBt",
		long:      "all apparent-size bytes total human-readable si summarize separate-dirs one-file-system null inodes count-links time time=",
		longValue: "max-depth block-size threshold exclude",
	},
	"date": {
		short: "uR", shortValue: "d", attached: "I",
		long:      "utc universal rfc-email iso-8601 iso-8601= rfc-3339= debug",
		longValue: "date",
	},
}

var grepFlags = &flagSet{
	short: "EFGPiyvwxcLloqshHnTZabzrIU0123456789", shortValue: "eABCmdD",
	long: "extended-regexp fixed-strings basic-regexp perl-regexp ignore-case no-ignore-case invert-match word-regexp line-regexp count color color= " +
		"colour colour= files-without-match files-with-matches only-matching quiet silent no-messages byte-offset with-filename no-filename " +
		"line-number initial-tab null null-data text recursive line-buffered version",
	longValue: "regexp max-count label after-context before-context context binary-files devices directories exclude exclude-dir include",
}

// findTests are the tests and options of find that change nothing, with the
// number of words that follow each.
var findTests = map[string]int{
	"-H": 0, "-P": 0, "-E": 0, "-X": 0, "-s": 0, "-x": 0, "-d": 0, "-O0": 0, "-O1": 0, "-O2": 0, "-O3": 0,
	"-maxdepth": 1, "-mindepth": 1, "-depth": 0, "-mount": 0, "-xdev": 0, "-daystart": 0, "-noleaf": 0, "-nowarn": 0,
	"-ignore_readdir_race": 0, "-regextype": 1,
	"-name": 1, "-iname": 1, "-path": 1, "-ipath": 1, "-wholename": 1, "-iwholename": 1, "-regex": 1, "-iregex": 1, "-lname": 1, "-ilname": 1,
	"-type": 1, "-xtype": 1, "-size": 1, "-empty": 0, "-perm": 1, "-user": 1, "-group": 1, "-uid": 1, "-gid": 1, "-nouser": 0, "-nogroup": 0,
	"-links": 1, "-inum": 1, "-samefile": 1, "-fstype": 1, "-readable": 0, "-writable": 0, "-executable": 0,
	"-mtime": 1, "-mmin": 1, "-atime": 1, "-amin": 1, "-ctime": 1, "-cmin": 1, "-newer": 1, "-anewer": 1, "-cnewer": 1, "-used": 1,
	"-prune": 0, "-quit": 0, "-print": 0, "-print0": 0, "-printf": 1, "-ls": 0, "-true": 0, "-false": 0,
	"-not": 0, "-and": 0, "-or": 0, "-a": 0, "-o": 0,
}

// checkFind looks for actions in every word, so that a wrong idea of how many
// words a test takes cannot hide one.
func checkFind(args []string) bool {
	for _, a := range args {
		for _, action := range []string{"-exec", "-ok", "-delete", "-fprint", "-fls", "-files0-from"} {
			if strings.HasPrefix(a, action) && a != "-executable" {
				return false
			}
		}
	}
	for i := 0; i < len(args); i++ {
		a := args[i]
		if len(a) < 2 || a[0] != '-' {
			continue
		}
		words, known := findTests[a]
		if !known && strings.HasPrefix(a, "-newer") && len(a) == len("-newerXY") {
			words, known = 1, true
		}
		if !known {
			return false
		}
		i += words
	}
	return true
}
