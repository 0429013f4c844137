package sandbox

import (
	"archive/zip"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/program"
)

// projects are small ones, with what people run in them. All of it works
// without a network and with the caches of the user who runs the tests.
var projects = map[string]struct {
	needs []string
	files map[string]string
	lines []string
}{
	"go": {[]string{"go", "gofmt"}, map[string]string{
		"go.mod":    "module example.com/m\n\ngo 1.24\n",
		"m.go":      "package m\n\nimport \"os\"\n\nfunc Home() bool { _, err := os.Stat(os.Getenv(\"HOME\") + \"/.netrc\"); return err == nil }\n",
		"m_test.go": "package m\n\nimport \"testing\"\n\nfunc TestHome(t *testing.T) {\n\tt.TempDir()\n\tif Home() {\n\t\tt.Error(\"seen\")\n\t}\n}\n",
	}, []string{"go build ./...", "go test ./...", "go vet ./...", "gofmt -w .", "go env GOCACHE", "go mod tidy", "go run . 2>&1 | grep 'not a main package'"}},
	"node": {[]string{"node", "npm"}, map[string]string{
		"package.json":      `{"name":"m","version":"1.0.0","scripts":{"test":"node test.js","build":"node -e 'require(\"fs\").writeFileSync(\"out\",\"x\")'"}}`,
		"package-lock.json": `{"name":"m","version":"1.0.0","lockfileVersion":3,"requires":true,"packages":{"":{"name":"m","version":"1.0.0"}}}`,
		"test.js":           `require("assert").ok(!require("fs").existsSync(process.env.HOME + "/.netrc"))`,
	}, []string{"npm test", "npm run build", "npm ci --offline --no-audit", "npm ls", "npm version"}},
	"python": {[]string{"python3"}, map[string]string{
		"m.py":           "import os\n\ndef home():\n    return os.path.exists(os.path.expanduser('~/.netrc'))\n",
		"test_m.py":      "import unittest, m, multiprocessing, tempfile\n\nclass T(unittest.TestCase):\n    def test(self):\n        tempfile.mkdtemp()\n        multiprocessing.Lock()\n        self.assertFalse(m.home())\n",
		"pyproject.toml": "[project]\nname = 'm'\nversion = '1'\n",
	}, []string{"python3 -m unittest", "python3 -m venv --system-site-packages --without-pip .venv", "python3 -m compileall -q m.py", ".venv/bin/python -m pip install --no-index ./p-1-py3-none-any.whl && .venv/bin/python -c 'import p'"}},
	"rust": {[]string{"cargo", "rustc"}, map[string]string{
		"Cargo.toml":  "[package]\nname = \"m\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
		"src/main.rs": "fn main() { println!(\"hi\"); }\n\n#[test]\nfn works() { assert!(std::fs::metadata(std::env::var(\"HOME\").unwrap() + \"/.netrc\").is_err()); }\n",
	}, []string{"cargo build --offline", "cargo test --offline", "cargo run --offline -q", "cargo check --offline", "cargo metadata --offline --format-version 1"}},
	"c": {[]string{"gcc", "make"}, map[string]string{
		"m.c":      "#include <stdio.h>\nint main(void) { puts(\"hi\"); return 0; }\n",
		"Makefile": "m: m.c\n\tgcc -o m m.c\ntest: m\n\t./m\nclean:\n\trm -f m\n",
	}, []string{"make", "make test", "gcc -c m.c", "make clean", "make -j2"}},
}

// needsTool skips a test without a tool. Those of Rust may be there without a
// toolchain: rustup puts them on PATH before it has installed one.
func needsTool(t *testing.T, name string) {
	t.Helper()
	path, err := program.Find(name, os.Environ())
	if err == nil && (name == "cargo" || name == "rustc") {
		err = exec.CommandContext(t.Context(), path, "--version").Run()
	}
	if err != nil {
		t.Skip(name + " does not run here: `make sandbox-tools` installs it")
	}
}

func TestProjects(t *testing.T) {
	w := wall(t)
	for name, project := range projects {
		t.Run(name, func(t *testing.T) {
			for _, need := range project.needs {
				needsTool(t, need)
			}
			m := newMachine(t)
			m.env = os.Environ() // with the toolchains of the user
			for file, text := range project.files {
				put(t, filepath.Join(m.root, file), text)
			}
			if name == "go" { // the standard library takes a minute the first time
				cache, err := os.UserCacheDir()
				if err != nil {
					t.Fatal(err)
				}
				m.kept = filepath.Join(cache, "copilot-bridge-test", "sandbox", "kept")
			}
			wheel(t, filepath.Join(m.root, "p-1-py3-none-any.whl"))
			conf := m.plan(t, m.scope())
			for _, script := range project.lines {
				began := time.Now()
				out, exit := line(t, w, conf, m, script)
				t.Logf("%s: %v", script, time.Since(began).Round(time.Millisecond))
				if exit.Code != 0 {
					t.Errorf("%s: %d %s", script, exit.Code, out)
				}
			}
			if name == "go" { // what was built is kept
				if out, _ := line(t, w, conf, m, "go test -count=1 -v ./...; go env GOCACHE"); !strings.Contains(out, m.kept) {
					t.Error(out)
				}
			}
		})
	}
}

