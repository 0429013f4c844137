package shell

import (
	"regexp"
	"strings"
)

// socatHost finds the host and port of an address such as TCP:host:port.
var socatHost = regexp.MustCompile(`(?i)^(?:TCP|UDP|SSL|OPENSSL|SOCKS|PROXY|SCTP)[46]?[A-Z]*(?:-CONNECT)?:([^,]+)`)

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
	offline := subs != "" && hasOption(c.args, "--offline", "--no-index") // of package managers
	if network && !offline && (subs == "" || a.usesSubcommand(c, subs)) {
		a.out.Commands[c.index].Network = true
	}
	switch c.name {
	case "echo", "printf", ":", "true", "false", "export", "declare", "typeset", "local", "readonly", "test", "[", "alias", "cat", "head", "tail", "ls", "wc",
		"grep", "egrep", "fgrep", "rg", "ag", "ack", "sed", "gsed", "awk", "gawk", "mawk", "nawk", "jq", "yq", "tr", "cut", "sort", "uniq", "find", "expr":
		return // an address in their arguments is only text
	case "curl", "wget":
		a.transfer(c)
		return
	case "ssh", "mosh", "nc", "ncat", "netcat", "telnet":
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
			a.out.Commands[c.index].Network = true
			a.url(w.text)
		}
		if m := socatHost.FindStringSubmatch(w.text); c.name == "socat" && m != nil {
			a.url("tcp://" + m[1])
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

func takesRemotePaths(name string) bool { return has("git scp rsync sftp", name) }

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

// transferOptions are the options of curl and wget that are known: those with a
// value that is no address, and those without one. Others may decide where a
// request goes.
var transferOptions = map[string]struct{ values, letters, flags string }{
	"curl": {"-o -H -d -X -u -A -m -w -F -b -c -e -T -D -E -C -r -y -Y -z --output --output-dir --header --data --data-raw --data-ascii --data-binary --data-urlencode --json --request --user " +
		"--user-agent --max-time --write-out --form --form-string --cookie --cookie-jar --referer --retry --retry-delay --connect-timeout --upload-file --dump-header --cacert --cert --key",
		"sSLfkvigGIOJRN#aBjlnpqZ46",
		"--silent --show-error --location --fail --insecure --verbose --include --head --get --remote-name --remote-header-name --compressed --globoff --no-buffer --create-dirs --http1.1 --http2"},
	"wget": {"-O -o -a -P -t -T -U -w -Q --output-document --output-file --append-output --directory-prefix --tries --timeout --user-agent --header --post-data --post-file --body-file --user --password",
		"qcNSvbdrpkKEHLmn46", "--quiet --continue --no-verbose --show-progress --no-check-certificate --spider --recursive --no-parent --mirror"},
}

// transfer reads the arguments of curl and wget: everything that is not an
// option or its value is an address, even without a scheme.
func (a *analyser) transfer(c *call) {
	known := transferOptions[c.name]
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
		if text[1] != '-' { // letters, of which the last may have a value
			rest := strings.TrimLeft(text[1:], known.letters)
			if rest == "" {
				continue
			}
			name, value, glued = "-"+rest[:1], rest[1:], len(rest) > 1
		}
		switch {
		case has(known.flags, name):
			continue
		case !has(known.values, name):
			a.dangerous(c.name + " " + name + " may decide where requests go")
			if glued {
				a.urlsIn(value)
				if strings.Contains(value, ".") {
					a.url(value)
				}
			}
			continue // the next word counts as an address
		case !glued:
			if i++; i >= len(c.args) || c.args[i].dynamic {
				continue
			}
			value = c.args[i].text
		}
		if at := strings.IndexAny(value, "@<"); at >= 0 && at+1 < len(value) && !has("-H --header -u --user -A --user-agent -w --write-out", name) {
			if file, _, _ := strings.Cut(value[at+1:], ";"); file != "" {
				a.path(Path{Text: file, Certain: at == 0 || value[at-1] == '='})
			}
		}
	}
}

// connection reads the host and the port of ssh, nc and telnet.
func (a *analyser) connection(c *call) {
	spec := optionSpec{flags: "46bCcDdFhkLlNnrStUuvZzR", values: "eGgIiMmOopPqsTVWwXx"}
	scheme := "tcp://"
	if c.name == "ssh" || c.name == "mosh" {
		spec, scheme = optionSpec{flags: "1246AaCfGgKkMNnqsTtVvXxYy", values: "BbcDEeFIiJLlmOoPpQRSWw"}, "ssh://"
	}
	opts, rest, known := spec.parse(c.args)
	if !known || len(rest) == 0 || rest[0].dynamic {
		return
	}
	host := rest[0].text
	if strings.Contains(host, "://") {
		return // listed like any other
	}
	if strings.Count(host, ":") > 1 {
		host = "[" + host + "]"
	}
	if port, ok := find(opts, "-p"); ok && scheme == "ssh://" && !port.dynamic {
		host += ":" + port.text
	} else if scheme == "tcp://" && len(rest) > 1 && !rest[1].dynamic {
		host += ":" + rest[1].text
	}
	a.url(scheme + host)
}
