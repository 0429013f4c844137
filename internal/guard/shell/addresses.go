package shell

import (
	"strings"
)

// networkCommands use the network: always if the list is empty, else with one
// of the subcommands in it.
var networkCommands = map[string]string{
	"curl": "", "wget": "", "nc": "", "ncat": "", "netcat": "", "socat": "", "telnet": "", "ssh": "", "scp": "", "sftp": "", "ftp": "", "lftp": "", "tftp": "",
	"ping": "", "ping6": "", "dig": "", "nslookup": "", "host": "", "traceroute": "", "whois": "", "nmap": "", "http": "", "https": "", "xh": "", "aria2c": "", "axel": "",
	"lynx": "", "w3m": "", "links": "", "mosh": "", "rclone": "", "mail": "", "sendmail": "", "gh": "", "aws": "", "gcloud": "", "az": "", "gsutil": "",
	"apt": "", "apt-get": "", "yum": "", "dnf": "", "apk": "", "brew": "", "pacman": "", "snap": "", "npx": "", "bunx": "", "pipx": "", "uvx": "",
	"git":  "clone fetch pull push ls-remote svn p4 send-email request-pull",
	"npm":  "install i ci add publish update up upgrade outdated view info audit login exec x init create search dist-tag access owner token whoami star ping fund",
	"yarn": "install add publish upgrade up info npm dlx create audit outdated global", "pnpm": "install i add publish update up dlx create exec fetch outdated audit import",
	"bun": "install add x update create upgrade publish", "pip": "install download index search", "pip3": "install download index search",
	"uv":     "pip add sync tool run lock python publish",
	"poetry": "install add update publish lock search", "conda": "install create update search", "gem": "install update push fetch", "bundle": "install update add",
	"cargo": "install fetch update publish add search login", "go": "get install", "docker": "pull push run build login search compose", "podman": "pull push run build login search",
	"kubectl": "", "helm": "", "terraform": "init apply plan", "vagrant": "up", "composer": "install require update", "mvn": "", "gradle": "", "openssl": "s_client",
}

// addresses flags network programs and lists the addresses they are given.
func (a *analyser) addresses(c *call) {
	subs, network := networkCommands[c.name]
	if network && (subs == "" || a.usesSubcommand(c, subs)) {
		a.flag(c, FlagNetwork)
	}
	switch c.name {
	case "echo", "printf", ":", "true", "false", "export", "declare", "typeset", "local", "readonly", "test", "[", "alias", "cat", "head", "tail", "ls", "wc",
		"grep", "egrep", "fgrep", "rg", "ag", "ack", "sed", "gsed", "awk", "gawk", "mawk", "nawk", "jq", "yq", "tr", "cut", "sort", "uniq", "find", "expr":
		return // an address in their arguments is only text
	case "curl":
		a.transfer(c, curlSpec)
		return
	case "wget":
		a.transfer(c, wgetSpec)
		return
	case "nc", "ncat", "netcat", "telnet":
		a.connection(c)
	case "git":
		if hasOption(c.args, "commit", "tag") && !hasOption(c.args, "push", "fetch", "clone", "pull") {
			return // it may be in a message
		}
	}
	for i, w := range c.args {
		if w.dynamic || c.name == "git" && i > 0 && isMessage(c.args[i-1].text) {
			continue
		}
		a.urlsIn(w.text)
		if isRemotePath(w.text) && (strings.HasPrefix(w.text, "git@") || takesRemotePaths(c.name)) {
			a.flag(c, FlagNetwork)
			a.url(w.text)
		}
		if c.name == "socat" {
			a.socat(w.text)
		}
	}
}

func (a *analyser) usesSubcommand(c *call, subs string) bool {
	for i, w := range c.args {
		if w.dynamic {
			return true
		}
		if strings.HasPrefix(w.text, "-") || i > 0 && has("-C -c --prefix --cwd --dir --git-dir --work-tree", c.args[i-1].text) {
			continue
		}
		if c.name == "go" && w.text == "mod" {
			return hasOption(c.args, "download", "tidy", "get")
		}
		if c.name == "git" && (w.text == "remote" || w.text == "submodule") {
			return hasOption(c.args, "update", "show", "prune", "add", "sync")
		}
		return has(subs, w.text)
	}
	return c.name == "yarn" // alone it installs
}

