package oracle

import (
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
)

// constructs are shell constructs around commands. In them and in shapes below,
// a letter after % is replaced by a random word:
//
//	%1 %2  commands            %o  options          %f  a file, mostly a good one
//	%d     a directory         %b  a bad file       %g  a glob
//	%p     a pattern           %w  a word           %n  a number
//	%t     a test of files     %e  a test of find   %s  a string for printf, date …
//	%r     a revision          %q  a path for git   %c  a name of a command
//	%v     an assignment       %a  arithmetic       %R  a repository
//	%h     a glob of some words
var constructs = []string{
	"%1 | %2", "%1 |& %2", "%1 && %2", "%1 || %2", "%1; %2", "%1\n%2", "%1 &", "%1 & %2", "(%1)", "{ %1; }", "! %1", "(%1; %2) | %1", "time %1", "time -p %1",
	"if %1; then %2; fi", "if ! %1; then :; else %2; fi", "while %1; do %2; break; done", "until %1; do %2; break; done", "for f in %f %f; do %1; done",
	"for f in %g; do %1; done", "for f in %g; do cat \"$f\"; done", "for ((i=0; i<2; i++)); do %1; done", "case %w in %w) %1;; *) %2;; esac", "select x in %f; do %1; done",
	"cd %d && %1", "cd %d; %1", "(cd %d && %1); %2", "cd %d && cd .. && %1", "cd %d || %1", "pushd %d && %1", "cd %R && %1", "cd %h && %1", "cd %g && %1", "cd %h; %1", "env -C %g %1", "env -C %h %1",
	"env --chdir=%d %1", "env --chdir %d %1", "env -C%d %1", "env - %1", "env -uX -- %1", "timeout -k 1 5 %1", "timeout -k1 5s %1", "stdbuf -o0 -i 0 %1", "nice --adjustment=5 %1", "nice -5 %1", "ionice -c2 -n7 %1",
	"time -o out/x %1", "time -f x %1", "command -pv %1", "nohup nice %1", "env -C %b %1", "timeout 5 nice -n 1 stdbuf -oL %1", "timeout %g %1", "nice -n %g %1", "stdbuf -o %g %1", "%g", "command %g", "env %g", "env X=%g %1",
	"cd -P %d && %1", "cd %b && %1",
	"%1 < %f", "%1 < %b", "%1 < %g", "%1 3< %f", "%1 3< %f <&3", "%1 {x}< %f", "%1 2>&1", "%1 > /dev/null", "%1 2>/dev/null | %2", "%1 &>/dev/null", "%1 <&-",
	"%1 > out/%n", "%1 >> out/%n", "%1 >| out/%n", "%1 &> out/%n", "%1 2> out/%n", "%1 > %b", "%1 >& out/%n", "%1 <> %f",
	"%1 <<EOF\n%w\nEOF", "%1 <<'EOF'\n$(%2)\nEOF", "%1 <<EOF\n$(%2)\nEOF", "%1 <<< %w", "%1 <<< \"$(%2)\"", "%1 <<-EOF\n\t%w\n\tEOF",
	"echo $(%1)", "echo \"$(%1)\"", "echo `%1`", "%1 $(%2)", "X=$(%1)", "cat <(%1)", "diff <(%1) <(%2)", "%1 > >(%2)", "echo $(< %f)", "echo $(< %b)", "echo \"$(< %g)\"",
	"env %1", "env %v %1", "env -i %1", "env -u X %1", "env -C %d %1", "env -- %1", "command %1", "command -p %1", "command -v %c", "builtin %1", "exec %1", "nice %1", "nice -n 5 %1",
	"nohup %1", "timeout 5 %1", "timeout -s INT 5 %1", "timeout --signal=INT 5 %1", "stdbuf -oL %1", "ionice -c 3 %1", "setsid %1", "nice timeout 5 env %1", "time env %1",
	"%v %1", "%v; %1", "export %v; %1", "readonly X=%f; %1", "X=%f; cat $X", "X=(%f %g); %1", "set -- %f %g; %1", "set -e; %1", "shopt -s nullglob; %1", "read X < %f; %1",
	"bash -c '%1'", "sh -c '%1'", "eval '%1'", "f() { %1; }; f", "trap '%1' EXIT", "coproc %1", "xargs %1 < %f", "echo %f | xargs %1", "printf '%%s\\n' %f | xargs -n1 %1",
	"find %d -exec %1 {} \\;", "find %d -type f -exec %1 {} +", "find %d -execdir %1 {} \\;", "[[ -e %f ]] && %1", "[[ %w == %p ]] || %1", "[[ %w =~ %p ]]; %1", "[[ %w -eq %a ]]; %1",
	"((%a)); %1", "echo $((%a)); %1", "let %a; %1", "%1 # %2", "%1 \\\n | %2", "test %t && %1", "[ %t ] && %1", "\\%1", "$'%1'", "\"%1\"", "%1 {a,b}", "%1 {%f,%b}", "%1 ~", "%1 ~/notes.txt",
	"for TZ in OUT/secret.txt; do %1; done", "X='a[$(touch out/pwn)]'; ((X)); %1", "X='$(touch out/pwn)'; echo ${X@P}; %1", "for i in arith/*; do ((i)); done", "echo ${X:-$(%1)}", "echo ${X/a/$(%1)}",
	"echo ${!X*}; %1", "cd %d && cd %d && %1", "(cd %d; (cd ..; %1)); %2", "if cd %d; then %1; fi; %2", "cd %d && { cd ..; %1; }; %2", "cd %d | %1; %2", "cd %d & %1", "! cd %d && %1", "cd -L %d/.. && %1", "cd -- %d && %1",
	"cd %d && %1 < %f", "cd %d; cat < %b", "%1 < /dev/fd/3 3< %b", "cat /dev/fd/3 3< %f", "cat - < %f", "(%1) < %f", "{ %1; %2; } < %f", "while read -r x; do %1; done < %f", "%1 <(%2) < %f", "exec < %f; %1", "exec 3< %b; %1",
	"%1 \"$HOME\"/notes.txt", "%1 $OLDPWD", "%1 ${X:-%b}", "%1 ${X-%f}", "%1 \"${X:=%b}\"", "%1 $'\\x2e\\x2e/outside/secret.txt'", "%1 $\"%f\"", "%1 -- %b", "%1 %b", "%1 %f %g",
	"cd %d && %1 && cd - && %2", "CDPATH=.. cd outside && %1", "cd && %1", "cd ~ && %1", "cd %d/.. && %1", "wait; %1", ":; %1", "true && %1", "%1 1>&2", "%1 2>&1 1>/dev/null", "hash %c; %1",
	"type %c; %1", "which %c && %1", "printf -v X %f; %1", "echo -e '%w' | %1", "jobs; %1", "pwd; %1", "umask 077; %1", "exit 0; %1", "ls | while read x; do %1; done", "unset X; %1",
}

