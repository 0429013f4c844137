package sandbox

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/program"
)

// toolchain is a place of the user's that builds read: a directory that a
// variable names or that is at its usual place in the home, or parts of it.
type toolchain struct {
	variable, usual string
	parts           []string // "" is all of it
}

var toolchains = []toolchain{
	{"GOPATH", "go", []string{"bin", "pkg/mod"}},
	{"GOMODCACHE", "", nil},
	{"GOROOT", "", nil},
	{"CARGO_HOME", ".cargo", []string{"bin", "registry", "git"}},
	{"RUSTUP_HOME", ".rustup", nil},
	{"npm_config_cache", ".npm", []string{"_cacache"}},
	{"PNPM_HOME", ".local/share/pnpm", nil},
	{"", ".cache/pnpm", nil},
	{"", ".cache/yarn", nil},
	{"", ".yarn/berry/cache", nil},
	{"", ".bun", nil},
	{"", ".deno", nil},
	{"", ".cache/deno", nil},
	{"COREPACK_HOME", ".cache/node/corepack", nil},
	{"NVM_DIR", ".nvm", nil},
	{"FNM_DIR", ".local/share/fnm", nil},
	{"VOLTA_HOME", ".volta", nil},
	{"PYENV_ROOT", ".pyenv", nil},
	{"", ".local/share/uv", nil},
	{"", ".local/pipx", nil},
	{"PIPX_HOME", ".local/share/pipx", nil},
	{"ASDF_DATA_DIR", ".asdf", nil},
	{"MISE_DATA_DIR", ".local/share/mise", nil},
	{"SDKMAN_DIR", ".sdkman", []string{"candidates"}},
	{"RBENV_ROOT", ".rbenv", nil},
	{"GEM_HOME", ".gem", []string{"ruby"}},
	{"", ".m2", []string{"repository", "wrapper"}},
	{"GRADLE_USER_HOME", ".gradle", []string{"caches", "wrapper", "jdks"}},
	{"NUGET_PACKAGES", ".nuget/packages", nil},
	{"", ".dotnet", nil},
	{"PLAYWRIGHT_BROWSERS_PATH", ".cache/ms-playwright", nil},
	{"", ".local/bin", nil},
	{"", ".local/lib", nil},
	{"JAVA_HOME", "", nil},
}

// settings are files of package managers. They say where packages come from,
// and are shown unless they hold a credential.
var settings = []string{".npmrc", ".cargo/config.toml", ".cargo/config", ".config/go/env", ".config/pip/pip.conf", ".pip/pip.conf", ".config/uv/uv.toml", ".yarnrc.yml"}

var credential = regexp.MustCompile(`(?i)token|passw|secret|_auth|credential|://[^/\s]*@`)

// certificates are files that programs refuse to start without if a variable
// names them.
var certificates = []string{"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT", "NIX_SSL_CERT_FILE"}

// parts of an installation, and what else may lie in a directory that is one.
var (
	installed = strings.Fields("bin sbin lib lib32 lib64 libexec share include opt Cellar pkg src node_modules")
	besides   = regexp.MustCompile(`(?i)^(man|doc|docs|etc|api|misc|test|tests|codereview\.cfg|go\.env|version|pyvenv\.cfg|(readme|license|licence|changelog|changes|contributing|security|patents|authors|notice|copying).*)$`)
)