func isMessage(option string) bool {
	return option == "--message" || len(option) > 1 && option[0] == '-' && option[1] != '-' && option[len(option)-1] == 'm'
}

func takesRemotePaths(name string) bool {
	switch name {
	case "git", "scp", "rsync", "sftp":
		return true
	}
	return false
}

// isRemotePath recognises host:path and user@host:path.
func isRemotePath(s string) bool {
	colon := strings.IndexByte(s, ':')
	if colon < 2 || strings.ContainsAny(s[:colon], "/\\ \t\n=*?[~^{}") || strings.HasPrefix(s[colon:], "://") || s[0] == '-' || s[0] == ':' {
		return false
	}
	host := s[:colon]
	// HEAD:file and main:main are revisions; a host has a user or a dot.
	return strings.Contains(host, "@") && !strings.HasSuffix(host, "@") || strings.Contains(host, ".") && !strings.HasPrefix(host, ".")
}

// isAddress reports a word that is an address rather than a path.
func isAddress(s string) bool {
	i := strings.Index(s, "://")
	if i > 0 && schemeStart(s, i) == 0 {
		return !strings.EqualFold(s[:i], "file")
	}
	return isRemotePath(s) && strings.Contains(s, "@")
}

// urlsIn lists the URLs inside a text. A URL of a file is a path.
func (a *analyser) urlsIn(text string) {
	for from := 0; ; {
		i := strings.Index(text[from:], "://")
		if i < 0 {
			return
		}
		at := from + i
		start := schemeStart(text, at)
		end := at + len("://")
		for end < len(text) && strings.IndexByte(" \t\n\"'<>`", text[end]) < 0 {
			end++
		}
		from = end
		if start == at {
			continue
		}
		url := text[start:end]
		if strings.EqualFold(text[start:at], "file") {
			a.path(Path{Text: url, Certain: true})
			continue
		}
		a.url(url)
	}
}

// schemeStart goes back from "://" to where the scheme begins.
func schemeStart(s string, at int) int {
	start := at
	for start > 0 {
		c := s[start-1]
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '+' && c != '-' && c != '.' {
			break
		}
		start--
	}
	for start < at && (s[start]|0x20 < 'a' || s[start]|0x20 > 'z') {
		start++
	}
	return start
}

func (a *analyser) url(u string) { a.out.URLs = appendNew(a.out.URLs, u) }

var (
	curlSpec = transferSpec{
		shortValues: "AbcCdDeEFhHKmoPQrtTuUwxXyYz", files: "-d -F -T -b --data --data-binary --data-ascii --data-urlencode --data-raw --json --form --upload-file --cookie",
		urls: "--url -x --proxy --preproxy --socks4 --socks4a --socks5 --socks5-hostname --doh-url --referer-url",
		values: `--user-agent --cookie --cookie-jar --continue-at --data --data-ascii --data-binary --data-raw --data-urlencode --dump-header --cert --form --form-string
			--header --config --max-time --output --output-dir --ftp-port --quote --range --telnet-option --upload-file --user --proxy-user --write-out --request --speed-limit
			--speed-time --time-cond --referer --retry --retry-delay --retry-max-time --connect-timeout --cacert --capath --key --key-type --cert-type --ciphers --interface
			--limit-rate --local-port --max-filesize --max-redirs --noproxy --resolve --connect-to --dns-servers --unix-socket --stderr --trace --trace-ascii --tls-max --json
			--netrc-file --proto --proto-default --proxy-header --rate --parallel-max --variable --expand-url --expand-data --aws-sigv4 --oauth2-bearer --pinnedpubkey --pass --create-file-mode --haproxy-clientip --hostpubmd5`,
		redirects: "--resolve --connect-to --dns-servers --unix-socket --abstract-unix-socket -K --config --proto-default --expand-url",
	}
	wgetSpec = transferSpec{
		shortValues: "aAeiDIlnoOPQRtTUwXB",
		urls:        "--base --referer-url", files: "--post-file --body-file",
		values: `--append-output --output-file --output-document --directory-prefix --execute --input-file --tries --timeout --dns-timeout --connect-timeout --read-timeout --wait
			--waitretry --quota --bind-address --limit-rate --user --password --header --user-agent --post-data --post-file --body-data --body-file --method --level --accept --reject
			--domains --exclude-domains --include-directories --exclude-directories --max-redirect --referer --load-cookies --save-cookies --ca-certificate --certificate --private-key --config --cut-dirs --progress --start-pos`,
		redirects: "-e --execute -i --input-file --config",
	}
)