// shapes are the arguments of each program. The key * is for all programs
// without an entry; git is for all git commands.
var shapes = map[string][]string{
	"*":        {"%o %f", "%o %f %f", "%f %o", "%o -- %f", "%o %g", "%o", "%o %f %b", "%o %b", "%o %d"},
	"grep":     {"%o %p %f", "%o %p %f %f", "%o -e %p %f", "-r %o %p %d", "-rn %p %o %d", "%o %p", "%o -- %p %f", "%p %f %o", "%o %p %g", "-r %p", "-r %o %p", "-e%p %o %f", "-d recurse %p %d", "%o %p %b"},
	"rg":       {"%o %p %f", "%o %p %d", "%o %p", "%p %o", "%o --files %d", "-e %p %o %d", "%o -- %p %f", "%p %g", "%o -g %p %p %d", "%o %p %b"},
	"tr":       {"%o %w %w", "%w %w", "-d %w", "%o %w"},
	"cut":      {"-d: -f1 %o %f", "-c1-3 %o %f", "-f %n %o %f", "%o %f", "-b%n %f %b", "-c1 %g"},
	"test":     {"%t", "%t -a %t", "%t -o %t", "! %t", "%w = %w", "%n -eq %n", "%n -lt %w", "%f -nt %f", "%f -ef %b", "( %t )", "-v %w", "-R %w", "%w '<' %w", "%w -eq %a"},
	"printf":   {"%s %w", "%s %w %f", "%s %n", "-- %s %w", "%o %s %g", "%s '%b'"},
	"echo":     {"%o %w", "%w %f", "%g", "-e %s", "-n %b"},
	"date":     {"%o", "+%s", "%o +%s", "-d %w +%s", "-r %f", "-f %f", "-d@%n", "%n"},
	"find":     {"%d %e", "%d %e %e", "%e", "%f %d %e", "%o %d %e", "%d %e -o %e", "%d ! %e", "%d \\( %e -or %e \\) %e", "%d -maxdepth %n %e", "%b %e", "%g %e", "%d -newer %f", "%d -samefile %b", "-H %d %e"},
	"type":     {"%c", "%o %c", "-a %c", "%w"},
	"which":    {"%c", "-a %c", "%o %c", "%b"},
	"env":      {"", "%o", "%v"},
	"uniq":     {"%o %f", "%o", "%o %f out/%n", "-%n %f", "+%n %f"},
	"diff":     {"%o %f %f", "%o %d %d", "-r %o %d %d", "%o %f %b", "%o %f %d", "-u %f %f", "%o %d %b", "-r %o %d %b", "%o --from-file=%f %f"},
	"head":     {"%o %f", "-n %n %f", "-%n %f", "-c%n %f", "%o %f %b", "%g", "-n%n %o %g", "%o"},
	"tail":     {"%o %f", "-n %n %f", "-%n %f", "+%n %f", "-c%n %f %b", "%g", "-n%n %g"},
	"basename": {"%f", "%f .txt", "-a %f %b", "%o %f"},
	"stat":     {"%o %f", "-c %s %f", "%o %b", "-L %f", "--printf=%s %f"},
	"id":       {"%o", "%o root", "%w"}, "uname": {"%o"}, "whoami": {"%o"}, "true": {"%o %f"}, "false": {"%o %f"}, "pwd": {"%o"},
	"git": {"%o", "%o %r", "%r %o", "%o -- %q", "%o %r -- %q", "%o %q", "%r %q", "%r %r %o", "%o %r %q %q", "%o %o %q", "-- %q", "%q -- %q"},
}