// wheel writes a package of Python as pip takes it.
func wheel(t *testing.T, file string) {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, text := range map[string]string{
		"p.py": "", "p-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: p\nVersion: 1\n",
		"p-1.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n", "p-1.dist-info/RECORD": "",
	} {
		f, err := z.Create(name)
		if err == nil {
			_, err = f.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	put(t, file, b.String())
}

// Packages come from the user's caches, which programs inside only read.
func TestCachesOfTheUser(t *testing.T) {
	w := wall(t)
	for name, c := range map[string]struct {
		needs string
		files map[string]string // "~/" is the user's home
		fill  string            // a line that fills the caches, outside of the wall
		line  string
	}{
		"npm": {"npm", map[string]string{"~/dep/package.json": `{"name":"dep","version":"1.0.0","main":"i.js"}`, "~/dep/i.js": "exports.word = 'hi'\n",
			"package.json": `{"name":"m","version":"1.0.0","dependencies":{"dep":"1.0.0"}}`},
			`cd ~ && npm pack --silent ./dep && npm cache add ./dep-1.0.0.tgz && cd - && sum=$(openssl dgst -sha512 -binary ~/dep-1.0.0.tgz | base64 -w0) && rm ~/dep-1.0.0.tgz &&
			echo '{"name":"m","version":"1.0.0","lockfileVersion":3,"requires":true,"packages":{"":{"name":"m","version":"1.0.0","dependencies":{"dep":"1.0.0"}},
			"node_modules/dep":{"version":"1.0.0","resolved":"https://packages.example/dep/-/dep-1.0.0.tgz","integrity":"sha512-'$sum'"}}}' > package-lock.json`,
			`npm ci --offline --no-audit --no-fund && node -e 'require("assert").equal(require("dep").word, "hi")'`},
		"go": {"go", map[string]string{"~/proxy/example.com/dep/@v/list": "v1.0.0\n", "~/proxy/example.com/dep/@v/v1.0.0.info": `{"Version":"v1.0.0"}`,
			"~/proxy/example.com/dep/@v/v1.0.0.mod": "module example.com/dep\n", "go.mod": "module example.com/m\n\ngo 1.24\n\nrequire example.com/dep v1.0.0\n",
			"m.go": "package main\n\nimport \"example.com/dep\"\n\nfunc main() { println(dep.Word) }\n", "zip.py": "import zipfile, sys\n" +
				"with zipfile.ZipFile(sys.argv[1], 'w') as z:\n    z.writestr('example.com/dep@v1.0.0/go.mod', 'module example.com/dep\\n')\n    z.writestr('example.com/dep@v1.0.0/dep.go', 'package dep\\n\\nconst Word = 1\\n')\n"},
			`python3 zip.py ~/proxy/example.com/dep/@v/v1.0.0.zip && GOPROXY=file://$HOME/proxy GOSUMDB=off GOFLAGS=-modcacherw go mod tidy`,
			`go build -o m . && ./m`},
		"cargo": {"cargo", map[string]string{"~/vendor/dep/Cargo.toml": "[package]\nname = \"dep\"\nversion = \"1.0.0\"\n", "~/vendor/dep/src/lib.rs": "pub const WORD: u8 = 1;\n",
			"~/vendor/dep/.cargo-checksum.json": `{"files":{},"package":null}`, "Cargo.toml": "[package]\nname = \"m\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[dependencies]\ndep = \"1.0.0\"\n",
			"src/main.rs": "fn main() { println!(\"{}\", dep::WORD); }\n"},
			`mv ~/vendor vendor && mkdir .cargo && printf '[source.crates-io]\nreplace-with = "vendored"\n\n[source.vendored]\ndirectory = "vendor"\n' > .cargo/config.toml`,
			`cargo build --offline && cargo run --offline --quiet`},
		"pip": {"python3", nil, `python3 -m venv .venv && mkdir dist && mv p-1-py3-none-any.whl dist`,
			`.venv/bin/pip install --quiet --no-index --find-links dist p && .venv/bin/python -c 'import p'`},
	} {
		t.Run(name, func(t *testing.T) {
			needsTool(t, c.needs)
			m := newMachine(t)
			home, err := os.UserHomeDir()
			if err != nil {
				t.Fatal(err)
			}
			// Toolchains lie in the home of the user who runs the tests, packages do not.
			m.env = append(os.Environ(), "HOME="+m.home, "GOMODCACHE=", "GOPATH=", "GOFLAGS=", "CARGO_HOME=", "npm_config_cache=")
			for variable, dir := range map[string]string{"RUSTUP_HOME": ".rustup", "PYENV_ROOT": ".pyenv"} {
				if at := filepath.Join(home, dir); os.Getenv(variable) == "" && isDir(at) {
					m.env = append(m.env, variable+"="+at)
				}
			}
			for file, text := range c.files {
				at := filepath.Join(m.root, file)
				if rest, own := strings.CutPrefix(file, "~/"); own {
					at = filepath.Join(m.home, rest)
				}
				put(t, at, text)
			}
			wheel(t, filepath.Join(m.root, "p-1-py3-none-any.whl"))
			fill, err := program.Shell(program.Place{Root: m.root, Env: m.env}, c.fill)
			if err != nil {
				t.Fatal(err)
			}
			out := &program.Tail{Limit: 1 << 14}
			if exit, err := fill.Run(t.Context(), program.RunOptions{Stdout: out, Stderr: out}); err != nil || exit.Code != 0 {
				t.Fatalf("%v %v %s", exit, err, out)
			}
			if name == "go" {
				cache, err := os.UserCacheDir()
				if err != nil {
					t.Fatal(err)
				}
				m.kept = filepath.Join(cache, "copilot-bridge-test", "sandbox", "kept")
			}
			if out, exit := line(t, w, m.plan(t, m.scope()), m, c.line); exit.Code != 0 {
				t.Errorf("%d %s", exit.Code, out)
			}
		})
	}
}