// tools shows toolchains and package caches, and leads what builds write to
// the kept directory.
func (p *planner) tools() {
	for _, t := range toolchains {
		p.show(p.dir(t.variable, t.usual), t.parts...)
	}
	for _, name := range settings {
		file := filepath.Join(p.home, name)
		if text, err := os.ReadFile(file); err == nil && !credential.Match(text) {
			p.show(file)
		}
	}
	for _, name := range certificates {
		p.show(program.Variable(p.env, name))
	}
	var path []string
	for _, dir := range filepath.SplitList(program.Variable(p.env, "PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		dir = resolved(dir)
		path = append(path, dir)
		p.installation(dir)
	}
	p.conf.Env = append(p.conf.Env, "PATH="+strings.Join(path, string(filepath.ListSeparator)), "HOME="+p.home)
	p.caches()
}

// dir is the directory that a variable names, or the usual one in the home;
// "" if there is neither.
func (p *planner) dir(variable, usual string) string {
	dir, _, _ := strings.Cut(program.Variable(p.env, variable), string(filepath.ListSeparator)) // GOPATH is a list
	if dir == "" && usual != "" && p.home != "" {
		dir = filepath.Join(p.home, usual)
	}
	return dir
}

// show lets a directory or a file be read, if it is there and holds neither
// the home nor the workspace.
func (p *planner) show(at string, parts ...string) {
	if !filepath.IsAbs(at) {
		return
	}
	if parts == nil {
		parts = []string{""}
	}
	for _, part := range parts {
		dir, err := filepath.EvalSymlinks(filepath.Join(at, part))
		if err != nil || Within(p.home, dir) || Within(p.root, dir) || Within(p.kept, dir) || Within(dir, p.root) {
			continue
		}
		if !slices.Contains(p.conf.Read, dir) {
			p.conf.Read = append(p.conf.Read, dir)
		}
	}
}

// installation shows a directory of PATH and what belongs to its programs: all
// of the directory above it if that is nothing but an installation, else the
// parts that are one.
func (p *planner) installation(dir string) {
	p.show(dir)
	above := filepath.Dir(dir)
	if filepath.Base(dir) == ".bin" && filepath.Base(above) == "node_modules" {
		p.show(above)
		return
	}
	entries, err := os.ReadDir(above)
	if name := filepath.Base(dir); err != nil || name != "bin" && name != "sbin" || slices.Contains([]string{p.home, filepath.Join(p.home, ".local")}, above) {
		return
	}
	var parts []string
	pure := true
	for _, e := range entries {
		if slices.Contains(installed, e.Name()) {
			parts = append(parts, e.Name())
		} else if !besides.MatchString(e.Name()) {
			pure = false
		}
	}
	if pure {
		parts = nil
	}
	if pure || above != filepath.Join(p.home, "go") && above != filepath.Join(p.home, ".cargo") {
		p.show(above, parts...)
	}
}

// caches leads builds to directories that are kept, and lets what must write
// beside a cache do so there.
func (p *planner) caches() {
	at := func(name string) string { return filepath.Join(p.kept, name) }
	set := func(name, value string) { p.conf.Env = append(p.conf.Env, name+"="+value) }
	set("XDG_CACHE_HOME", at("xdg"))
	set("GOCACHE", at("go-build"))
	set("PIP_CACHE_DIR", at("pip"))
	set("CCACHE_DIR", at("ccache"))
	if runtime.GOOS == "darwin" {
		_ = os.Mkdir(at("tmp"), 0o700) // if it fails, so do programs that need it
		set("TMPDIR", at("tmp"))
	}
	if p.network {
		set("npm_config_cache", at("npm"))
		set("GOMODCACHE", at("go-mod"))
		set("CARGO_HOME", at("cargo"))
	} else {
		set("npm_config_cache", at("npm-offline"))
		p.link("npm-offline", p.dir("npm_config_cache", ".npm"), "_cacache/content-v2", "_cacache/index-v5")
		set("CARGO_HOME", at("cargo-offline"))
		p.link("cargo-offline", p.dir("CARGO_HOME", ".cargo"), "config.toml", "registry/cache", "registry/index", "git/db")
	}
	if caches := filepath.Join(p.home, ".gradle", "caches"); isDir(caches) {
		set("GRADLE_USER_HOME", at("gradle"))
		set("GRADLE_RO_DEP_CACHE", caches)
	}
	for _, name := range []string{"COREPACK_HOME=.cache/node/corepack", "PLAYWRIGHT_BROWSERS_PATH=.cache/ms-playwright"} {
		variable, dir, _ := strings.Cut(name, "=")
		if dir = filepath.Join(p.home, dir); isDir(dir) && program.Variable(p.env, variable) == "" {
			set(variable, dir)
		}
	}
}

// link makes a directory in the kept one that looks like the user's, but in
// which new files can be made beside the parts that are only read. Programs
// may have put links there, which are not followed out of it. What cannot be
// made is missing inside, and the program that needs it says so.
func (p *planner) link(name, own string, parts ...string) {
	kept, err := os.OpenRoot(p.kept)
	if err != nil {
		return
	}
	defer func() { _ = kept.Close() }() // it is only a handle
	for _, part := range parts {
		at := filepath.Join(name, part)
		if _, err := os.Lstat(filepath.Join(own, part)); err == nil && kept.MkdirAll(filepath.Dir(at), 0o700) == nil {
			_ = kept.Symlink(filepath.Join(own, part), at) // it is there already, or builds do without the cache
		}
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// rootOnly lists what in a directory of the system only its owner may read.
// Programs of root would be that owner inside.
func rootOnly(dir string, levels int) []string {
	entries, err := os.ReadDir(dir)
	if err != nil || levels == 0 {
		return nil
	}
	var out []string
	for _, e := range entries {
		at := filepath.Join(dir, e.Name())
		info, err := e.Info()
		switch {
		case err != nil || info.Mode()&os.ModeSymlink != 0:
		case info.Mode().Perm()&0o004 == 0 && (info.IsDir() || info.Size() > 0):
			out = append(out, at)
		case info.IsDir():
			out = append(out, rootOnly(at, levels-1)...)
		}
	}
	return out
}