// aliases are programs with the same arguments as another.
var aliases = map[string]string{"egrep": "grep", "fgrep": "grep", "[": "test", "dirname": "basename"}

// words are the replacements for the letters. Three times in four the first
// list is used, so that most commands are likely to be allowed.
var words = map[byte][2][]string{
	'f': {{"README.md", "plain/a.txt", "plain/b.md", "plain/sub/c.txt", "docs/z.md", "e1/plain.txt", "plain/empty", "list", "go.mod", "./README.md", "plain/../README.md", "$PWD/README.md", "tree/leaf.txt"},
		{"names/-rf", "names/--output=x", "names/@file", "names/a b.txt", "names/*", "names/$(id)", "names/new\nline", "names/[a]", "names/{}", "names/~", "names/-", "names/x:y", "src/main.go", "evil.sh",
			"names.txt", "list0", "plain", "inside", "tree/in/a.txt", "odd/http:/x", "plain/sub/self", "-", "no-such-file", "''", "@README.md", "README.md/", "http:/x", "out/x", ".git/HEAD"}},
	'd': {{".", "plain", "plain/sub", "docs", "tree/b", "e1", "src/inner", "./plain", "plain/", "plain/../plain"},
		{"src", "src/deep", "tree", "tree/a", "tree/in", "names", "names2", "odd", "e2", "e3", "denied", "hostile/plain", "inside", "private", "secrets", ".git", "..", "src/deep/up", "link", "arith", "borrowed/linked", "posing"}},
	'b': {{"link", "filelink", "link/secret.txt", "../outside/secret.txt", "OUT", "OUT/secret.txt", "OUT/sub", "..", "../user", "tree/a/out", "tree/b/file", "src/deep/up", "src/deep/up/outside/secret.txt", "e1/gone.txt",
		"[x]", "e2/[y]", "odd/@", "odd/@leak", "odd/{}", "dangling", "names2/-L", "/etc/hostname", "/proc/self/environ", "~/notes.txt", "plain/../../outside/secret.txt", "odd/http:/secret.lnk", "//etc/hostname"},
		{".env", "private/old.key", "secrets/key.pem", "tree/a/sec", "e3/hidden", "e3/dir", "denied/.env", "names2/x y", "hostile/tracked/.env", "./.env", ".git/config", "private", "secrets/", "denied"}},
	'g': {{"*", "plain/*", "plain/*.txt", "*.md", "plain/sub/?.txt", "{README.md,go.mod}", "plain/[ab]*", "e1/p*", "./*.md", "docs/*"},
		{"names/*", "names2/*", "tree/*", "tree/*/*", "e?/*", "e3/h*", ".e*", "p*/*", "**/*", ".*", "link/*", "[x]/*", "e2/[y]", "{README.md,.env}", "{plain,link}/*", "../*", "*/*.txt", "odd/*", "-*", "--*", "hostile/*/.e*", "~/*", "src/deep/*/*"}},
	'p': {{"KEY", "a", "'beta'", "x", ".", "'^a.*$'", "CANARY", "'*.txt'", "plain/big.txt", "~+/../outside/secret.txt", "~-/x", "~root/x", "..{/outside/secret.txt,}", "\\.\\./outside/secret.txt", ".''./outside/secret.txt", "li\\\nnk/secret.txt", "l\\ink", "li''nk", "link/../outside/secret.txt", "/proc/self/cwd/../outside/secret.txt", "/dev/fd/../../etc/hostname", "WS/../outside/secret.txt", "{link,plain}/secret.txt", "$'link\\0x'", "$'../outside/secret.txt\\x00/../x'", "$'\\u002e\\056/outside'", "file://OUT/secret.txt", "~+/link", "tree/in/../../outside/secret.txt"}, {"''", "'[a-'", "-e", "'\\('", "README.md", "../outside", "OUT/secret.txt", "'a|b'", "--", "$'\\n'", ".env", "-f", "'*'", "../README.md", "../plain/a.txt", "a.txt", "sub/c.txt", "f.txt", "~+/README.md", "/dev/stdin", "/dev/fd/0", "WS/README.md", "./-rf", "plain//a.txt", "R*E.md", "README.m[d]", "tree/in/..", "inside/..", "link/..", "tree/in/../..", "..", "../work/plain", "WS", "WS/plain", "~+", "-", "''", "plain/sub/../..", "hostile", "hostile/links", "hostile/tracked", "src/deep/up/work", "../.env", "../private/old.key", "../../work/.env", ".e{n..n}v", ".{env,x}", "WS/.env", "plain/../.env", "inside/../.env", "tree/in/../.env", "/proc/self/cwd/.env", "secrets/../.env", "priv''ate/old.key", "$'.env\\0x'", "private//old.key", ".env/", "tree/in/../tree/a/sec", "~+/.env", "tree/a/../../.env", "*/../../outside/*", "pl*/../../outside/secret.txt", "plain/*/../../../outside/*", "[.][.]/outside/*", ".?/*", ".*/outside/*", "{..,plain}/*", "p[[:alpha:]]*/*", "[!a]*", "e[1-3]/*", "tree/[^b]/*", "s*/*.pem", "tree/?/sec", "tre[e]/a/*", "@(plain|link)/*", "plain/\\*", "[[]x]", "[x]", "e2/[[]y]", "*/.env", "~+/*", "in*/*", "tree/i*/../.e*", "hostile/links/.git*", "names/[-]*", "OUT/*", "./../*", "src/deep/u*/outside/*", "WS/*", "*/", "lk/0/*", "lk/1/*", "lk/2/*", "lk/3/*", "lk/4/*", "lk/5/*", "lk/6/*", "lk/7/?*", "lk/8/*", "lk/9/[*]", "lk/?/*", "lk/5/[[]z]", "lk/6/\\**", "lk/[3-5]/[!p]*", "lk/0/[^p]*", "lk/4/a*", "lk/4/a\\\\*", "lk/*/p*", "lk/0", "lk/1", "lk/4", "lk/6", "lk"}},
	'w': {{"x", "'a b'", "abc", "a-z", "A-Z", "1", "'now'", "yesterday", "RES"}, {"''", "-n", "--", "README.md", "'$(touch out/pwn)'", "'`id`'", "'a[$(id)]'", "..", "*", "link", "X=y", "@0", "'%n'", "\\\\", "'x\ny'", "'${X@P}'", "~", "~+", "{a,b}", "$((1+1))", "'\\0'", "-r", "README.md:1", "'[a'"}},
	'n': {{"1", "2", "0", "3"}, {"10", "-1", "+1", "1k", "x", "2026-01-01", "README.md", "010203042030"}},
	't': {{"-e %f", "-f %f", "-d %d", "-r %f", "-s %f", "-n %w", "-z %w", "-x %f", "-L %b", "%f"}, {"-e %b", "-h %b", "-O %f", "-N %f", "-t %n", "-o errexit", "-S %f", "-w %g", "-e %g", "-v %w", "-f %b"}},
	'e': {{"-name %p", "-type f", "-maxdepth %n", "-print", "-size +%n", "-newer %f", "-path %p", "-empty", "-mtime -%n", "-iname %p", "-ls", "-printf %s", "-prune", "-xdev"}, nil}, // and the tests that find's help names
	's': {{"'%s\\n'", "%F", "'%d'", "%s", "'%n %s'", "'%p\\n'", "x"}, {"'%N'", "'%*d'", "'%b'", "'%q'", "'%(%F)T'", "'\\c'", "'%h'", "%G", "'%G?'", "'%n'", "'%1$s'", "'%C'", "'%ln'"}},
	'r': {{"HEAD", "HEAD~1", "v1", "side", "@", "HEAD^", "v1..HEAD", "--all", "HEAD:README.md", ":README.md", "HEAD~1..HEAD"}, {"HEAD~2:.env", "HEAD~2", "HEAD~2:private", "HEAD~2:private/old.key", "HEAD^{tree}", "BLOB", ":/first",
		"':/fir'", "HEAD:", "HEAD:./README.md", "HEAD:src/../.env", "HEAD~2^{tree}", "v1^{}", "side@{0}", "@{-1}", "HEAD...side", "^HEAD", "HEAD~2:./.env", "v1~1:.env", "HEAD@{0}", "-1", "stash", "FETCH_HEAD", ":0:README.md", "HEAD^!", "HEAD~2^@", "HEAD~2:README.md", "HEAD~2:src", "'HEAD^{/first}'", "':/first:.env'", "HEAD~2..HEAD~1", "HEAD~2...HEAD", "side~1", "side~1:.env", "side:", "v1~1", "v1~1^{tree}:.env", "HEAD~2:.e''nv", "TREE", "HEAD~2^{tree}:.env", "refs/heads/side~1:.env", "master~2:.env", "main", "HEAD@{1}", "@{u}", "HEAD~2:./private/old.key", ":.env", "HEAD~2:private/", "COMMIT:.env", "COMMIT"}},
	'q': {{"README.md", "plain", "plain/a.txt", ".", "docs", "src/main.go", "plain/sub"}, {".env", "private", "private/old.key", "'*.md'", "'*'", "':(exclude)README.md'", "':!README.md'", "':/'", "':(top).env'", "':(glob)**'", "../outside", "link", "filelink", "link/secret.txt",
		"OUT/secret.txt", "/etc/hostname", "names/*", "plain/*", "no-such-file", "../outside/secret.txt", ".e*", "'.e*'", "hostile/plain", "evil", "tree/a/out", "':(icase).ENV'", "WS/.env", "e2/[y]", "../.env", "':(attr:x)'", "':(top,glob)**/.env'", "':./.env'", "':^.env'", "f.txt", "sub", "a.txt", "../README.md", "''", "tree", "private/", "./.env", "'*env'", "'p*/*'", "WS", "'\\.env'"}},
	'c': {{"ls", "cat", "git", "bash", "x"}, {"./evil.sh", "README.md", "-a", "../outside/secret.txt", "if"}},
	'v': {{"X=y", "LC_ALL=C", "GIT_PAGER=cat", "X=", "TZ=UTC"}, {"PATH=.", "GIT_DIR=hostile/fsmonitor/.git", "HOME=.", "LD_PRELOAD=./x", "RIPGREP_CONFIG_PATH=list", "GREP_OPTIONS=-r", "TZ=../outside/secret.txt", "MAGIC=OUT/secret.txt",
		"LS_COLORS=x", "TMPDIR=.", "LANGUAGE=../outside", "POSIXLY_CORRECT=1", "GIT_EXTERNAL_DIFF=./evil.sh", "GIT_CONFIG_COUNT=1", "BASH_ENV=evil.sh", "QUOTING_STYLE=c", "X=OUT", "GIT_TRACE=WS/out/trace", "BLOCK_SIZE=1", "TZ=:OUT/secret.txt", "LC_ALL=../../OUT", "PWD=OUT", "OLDPWD=OUT", "LANG=OUT/x", "TERM=../x", "COLUMNS=x", "GIT_OPTIONAL_LOCKS=1", "X='a[$(touch out/pwn)]'", "BASHPID=1", "SHELLOPTS=x", "IFS=/", "GLOBIGNORE=*", "EXECIGNORE=*", "XDG_CONFIG_HOME=."}},
	'a': {{"1+1", "2*3", "1"}, {"X", "X=1", "'a[$(id)]'", "X[0]", "1/0", "PATH=1", "'X[$(touch out/pwn)]'", "TZ", "RANDOM", "x?1:2", "\"$(id)\"", "HOME"}},
	'h': {{"hostile/ext*", "hostile/f*r", "h*/textconv", "hostile/[c]ommand", "ev*", "hostile/pl*", "{hostile/external,x}", "hostile/{filter,x}", "hostile/p?ain"}, {"hostile/*", "h*/*", "borrowed/*", "re*d", "pos*", "lin*", "hook*d"}},
	'R': {nil, nil}, // filled in with the repositories
}