// transferSpec says how curl and wget read their arguments: everything that is
// not an option or its value is an address, even without a scheme.
type transferSpec struct {
	shortValues string
	values      string // long options whose value is something else
	urls        string // options whose value is an address
	files       string // options whose value may name a file with @
	redirects   string // options that send requests elsewhere than the address says
}

func (a *analyser) transfer(c *call, spec transferSpec) {
	for i := 0; i < len(c.args); i++ {
		w := c.args[i]
		if w.dynamic {
			continue
		}
		text := w.text
		if len(text) < 2 || text[0] != '-' {
			if strings.HasPrefix(strings.ToLower(text), "file:") {
				a.path(Path{Text: text, Certain: true})
			} else if text != "" && text != "-" {
				a.url(text)
			}
			continue
		}
		name, value, glued := strings.Cut(text, "=")
		takes := has(spec.values, name) || has(spec.urls, name)
		if text[1] != '-' {
			name, value, glued, takes = spec.short(text)
		}
		if has(spec.redirects, name) {
			a.dangerous(c.name + " " + name + " decides where requests go")
		}
		if takes && !glued {
			if i++; i >= len(c.args) || c.args[i].dynamic {
				continue
			}
			value = c.args[i].text
		}
		switch {
		case has(spec.urls, name) && value != "":
			a.url(value)
		case has(spec.files, name):
			if at := strings.IndexAny(value, "@<"); at >= 0 && at+1 < len(value) {
				file, _, _ := strings.Cut(value[at+1:], ";")
				if file != "" {
					a.path(Path{Text: file, Certain: at == 0 || value[at-1] == '='})
				}
			}
		}
	}
}

// short reads a cluster of short options up to the first that takes a value.
func (spec transferSpec) short(text string) (name, value string, glued, takes bool) {
	for i := 1; i < len(text); i++ {
		if strings.IndexByte(spec.shortValues, text[i]) >= 0 {
			return "-" + text[i:i+1], text[i+1:], i+1 < len(text), true
		}
	}
	return text, "", false, false
}

// socat reads addresses such as TCP:host:port.
func (a *analyser) socat(text string) {
	kind, rest, ok := strings.Cut(text, ":")
	if !ok || strings.Contains(strings.ToUpper(kind), "LISTEN") {
		return
	}
	switch strings.TrimRight(strings.ToUpper(strings.SplitN(kind, "-", 2)[0]), "46") {
	case "TCP", "UDP", "SSL", "OPENSSL", "SOCKS", "PROXY", "SCTP":
		address, _, _ := strings.Cut(rest, ",")
		a.url("tcp://" + address)
	}
}

// connection reads host and port of nc and telnet.
func (a *analyser) connection(c *call) {
	spec := optionSpec{flags: "46bCcDdFhkLlNnrStUuvZzR", values: "eGgIiMmOopPqsTVWwXx"}
	_, rest, known := spec.parse(c.args)
	if !known || len(rest) == 0 || anyDynamic(rest[:min(2, len(rest))]) {
		return
	}
	host := rest[0].text
	if strings.Count(host, ":") > 1 {
		host = "[" + host + "]"
	}
	if len(rest) > 1 {
		host += ":" + rest[1].text
	}
	a.url("tcp://" + host)
}
