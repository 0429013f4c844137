package shell

import "strings"

// usage says what the operands of a command are.
type usage struct {
	text     bool   // no operand is a path
	pattern  bool   // the first operand is a pattern or a program, unless an option gives it
	skip     int    // leading operands that are no paths: a mode, a subcommand
	most     int    // operands behind these are no paths; 0 for no limit
	commands bool   // operands are mostly something else than paths
	writes   writes // which operands it writes
	values   string // options with a value that is no path, separated by spaces
	outputs  string // options with a value that is written
	inputs   string // options with a value that is read
	dirs     string // options that name the directory which paths are relative to
	stops    string // options behind which a command begins
	flags    string // letters of options that are known to take no value
}

type writes int

const (
	writesNone writes = iota
	writesAll
	writesLast
)

// usages are the commands whose arguments are known. Options that take a value
// which is no path must be exact: a word that is skipped wrongly is a path that
// is not checked.
var usages = func() map[string]usage {
	table := map[string]usage{
		"date":     {text: true, inputs: "-r --reference -f --file"},
		"dig":      {text: true, inputs: "-f -k"},
		"dotenv":   {text: true, inputs: "-e -f --file"},
		"hash":     {text: true, inputs: "-p"},
		"hostname": {text: true, inputs: "-F --file"},
		"enable":   {text: true, inputs: "-f"},
		"ssh":      {text: true, inputs: "-i -F -E -S"},
		"curl": {text: true,
			outputs: "-o --output -D --dump-header -c --cookie-jar --trace --trace-ascii --output-dir --stderr",
			inputs:  "-T --upload-file -K --config -E --cert --key --cacert --netrc-file -b --cookie"},
		"wget": {text: true,
			outputs: "-O --output-document -P --directory-prefix -o --output-file -a --append-output",
			inputs:  "-i --input-file --post-file --body-file --load-cookies"},
		"xargs gxargs parallel": {text: true, inputs: "-a --arg-file"},
		"env":                   {text: true, inputs: "-C --chdir"},
		"sudo":                  {text: true, inputs: "-D --chdir"},
		"doas":                  {text: true, inputs: "-C"},
		"time":                  {text: true, outputs: "-o --output"},
		"strace":                {text: true, outputs: "-o"},
		// Options of grep and rg that take a value must all be here, since these
		// may pass as commands that only read: without them a pattern is taken for
		// a path, and the directory that is searched is not seen.
		"grep egrep fgrep zgrep ggrep rgrep": {pattern: true, flags: "EFGPiyvwxcLloqshHnTZabzrRIU0123456789",
			values: "-e --regexp -m --max-count -A --after-context -B --before-context -C --context --include --exclude --exclude-dir -d --directories -D --devices --label --binary-files",
			inputs: "-f --file --exclude-from"},
		"rg": {pattern: true, flags: "isSvwxFPUnNHIlcoquaph.0b",
			values: "-e --regexp -m --max-count -A --after-context -B --before-context -C --context -g --glob --iglob -t --type -T --type-not -j --threads -r --replace --sort --sortr" +
				" --pre -d --max-depth -M --max-columns --max-filesize -E --encoding --color --colors --context-separator",
			inputs: "-f --file --ignore-file"},
		"ag ack yq":              {pattern: true},
		"sed gsed":               {pattern: true, values: "-e --expression", inputs: "-f --file", flags: "nrsuzE"},
		"awk gawk mawk nawk":     {pattern: true, values: "-v -F --assign --field-separator -e --source", inputs: "-f --file"},
		"jq":                     {pattern: true, values: "--arg --argjson --indent", inputs: "-f --from-file --slurpfile --rawfile -L"},
		"perl":                   {values: "-e -E", flags: "nplaiwsSt0"},
		"python python3":         {values: "-c -m -W -X"},
		"node":                   {values: "-e -p --eval --print", inputs: "-r --require --import"},
		"ruby":                   {values: "-e", flags: "nplaiw"},
		"php":                    {values: "-r"},
		"bash sh dash ash rbash": {values: "-c -o -O", inputs: "--rcfile --init-file", flags: "abefhiklmnprstuvxBCDEHPT"},
		"tar gtar bsdtar":        {writes: writesAll, outputs: "-f --file", dirs: "-C --directory", flags: "cxtruAvzjJpkOhP"},
		"find": {values: "-name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type -size -mtime -atime -ctime -mmin -amin -cmin -perm -user -group -uid -gid -maxdepth -mindepth -printf -newermt -lname -ilname -fstype -links -inum",
			outputs: "-fprint -fprint0 -fls -fprintf",
			inputs:  "-newer -anewer -cnewer -samefile -files0-from"},
		"fd fdfind":                {pattern: true, values: "-e --extension -t --type -E --exclude -d --max-depth", stops: "-x --exec -X --exec-batch"},
		"script":                   {writes: writesAll, values: "-c --command"},
		"flock":                    {writes: writesAll, most: 1, values: "-w -E -c --command"},
		"test [":                   {values: "-eq -ne -lt -le -gt -ge = != == -n -z"},
		"cut":                      {flags: "sz", values: "-d -f -c -b --delimiter --fields --output-delimiter"},
		"head":                     {values: "-n -c --lines --bytes"},
		"tail":                     {values: "-n -c --lines --bytes --pid"},
		"sort":                     {flags: "bdfghiMnRrVcCmsuz", values: "-t -k -S --key --field-separator", outputs: "-o --output", inputs: "-T --files0-from"},
		"uniq":                     {values: "-f -s -w"},
		"diff":                     {values: "-U -C -I -x --label -L", outputs: "--output"},
		"tree":                     {values: "-L -I -P", outputs: "-o"},
		"du":                       {values: "-d --max-depth -t --exclude"},
		"ls":                       {values: "-I --hide --ignore -w"},
		"stat":                     {values: "-c --format"},
		"paste":                    {values: "-d"},
		"xxd":                      {values: "-l -s -c -g"},
		"od":                       {values: "-A -t -N -j"},
		"column":                   {values: "-s -o -N"},
		"wc":                       {inputs: "--files0-from"},
		"touch":                    {writes: writesAll, values: "-d -t --date", inputs: "-r --reference"},
		"mkdir":                    {writes: writesAll, values: "-m --mode"},
		"shred":                    {writes: writesAll, values: "-n -s"},
		"truncate":                 {writes: writesAll, values: "-s --size", inputs: "-r --reference"},
		"mkfifo":                   {writes: writesAll, values: "-m"},
		"mktemp":                   {writes: writesAll, outputs: "-p --tmpdir"},
		"chmod chown chgrp chattr": {writes: writesAll, skip: 1},
		"setfacl":                  {writes: writesAll, values: "-m -x"},
		"mv":                       {writes: writesAll, values: "-S --suffix", outputs: "-t --target-directory"},
		"cp":                       {writes: writesLast, values: "-S --suffix", outputs: "-t --target-directory"},
		"install":                  {writes: writesLast, values: "-m -o -g -S --mode --owner --group", outputs: "-t --target-directory"},
		"ln":                       {writes: writesLast, values: "-S", outputs: "-t --target-directory"},
		"link":                     {writes: writesLast},
		"rsync":                    {writes: writesLast, values: "-e --rsh --exclude --include --max-size", inputs: "--files-from --exclude-from --include-from"},
		"scp":                      {writes: writesLast, values: "-P -l -o -S -c", inputs: "-i -F"},
		"zstd":                     {writes: writesAll, outputs: "-o"},
		"split":                    {writes: writesLast, values: "-b -l -n -a"},
		"csplit":                   {outputs: "-f"},
		"patch":                    {writes: writesAll, values: "-p -F", outputs: "-o -r -d --output --directory", inputs: "-i --input"},
		"unzip":                    {outputs: "-d", values: "-x"},
		"git": {skip: 1, commands: true, flags: "aqsv",
			values:  "-m --message --author --date --since --until --grep --depth --branch",
			outputs: "--output -o --output-directory",
			inputs:  "-C --git-dir --work-tree -F --file --pathspec-from-file", dirs: "-C"},
		"npm":                   {skip: 1, commands: true, inputs: "--prefix -C"},
		"pnpm":                  {skip: 1, commands: true, inputs: "-C --dir"},
		"yarn":                  {skip: 1, commands: true, inputs: "--cwd"},
		"npx docker gh kubectl": {skip: 1, commands: true},
		"go": {skip: 1, commands: true, dirs: "-C",
			values:  "-run -bench -tags -ldflags -gcflags -count -timeout -p -parallel -exec -toolexec",
			inputs:  "-C",
			outputs: "-o -coverprofile -cpuprofile -memprofile -outputdir"},
		"cargo":                                 {skip: 1, commands: true, values: "-p --package --features --bin", outputs: "--target-dir", inputs: "--manifest-path"},
		"make":                                  {commands: true, inputs: "-f --file -I -C --directory", dirs: "-C --directory"},
		"cmake":                                 {values: "-G -D", outputs: "-B --build", inputs: "-S"},
		"pip":                                   {skip: 1, commands: true, inputs: "-r -c", outputs: "-t --target"},
		"gcc cc clang g++ clang++ c++ ld rustc": {outputs: "-o --out-dir", values: "-D -l -std -x --edition --crate-type"},
		"tsc":                                   {outputs: "--outDir --outFile", inputs: "-p --project"},
		"eslint":                                {values: "--ext --rule", outputs: "-o --output-file", inputs: "-c --config"},
		"base64":                                {values: "-w"},
		"openssl":                               {skip: 1, commands: true, outputs: "-out -keyout", inputs: "-in -inkey"},
		"pytest":                                {values: "-k -m", outputs: "--basetemp"},
		"jest":                                  {values: "-t"},
		"pandoc":                                {values: "-f -t", outputs: "-o --output"},
	}
	table[textCommands], table[fileCommands], table[writeCommands] = usage{text: true}, usage{}, usage{writes: writesAll}
	m := map[string]usage{}
	for names, u := range table {
		for name := range strings.FieldsSeq(names) {
			m[name] = u
		}
	}
	return m
}()

const (
	// These take no paths at all.
	textCommands = `: echo printf true false expr tr seq sleep kill type which whereis basename dirname let yes export declare typeset local readonly unset set shopt alias
		unalias trap eval read exit return break continue shift wait umask ulimit getopts mapfile readarray jobs pgrep ps printenv uname whoami id
		ping nslookup host nc ncat netcat telnet watch nohup nice ionice timeout gtimeout stdbuf setsid busybox command builtin exec su runuser
		at [[`
	// All operands of these are files that they read.
	fileCommands = `cat less more file md5sum sha1sum sha256sum cksum readlink realpath cmp comm nl tac rev strings hexdump zcat bat source . open xdg-open gofmt prettier`
	// All operands of these are files that they write.
	writeCommands = `rm rmdir unlink tee mknod gzip gunzip bzip2 bunzip2 xz unxz zip ed ex vim nano`
)