// globals are options of git that precede the command.
var globals = []string{"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs", "-C %d", "-C %R", "-C %R", "-C %R -P", "-C . -C %d", "-c core.fsmonitor=./evil.sh", "--git-dir=%R/.git", "--work-tree=..", "-p", "--bare",
	"--exec-path=.", "--glob-pathspecs", "--namespace=x", "-C link", "-C %b", "-C %g", "-C %h", "-C %h -P", "-C ./%h", "--git-dir %R/.git", "--config-env=core.pager=HOME", "--icase-pathspecs", "-C%d", "--paginate", "--attr-source=HEAD"}

// extraOptions are options that are missing in the help of the programs.
var extraOptions = map[string][]string{
	"echo": {"-n", "-e", "-E", "-ne"}, "printf": {"-v X", "--"}, "type": {"-a", "-t", "-p", "-P", "-f"}, "pwd": {"-L", "-P"}, "which": {"-a"},
	"git": {"-p", "-u", "-s", "-1", "-n1", "-U0", "-M", "-C", "-B", "-L1,2:README.md", "-L1,1:.env", "-S%p", "-G%p", "-O%f", "-l%n", "--stat", "--format=%s", "--pretty=%s", "--pretty=format:%s", "--follow", "--since=%w", "--author=%w", "--grep=%p",
		"--name-only", "--oneline", "--graph", "--cached", "--no-index", "--ext-diff", "--textconv", "--no-textconv", "--show-signature", "--submodule=diff", "--full-diff", "--find-object=%r", "--stdin", "--notes=%w", "--contents=%f",
		"--output=%f", "--output-indicator-new=x", "--word-diff", "--ita-invisible-in-index", "-z", "-w", "-b", "-a", "-c", "-m", "-cc", "--cc", "--raw", "--check", "--relative=%d", "-R", "-i", "-E", "-F", "-g", "-t", "--mailmap", "--date=%w", "--glob=%p",
		"--decorate-refs=%p", "--exclude=%p", "--ignore-submodules=none", "--merge-base", "--end-of-options", "--dense", "--objects", "--max-count=%n", "--skip=%n", "--reverse", "--no-walk", "--ignored", "-uall", "-uno", "--show-stash", "-v", "-vv"},
	"find": {"-L", "-P", "-H", "-O3", "-D exec", "-E", "-X"}, "rg": {"--pre %f", "-L", "-f %f", "-z", "--hostname-bin %f", "--ignore-file %f", "-.", "-uuu"},
	"ls": {"-R", "-l", "-la", "-L", "-lR", "-LR", "-H", "-d", "-F", "-Z"}, "du": {"-L", "-D", "-a", "-h"}, "file": {"-f %f", "-z", "-m %f", "-s", "-C"}, "sort": {"-T %d", "--compress-program=%f", "-o %f", "-oout/x"},
	"tail": {"-F", "--retry", "--pid=%n"}, "grep": {"-R", "-f %f", "-%n"}, "diff": {"-r", "-N", "-S%f", "-X %f", "-l"}, "date": {"-s x", "--set=x"}, "wc": {"--files0-from=%f"},
}

