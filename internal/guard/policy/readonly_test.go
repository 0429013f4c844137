package policy

import (
	"strings"
	"testing"
)

func TestReadOnlyCommands(t *testing.T) {
	yes := []string{
		"ls", "ls -la", "ls -R src", "ls --color=auto", "cat a.txt b.txt", "cat -n a", "head -n 5 a", "head -20 a", "tail a", "tail -f log", "tail -n +3 a",
		"wc", "wc -l a b", "wc -clw a", "wc --lines a", "wc --total=never a",
		"grep x a", "grep -rn x .", "grep -rniE a|b src", "grep -A3 -B 2 x a", "grep -5 x a", "grep -e x -e y a", "grep --include=*.go -r x .",
		"grep --exclude-dir node_modules -r x .", "grep --color=never x", "grep -m1 x a", "grep -- -x a", "egrep a|b f", "fgrep x f",
		"rg x", "rg -n x src", "rg -i -g *.go x", "rg -tgo x", "rg --files", "rg --json x", "rg -uu x", "rg --hidden -l x", "rg -C3 x", "rg --max-count 3 x",
		"find", "find .", "find . -name *.go", "find . -type f -size +10k", "find . -mtime -7 -print", "find . ( -name a -o -name b ) -prune", "find . ! -name x",
		"find . -perm -u+w", "find src -maxdepth 2 -executable", "find . -newermt 2024-01-01", "find . -newer a", "find . -printf %p", "find . -ls", "find -P . -empty",
		"git status", "git status -s", "git status --porcelain=v2 -b", "git status -uno", "git --no-pager status", "git --no-optional-locks status",
		"git diff", "git diff HEAD~1", "git diff --stat", "git diff --cached -- a b", "git diff -U5 main...HEAD", "git diff --name-only -z", "git diff -w --word-diff",
		"git log", "git log --oneline -10", "git log -n 5 --graph --all", "git log -p -S foo", "git log -Sfoo -- a", "git log --since=yesterday --author bob",
		"git log --format=%H%x09%an", "git log -L1,5:a.go", "git log --pretty=oneline --follow a", "git log -3 --stat", "git log --max-count 3",
		"git show", "git show HEAD:a.go", "git show --stat abc123", "git show -s --format=%B HEAD",
		"git branch", "git branch -a", "git branch -vv", "git branch --show-current", "git branch --list feature/*", "git branch -r --contains abc",
		"git branch --sort=-committerdate", "git branch --merged",
		"git rev-parse HEAD", "git rev-parse --show-toplevel", "git rev-parse --abbrev-ref HEAD", "git rev-parse --short=8 HEAD",
		"git ls-files", "git ls-files -o --exclude-standard", "git ls-files -m src", "git blame a.go", "git blame -L 1,20 a.go", "git blame -w -C -C a", "git --version",
		"pwd", "pwd -P", "echo hello world", "echo -n x", "echo -e a\\n", "printf %s x", "printf %s -v", "printf", "date", "date +%F", "date -u +%s", "date -d yesterday +%F",
		"date --iso-8601=seconds", "date -Iseconds", "uname -a", "whoami", "id -u", "which -a go", "type go", "stat -c %s a", "stat a", "file a", "file -b --mime-type a",
		"du -sh .", "du -h -d 1 src", "du --max-depth=2", "df -h", "sort a", "sort -u a b", "sort -k2,2 -t, a", "sort -t , -k 2n a", "sort -rn", "sort --key=2 --reverse",
		"uniq", "uniq -c", "uniq -c a", "uniq -f 1 a", "uniq --count a", "cut -d: -f1 a", "tr a-z A-Z", "diff a b", "diff -u a b", "diff -U3 a b", "diff --brief a b", "cmp a b", "cmp -s a b",
		"basename a/b .c", "dirname a/b", "realpath a", "readlink -f a", "true", "false", "true x", "test -f a", "test a = b", "[ -d a ]", "[ 1 -lt 2 ]", "env",
	}
	no := []string{
		"", "rm a", "sed -n 1p a", "awk {print} a", "node -e 1", "python -c 1", "python3 x.py", "npm test", "make", "sh -c ls", "bash", "xargs ls", "sudo ls", "cp a b", "tee a",
		"/bin/ls", "./ls", "LS", "ls.exe", "cd src", "export A=1", "eval ls", "exec ls", "source a", "less a", "more a", "vi a", "curl x", "touch a",
		"wc --files0-from=list", "wc --files0-from list", "wc -x a", "wc --line a",
		"grep -f pats a", "grep -f/etc/passwd a", "grep --file=x a", "grep -R x .", "grep --dereference-recursive x .", "grep --unknown x", "grep -rf pats a", "grep -e",
		"rg --pre cat x", "rg --pre=cat x", "rg --pre-glob *.x y", "rg --hostname-bin=x y", "rg --hostname-bin x y", "rg -z x", "rg --search-zip x", "rg -f pats", "rg -L x",
		"rg --follow x", "rg --ignore-file x y", "rg -nz x", "rg --type-add x:*.y z", "rg --pr cat x",
		"find . -exec rm {} ;", "find . -execdir ls ;", "find . -ok rm {} ;", "find . -okdir rm {} ;", "find . -delete", "find . -fprint out", "find . -fprint0 out",
		"find . -fprintf out %p", "find . -fls out", "find . -name -exec rm ;", "find -L . -name x", "find . -follow", "find -files0-from list", "find . -unknown", "find -D exec .",
		"find . -name x -delete", "find . -regex -delete", "find -f x",
		"git", "git push", "git commit -m x", "git checkout .", "git reset --hard", "git clean -fd", "git add .", "git stash", "git fetch", "git pull", "git clone x", "git config user.name",
		"git -c core.pager=x log", "git -c core.fsmonitor=x status", "git -C", "git -C sub push", "git --git-dir=x status", "git --git-dir x status", "git --exec-path=x status", "git --work-tree=/ status",
		"git -p log", "git --paginate log", "git --config-env=a=B status", "git --namespace=x log", "git --help log",
		"git diff --output=x", "git diff --output x", "git diff --ext-diff", "git diff -Oorder", "git diff -O order", "git diff --no-index a b", "git diff --textconv", "git diff --submodule=diff",
		"git log --output=x -p", "git log --ext-diff -p", "git log --show-signature", "git log --format=%G?", "git log --since --output=x", "git log -n --output=x", "git log --outpu=x",
		"git log --stdin", "git show --output=x", "git show --textconv",
		"git branch new", "git branch -d old", "git branch -D old", "git branch -m a b", "git branch -f a b", "git branch --delete x", "git branch -u x", "git branch --set-upstream-to=x",
		"git branch -c a b", "git branch --edit-description", "git branch -a new", "git branch -v new", "git branch -- --list", "git branch new -- --list", "git branch --sort --delete x",
		"git branch -l new", "git branch --unset-upstream", "git branch --contains abc new",
		"git rev-parse --parseopt", "git rev-parse --sq-quote x", "git ls-files -X file", "git ls-files --exclude-from=x", "git ls-files --with-tree=x", "git blame --contents f a",
		"git blame --ignore-revs-file f a", "git blame -S f a", "git submodule status", "git remote -v", "git grep -O x", "git difftool", "git status --unknown", "git --version status",
		"date -s tomorrow", "date --set=x", "date --set x", "date 01010000", "date -f file", "date --file=f", "date -r f", "date -us x", "date +%F 01010000",
		"printf -v PATH x", "printf -vPATH x", "file -C -m x", "file -f list", "file -z a", "file -m magic a", "file --compile", "file -s /dev/sda",
		"du --files0-from=x", "du -X f", "du --exclude-from=f", "du -L", "sort -o out a", "sort -oout a", "sort --output=x a", "sort --output x a", "sort --outp=x a",
		"sort --compress-program=x a", "sort -T /tmp a", "sort --files0-from=x", "sort -uo out a", "sort --random-source=x a", "sort -k -o out", "sort --temporary-directory=x",
		"uniq a b", "uniq -c a b", "uniq -- a b", "uniq -f 1 a b", "uniq --skip-fields 1 a b", "uniq -x a", "diff -l a b", "diff --paginate a b", "diff -X f a b", "diff --from-file=f a",
		"diff -r a b", "diff --recursive a b", "diff --exclude-from=f a b",
		"test -v x", "test -v a[$(id)]", "test -R x", "test `id`", "[ -v x ]", "[ -f a", "[", "test a$b", "env ls", "env A=1", "env -i", "env -u A ls", "printenv",
	}
	if len(yes)+len(no) < 250 {
		t.Errorf("only %d cases", len(yes)+len(no))
	}
	for _, line := range yes {
		if !isReadOnly(&Command{Words: strings.Fields(line)}) {
			t.Errorf("%q should be read-only", line)
		}
	}
	for _, line := range no {
		if isReadOnly(&Command{Words: strings.Fields(line)}) {
			t.Errorf("%q should not be read-only", line)
		}
	}
	for _, cmd := range []Command{
		{Words: []string{"ls"}, Opaque: true},
		{Words: []string{"ls"}, Env: []string{"LD_PRELOAD=x"}},
		{Words: []string{"git", "diff"}, Env: []string{"GIT_EXTERNAL_DIFF=x"}},
		{Words: []string{"git", "status"}, Unsafe: "its repository names a program"},
		// A file may be called --pre=sh, -delete or -o.
		{Words: []string{"rg", "x", "*"}, Globs: []int{2}},
		{Words: []string{"find", "*"}, Globs: []int{1}},
		{Words: []string{"find", "--", "*"}, Globs: []int{2}},
		{Words: []string{"sort", "*.txt"}, Globs: []int{1}},
		{Words: []string{"sort", "[-a]x"}, Globs: []int{1}},
		{Words: []string{"sort", "?o"}, Globs: []int{1}},
		{Words: []string{"sort", "-*"}, Globs: []int{1}},
		{Words: []string{"sort", "--r*"}, Globs: []int{1}},
		{Words: []string{"git", "diff", "*"}, Globs: []int{2}},
		{Words: []string{"uniq", "src/*"}, Globs: []int{1}},
		{Words: []string{"uniq", "--", "src/*"}, Globs: []int{2}},
		{Words: []string{"test", "-f", "src/*"}, Globs: []int{2}},
		{Words: []string{"date", "+*"}, Globs: []int{1}},
		{Words: []string{"l?"}, Globs: []int{0}},
		{Words: []string{"grep", "x"}, Globs: []int{7}},
	} {
		if isReadOnly(&cmd) {
			t.Errorf("%+v should not be read-only", cmd)
		}
	}
	for _, cmd := range []Command{
		{Words: []string{"git", "-C", "src", "status"}},
		{Words: []string{"[", "a b", "=", "", "]"}},
		{Words: []string{"cat", "*"}, Globs: []int{1}},
		{Words: []string{"ls", "*.go", "-l"}, Globs: []int{1}},
		{Words: []string{"grep", "x", "src/*.go"}, Globs: []int{2}},
		{Words: []string{"grep", "x", "--", "*.go"}, Globs: []int{3}},
		{Words: []string{"grep", "-r", "--include=*.go", "x", "."}, Globs: []int{2}},
		{Words: []string{"wc", "-l", "./*.go"}, Globs: []int{2}},
		{Words: []string{"find", "src/*", "-name", "*.go"}, Globs: []int{1}},
		{Words: []string{"git", "log", "--", "*.go"}, Globs: []int{3}},
		{Words: []string{"git", "diff", "src/*.go"}, Globs: []int{2}},
	} {
		if !isReadOnly(&cmd) {
			t.Errorf("%+v should be read-only", cmd)
		}
	}
}