// generator generates commands.
type generator struct {
	seed     uint64
	programs []string            // "cat", "git log"
	missing  []string            // programs that are not installed
	options  map[string][]string // of each program, from its help
	words    map[byte][2][]string
	fill     *strings.Replacer
}

func newGenerator(t *testing.T, y *testTree, seed int) *generator {
	t.Helper()
	g := &generator{seed: uint64(seed), options: map[string][]string{}, words: maps.Clone(words),
		fill: strings.NewReplacer("OUT", y.Outside, "WS", y.Workspace, "BLOB", blob("KEY=CANARY-7f3a\n"), "TREE", y.ids[0], "COMMIT", y.ids[1])}
	repositories := []string{".", "evil", "hooked", "redirected", "posing", "borrowed/common", "borrowed/linked", "borrowed/alternate", "plain/sub"}
	for _, name := range slices.Sorted(maps.Keys(hostileRepositories)) {
		repositories = append(repositories, "hostile/"+name)
	}
	g.words['R'] = [2][]string{repositories, {"hostile/super/sub", "hostile/gitfile/t", "hostile/gitlink/t", "link", "hostile/plain/.git", "hostile/plain/../fsmonitor"}}
	for _, name := range policy.ReadOnlyCommands() {
		if !slices.Contains([]string{"[", "test", "echo", "printf", "type", "pwd", "true", "false"}, name) {
			first, _, _ := strings.Cut(name, " ")
			if _, err := program.Find(first, y.env); err != nil {
				g.missing = append(g.missing, name)
				continue
			}
		}
		g.programs = append(g.programs, name)
		g.options[name] = g.readOptions(t, y, name)
	}
	g.words['e'] = [2][]string{words['e'][0], g.options["find"]}
	return g
}

// option matches an option in a help text, and the start of its value.
var option = regexp.MustCompile(`(?:^|[\s,/\[(|])(-{1,2}[A-Za-z0-9][A-Za-z0-9-]*)(\[?[= ]?[<A-Z\[][A-Za-z<>_-]*)?`)

// readOptions reads the options from the help of a program.
func (g *generator) readOptions(t *testing.T, y *testTree, name string) []string {
	t.Helper()
	parts := strings.Fields(name)
	family := parts[0]
	if to := aliases[family]; to != "" {
		family = to
	}
	found := slices.Clone(extraOptions[family])
	ask := [][]string{{"--help"}}
	if parts[0] == "git" {
		ask = [][]string{{parts[1], "-h"}, {parts[1], "--git-completion-helper"}, {"diff", "--git-completion-helper"}}
	}
	for _, args := range ask {
		cmd, err := program.New(program.Place{Root: y.Workspace, Env: y.env}, parts[0], args...)
		if err != nil {
			break // a builtin
		}
		out, usage := &program.Head{Limit: 1 << 18}, &program.Head{Limit: 1 << 18}
		_, err = cmd.Run(t.Context(), program.RunOptions{Stdout: out, Stderr: usage})
		check(t, err)
		for _, m := range option.FindAllStringSubmatch(out.String()+"\n"+usage.String(), -1) {
			if m[2] != "" && !strings.Contains(m[2], "[") || strings.HasSuffix(m[0], "=") {
				m[1] += "="
			}
			found = append(found, m[1])
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func (g *generator) countOptions() int {
	n := 0
	for _, list := range g.options {
		n += len(list)
	}
	return n
}

// command generates a case by its number. Programs and their options take
// turns, so that each is tested.
func (g *generator) command(n int) string {
	m := &maker{generator: g, r: rand.New(rand.NewPCG(g.seed, uint64(n))), turn: n / len(g.programs)}
	text := g.fill.Replace(m.compound(m.simple(g.programs[n%len(g.programs)]), 2))
	if denies(n) { // a case without reads.deny must not copy a denied file to a place where a case with reads.deny may read it
		text = strings.ReplaceAll(text, "out/", "kept/")
	}
	return text
}

// maker generates one command.
type maker struct {
	*generator
	r    *rand.Rand
	turn int
	used bool // the option of this case has been used
}

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// compound puts a command into at most that many nested constructs.
func (m *maker) compound(first string, most int) string {
	if most == 0 || m.r.IntN(5) < 3 {
		return first
	}
	second := m.compound(m.simple(pick(m.r, m.programs)), most-1)
	return m.compound(strings.NewReplacer("\x011", first, "\x012", second).Replace(m.expand(pick(m.r, constructs), "")), most-1)
}

// simple generates a program call with arguments.
func (m *maker) simple(name string) string {
	family, sub, isGit := strings.Cut(name, " ")
	shape := family
	if to := aliases[shape]; to != "" {
		shape = to
	}
	list := shapes[shape]
	if list == nil {
		list = shapes["*"]
	}
	out := family
	if isGit {
		if m.r.IntN(3) == 0 {
			out += " " + m.expand(pick(m.r, globals), name)
		}
		out += " " + sub
	}
	out += " " + m.expand(pick(m.r, list), name)
	if family == "[" {
		out += " ]"
	}
	return strings.TrimRight(out, " ")
}

// expand replaces the letters. %1 and %2 stay as marks.
func (m *maker) expand(text, program string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '%' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		i++
		switch c := text[i]; c {
		case '%':
			b.WriteByte('%')
		case '1', '2':
			b.WriteString("\x01" + text[i:i+1])
		case 'o':
			b.WriteString(m.optionsOf(program))
		default:
			b.WriteString(m.word(c, program))
		}
	}
	return b.String()
}

// word returns a replacement for a letter.
func (m *maker) word(letter byte, program string) string {
	lists := m.words[letter]
	list := lists[0]
	if len(lists[1]) > 0 && m.r.IntN(4) == 0 {
		list = lists[1]
	}
	w := pick(m.r, list)
	switch letter {
	case 's': // the format has its own percent signs
		return w
	case 't', 'v':
		return m.expand(w, program)
	case 'e':
		if strings.HasSuffix(w, "=") || strings.Count(w, "-") > 1 || m.r.IntN(2) == 0 && !strings.Contains(w, " ") {
			return strings.TrimSuffix(w, "=") + " " + m.value(program)
		}
		return m.expand(w, program)
	case 'f', 'b', 'q', 'd':
		return m.quoted(w)
	}
	return w
}

// quoted writes a file name with one of the shell's ways of quoting.
func (m *maker) quoted(w string) string {
	if strings.HasPrefix(w, "'") {
		return w
	}
	plain := !strings.ContainsAny(w, " \t\n*?[]{}$`;#~\\'\"!()") || strings.HasPrefix(w, "$PWD") || strings.HasPrefix(w, "~/")
	switch m.r.IntN(12) {
	case 0:
		return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	case 1:
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$(", `\$(`, "`", "\\`").Replace(w) + `"`
	case 2:
		return "$'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`).Replace(w) + "'"
	case 3:
		if plain && len(w) > 2 {
			return w[:1] + "'" + w[1:2] + "'" + w[2:]
		}
	}
	if plain || m.r.IntN(3) == 0 && !strings.ContainsAny(w, "`$;'\"\n#(") {
		return w // globs stay unquoted, too
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}

// optionsOf returns up to three options of a program. The first is the option
// of this case.
func (m *maker) optionsOf(program string) string {
	list := m.options[program]
	var out []string
	for range m.r.IntN(4) {
		if len(list) == 0 {
			break
		}
		o := pick(m.r, list)
		if !m.used {
			o, m.used = list[m.turn%len(list)], true
		}
		out = append(out, m.spell(o, program))
	}
	return strings.Join(out, " ")
}

// spell writes an option in one of its possible spellings.
func (m *maker) spell(o, program string) string {
	if strings.Contains(o, "%") {
		return m.expand(o, program)
	}
	name, valued := strings.CutSuffix(o, "=")
	if m.r.IntN(8) == 0 {
		valued = !valued
	}
	if strings.HasPrefix(name, "--") {
		if m.r.IntN(6) == 0 && len(name) > 5 {
			name = name[:4+m.r.IntN(len(name)-4)]
		}
		switch {
		case !valued:
			return name
		case m.r.IntN(2) == 0:
			return name + " " + m.value(program)
		}
		return name + "=" + m.value(program)
	}
	if m.r.IntN(4) == 0 { // several letters combined
		for range 1 + m.r.IntN(2) {
			if other := strings.TrimSuffix(pick(m.r, m.options[program]), "="); len(other) == 2 {
				name = "-" + other[1:] + name[1:]
			}
		}
	}
	switch {
	case !valued:
		return name
	case m.r.IntN(2) == 0:
		return name + m.value(program)
	case m.r.IntN(6) == 0:
		return name + "=" + m.value(program)
	}
	return name + " " + m.value(program)
}

// value returns an option value: usually a number or a common word, otherwise a
// file.
func (m *maker) value(program string) string {
	switch m.r.IntN(10) {
	case 0, 1, 2:
		return m.word('n', program)
	case 3, 4:
		return pick(m.r, []string{"always", "auto", "never", "x", "none", "size", "time", "name", "f", "d", "all", "recurse", "skip", "%", ",", "C", "utf-8", "c,l"})
	case 5:
		return m.word('s', program)
	case 6, 7:
		return m.word('b', program)
	case 8:
		return m.word('g', program)
	}
	return m.word('f', program)
}
