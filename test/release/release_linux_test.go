// Package release makes HEAD's release twice, in two directories, and tries what
// users get of it: packages with the tools of their systems, archives, SBOMs, the
// image, completions, and `go install`. Run it with `make test-release`.
package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// platforms says what is made: "linux" for linux/amd64 alone, or "all".
var platforms = os.Getenv("COPILOT_BRIDGE_TEST_RELEASE")

// most is what a program may weigh: 3 % more than the largest does, that of Windows. The
// server of a fleet is 11.6 million bytes of it.
const most = 39_300_000

// made is what TestMain has made.
var made struct {
	clones [2]string
	dist   string
}

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	if platforms == "" {
		return m.Run() // all tests are skipped, so nothing to make
	}
	dir, err := os.MkdirTemp("", "copilot-bridge-release-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // a leftover directory is harmless
	from := "../.."
	for i, name := range []string{"first", "second, elsewhere"} {
		made.clones[i] = filepath.Join(dir, name)
		if err := makeRelease(from, made.clones[i]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		from = made.clones[i] // the same commit, though HEAD may have moved
	}
	made.dist = filepath.Join(made.clones[0], "build", "release")
	return m.Run()
}

func makeRelease(from, clone string) error {
	if out, err := exec.Command("git", "clone", "-q", from, clone).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	args := []string{"-s", "release"}
	if platforms == "linux" {
		data, err := os.ReadFile(filepath.Join(clone, ".goreleaser.yaml"))
		if err != nil {
			return err
		}
		one := strings.NewReplacer("goos: [linux, darwin, windows]", "goos: [linux]", "goarch: [amd64, arm64]", "goarch: [amd64]").Replace(string(data))
		if one == string(data) {
			return errors.New(".goreleaser.yaml does not list the platforms as it did")
		}
		config := filepath.Join(filepath.Dir(clone), "linux.yaml")
		if err := os.WriteFile(config, []byte(one), 0o600); err != nil {
			return err
		}
		args = append(args, "RELEASE_FLAGS=-f "+config)
	}
	release := exec.Command("make", args...)
	release.Dir = clone
	if out, err := release.CombinedOutput(); err != nil {
		return fmt.Errorf("make release: %w\n%s", err, out)
	}
	return nil
}

func need(t *testing.T) {
	t.Helper()
	if platforms == "" {
		t.Skip("makes two releases, which takes minutes and needs packaging tools: run `make test-release`")
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// only is the one file of the release with such a name.
func only(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(made.dist, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v, %v", pattern, found, err)
	}
	return found[0]
}

// run runs a program to its end, and returns what it writes.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

func TestChecksums(t *testing.T) {
	need(t)
	first := string(read(t, filepath.Join(made.dist, "checksums.txt")))
	if second := string(read(t, filepath.Join(made.clones[1], "build", "release", "checksums.txt"))); first != second {
		t.Errorf("two builds differ:\n%s\n%s", first, second)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(first) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		listed[name] = true
		got := sha256.Sum256(read(t, filepath.Join(made.dist, name)))
		if hex.EncodeToString(got[:]) != sum {
			t.Errorf("%s has another checksum", name)
		}
	}
	want := map[string][2]int{"*.tar.gz": {1, 4}, "*.zip": {0, 2}, "*.deb": {1, 2}, "*.rpm": {1, 2}, "*.apk": {1, 2}, "*.spdx.json": {1, 6}, "*_oci.tar": {1, 1}, "copilot-bridge.rb": {1, 1}}
	for pattern, counts := range want {
		count := counts[0]
		if platforms == "all" {
			count = counts[1]
		}
		found, err := filepath.Glob(filepath.Join(made.dist, pattern))
		if err != nil || len(found) != count {
			t.Errorf("%s: there are %d, want %d: %v", pattern, len(found), count, err)
		}
		for _, f := range found {
			if !listed[filepath.Base(f)] {
				t.Errorf("checksums.txt lacks %s", filepath.Base(f))
			}
		}
	}
}

func TestSize(t *testing.T) {
	need(t)
	found, err := filepath.Glob(filepath.Join(made.dist, "copilot-bridge_*", "copilot-bridge*"))
	if err != nil || len(found) == 0 {
		t.Fatal(found, err)
	}
	for _, file := range found {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d bytes", filepath.Base(filepath.Dir(file)), info.Size())
		if info.Size() > most {
			t.Errorf("%s has %d bytes, and may have %d: see what has grown with `go tool nm -size -sort size`", file, info.Size(), most)
		}
	}
}

// files lists the files below a directory, with what they hold.
func files(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(read(t, path))
		out[rel] = hex.EncodeToString(sum[:])
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// checkInstalled holds what a package has put into a root to what it should have.
func checkInstalled(t *testing.T, root string) {
	t.Helper()
	for _, name := range []string{"usr/bin/copilot-bridge", "usr/share/bash-completion/completions/copilot-bridge", "usr/share/zsh/site-functions/_copilot-bridge",
		"usr/share/fish/vendor_completions.d/copilot-bridge.fish", "usr/share/copilot-bridge/copilot-bridge.ps1", "usr/share/man/man1/copilot-bridge-serve.1", "usr/share/doc/copilot-bridge/copyright"} {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Errorf("not installed: %v", err)
		}
	}
	if got := run(t, filepath.Join(root, "usr/bin/copilot-bridge"), "--version"); !strings.HasPrefix(got, "copilot-bridge version v") {
		t.Errorf("the installed program says %q", got)
	}
}

func checkGone(t *testing.T, root string) {
	t.Helper()
	for name := range files(t, root) {
		if strings.Contains(name, "copilot-bridge") {
			t.Errorf("%s is left", name)
		}
	}
}

func TestDebianPackage(t *testing.T) {
	need(t)
	root := t.TempDir()
	admin := filepath.Join(root, "var/lib/dpkg")
	for _, dir := range []string{"info", "updates", "triggers"} {
		if err := os.MkdirAll(filepath.Join(admin, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"status", "available"} {
		if err := os.WriteFile(filepath.Join(admin, file), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	dpkg := func(args ...string) string {
		return run(t, "dpkg", append([]string{"--root=" + root, "--force-not-root", "--force-depends", "--log=/dev/null"}, args...)...)
	}
	dpkg("-i", only(t, "*_linux_amd64.deb"))
	checkInstalled(t, root)
	if got := run(t, "dpkg-query", "--admindir="+admin, "-W", "-f=${Package} ${Architecture} ${Depends}", "copilot-bridge"); got != "copilot-bridge amd64 git" {
		t.Errorf("dpkg says %q", got)
	}
	dpkg("--purge", "copilot-bridge")
	checkGone(t, root)
}

func TestRPMPackage(t *testing.T) {
	need(t)
	root := t.TempDir()
	file := only(t, "*_linux_amd64.rpm")
	rpm := func(args ...string) string {
		return run(t, "rpm", append([]string{"--root", root, "--dbpath", "/var/lib/rpm"}, args...)...)
	}
	rpm("--initdb")
	// The scratch root has no git, and this machine perhaps another architecture's rpm.
	rpm("-i", "--nodeps", "--ignorearch", "--noscripts", file)
	checkInstalled(t, root)
	if got := rpm("-q", "copilot-bridge", "--qf", "%{ARCH} %{LICENSE} %{BUILDHOST}"); got != "x86_64 MIT copilot-bridge" {
		t.Errorf("rpm says %q", got)
	}
	rpm("-e", "--nodeps", "--noscripts", "copilot-bridge")
	checkGone(t, root)
}

// Debian has no apk, so the package is read: three archives, one behind the other,
// of which the last has the same files as Debian's package. Nothing runs when it
// is installed or removed, so apk removes what it has put there.
func TestAlpinePackage(t *testing.T) {
	need(t)
	in, err := gzip.NewReader(bytes.NewReader(read(t, only(t, "*_linux_amd64.apk"))))
	if err != nil {
		t.Fatal(err)
	}
	var info string
	got, root := []string{}, t.TempDir()
	for archive := tar.NewReader(in); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case h.Name == ".PKGINFO":
			info = string(data)
		case strings.HasPrefix(h.Name, "."):
			t.Errorf("%s would run at an installation", h.Name)
		case h.Typeflag == tar.TypeReg:
			got = append(got, h.Name)
			if err := os.MkdirAll(filepath.Join(root, filepath.Dir(h.Name)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, h.Name), data, h.FileInfo().Mode().Perm()); err != nil {
				t.Fatal(err)
			}
		}
	}
	checkInstalled(t, root)
	for _, line := range []string{"pkgname = copilot-bridge", "arch = x86_64", "depend = git"} {
		if !strings.Contains(info, line+"\n") {
			t.Errorf(".PKGINFO lacks %q:\n%s", line, info)
		}
	}
	deb := t.TempDir()
	run(t, "dpkg-deb", "-x", only(t, "*_linux_amd64.deb"), deb)
	unpacked := files(t, root)
	for name, sum := range files(t, deb) {
		if unpacked[name] != sum && !strings.HasSuffix(name, "changelog.Debian.gz") {
			t.Errorf("%s is not as in Debian's package", name)
		}
	}
	slices.Sort(got)
	if len(slices.Compact(got)) != len(got) {
		t.Errorf("a file is there twice: %q", got)
	}
}

func TestArchive(t *testing.T) {
	need(t)
	root := t.TempDir()
	file := only(t, "*_linux_amd64.tar.gz")
	run(t, "tar", "xf", file, "-C", root)
	top := filepath.Join(root, strings.TrimSuffix(filepath.Base(file), ".tar.gz"))
	for _, name := range []string{"copilot-bridge", "LICENSE", "README.md", "CHANGELOG.md", "completions/_copilot-bridge", "man/copilot-bridge.1"} {
		if _, err := os.Stat(filepath.Join(top, name)); err != nil {
			t.Error(err)
		}
	}
	formula := string(read(t, only(t, "copilot-bridge.rb")))
	sum := sha256.Sum256(read(t, file))
	if !strings.Contains(formula, filepath.Base(file)) || !strings.Contains(formula, hex.EncodeToString(sum[:])) {
		t.Errorf("the formula does not fit the archive:\n%s", formula)
	}
}

// Shells take their completions, and man takes the pages.
func TestPages(t *testing.T) {
	need(t)
	pages := filepath.Join(made.clones[0], "build", "pages")
	run(t, "bash", "-n", filepath.Join(pages, "completions", "copilot-bridge.bash"))
	run(t, "zsh", "-n", filepath.Join(pages, "completions", "_copilot-bridge"))
	binary := only(t, "copilot-bridge_linux_amd64*/copilot-bridge")
	fish := exec.Command("fish", "--no-config", "-c", "source $argv[1]; complete -C 'copilot-bridge sess'", filepath.Join(pages, "completions", "copilot-bridge.fish"))
	fish.Env = append(os.Environ(), "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"), "HOME="+t.TempDir())
	if out, err := fish.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "sessions\t") {
		t.Errorf("fish completes %q, %v", out, err)
	}
	if text := string(read(t, filepath.Join(pages, "completions", "copilot-bridge.ps1"))); !strings.Contains(text, "Register-ArgumentCompleter") {
		t.Error("the completion of PowerShell is none")
	}
	found, err := filepath.Glob(filepath.Join(pages, "man", "*.1"))
	if err != nil || len(found) < 30 {
		t.Fatal(len(found), err)
	}
	for _, page := range found {
		if !strings.Contains(string(read(t, page)), ".SH USAGE\n") {
			t.Errorf("%s does not show the usage", page)
		}
	}
}

func TestSBOM(t *testing.T) {
	need(t)
	var doc struct {
		SPDX     string `json:"spdxVersion"`
		Packages []struct {
			ID, Name, VersionInfo string
			Checksums             []struct{ ChecksumValue string }
		}
	}
	if err := json.Unmarshal(read(t, only(t, "*_linux_amd64.spdx.json")), &doc); err != nil {
		t.Fatal(err)
	}
	binary := only(t, "copilot-bridge_linux_amd64*/copilot-bridge")
	sum := sha256.Sum256(read(t, binary))
	if doc.SPDX != "SPDX-2.3" || doc.Packages[0].Checksums[0].ChecksumValue != hex.EncodeToString(sum[:]) {
		t.Errorf("it is not of this program: %s, %+v", doc.SPDX, doc.Packages[0])
	}
	listed := map[string]bool{}
	for _, p := range doc.Packages {
		listed[p.Name+" "+p.VersionInfo] = true
	}
	modules := 0
	for line := range strings.Lines(run(t, "go", "version", "-m", binary)) {
		f := strings.Fields(line)
		if len(f) >= 3 && f[0] == "dep" {
			modules++
			if !listed[f[1]+" "+f[2]] {
				t.Errorf("it lacks %s", line)
			}
		}
	}
	if modules < 10 {
		t.Errorf("the program has %d modules", modules)
	}
}

// The image is read as a registry would: each blob has the digest by which it is named.
func TestImage(t *testing.T) {
	need(t)
	root := t.TempDir()
	run(t, "tar", "xf", only(t, "*_oci.tar"), "-C", root)
	type descriptor struct {
		Digest string
		Size   int
	}
	blob := func(d descriptor) []byte {
		t.Helper()
		data := read(t, filepath.Join(root, "blobs", strings.Replace(d.Digest, ":", "/", 1)))
		if sum := sha256.Sum256(data); "sha256:"+hex.EncodeToString(sum[:]) != d.Digest || len(data) != d.Size {
			t.Fatalf("%s is damaged", d.Digest)
		}
		return data
	}
	decode := func(data []byte, into any) {
		t.Helper()
		if err := json.Unmarshal(data, into); err != nil {
			t.Fatal(err)
		}
	}
	var top, index struct{ Manifests []descriptor }
	decode(read(t, filepath.Join(root, "index.json")), &top)
	decode(blob(top.Manifests[0]), &index)
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	decode(blob(index.Manifests[0]), &manifest)
	var config struct {
		Architecture string
		Config       struct {
			User       string
			Entrypoint []string
		}
	}
	decode(blob(manifest.Config), &config)
	if config.Architecture != "amd64" || config.Config.User != "65532:65532" || !slices.Equal(config.Config.Entrypoint, []string{"/usr/bin/copilot-bridge"}) {
		t.Errorf("the configuration is %+v", config)
	}
	layer := filepath.Join(root, "layer.tar.gz")
	if err := os.WriteFile(layer, blob(manifest.Layers[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "tar", "xf", layer, "-C", root)
	if got := run(t, filepath.Join(root, "usr/bin/copilot-bridge"), "--version"); !strings.HasPrefix(got, "copilot-bridge version v") {
		t.Errorf("the program of the image says %q", got)
	}
}

// `go install …@version` takes the version from the module. The module is served by
// a directory, as a module proxy would serve it.
func TestGoInstall(t *testing.T) {
	need(t)
	const module, version = "github.com/copilot-bridge/copilot-bridge", "v0.1.2"
	dir := t.TempDir()
	at := filepath.Join(dir, "proxy", module, "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	clone := made.clones[0]
	for name, text := range map[string]string{"list": version + "\n", version + ".info": `{"Version":"` + version + `"}`, version + ".mod": string(read(t, filepath.Join(clone, "go.mod")))} {
		if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run(t, "git", "-C", clone, "archive", "--format=zip", "--prefix="+module+"@"+version+"/", "-o", filepath.Join(at, version+".zip"), "HEAD")
	usual := strings.TrimSpace(run(t, "go", "env", "GOPROXY"))
	cache := strings.TrimSpace(run(t, "go", "env", "GOMODCACHE"))
	install := exec.Command("go", "install", module+"/cmd/copilot-bridge@"+version)
	// The modules that are here already are taken from the cache, where they were checked.
	install.Env = append(os.Environ(), "GOPROXY=file://"+filepath.Join(dir, "proxy")+",file://"+filepath.Join(cache, "cache", "download")+","+usual,
		"GOSUMDB=off", "GOBIN="+filepath.Join(dir, "bin"), "GOMODCACHE="+filepath.Join(dir, "modules"), "GOFLAGS=-modcacherw -trimpath", "CGO_ENABLED=0") // as the release, whose compiled packages are used again
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var got struct{ Version string }
	if err := json.Unmarshal([]byte(run(t, filepath.Join(dir, "bin", "copilot-bridge"), "version", "--json")), &got); err != nil || got.Version != version {
		t.Errorf("the program says it is %q: %v", got.Version, err)
	}
}

// No Docker is at hand, so the Dockerfile is read: it builds with our Go, and what
// it makes does not run as root.
func TestDockerfile(t *testing.T) {
	need(t)
	text := string(read(t, filepath.Join(made.clones[0], "Dockerfile")))
	version := strings.Fields(string(read(t, filepath.Join(made.clones[0], "go.mod"))))[3]
	short := version[:strings.LastIndex(version, ".")]
	if want := "FROM golang:" + short + "-"; !strings.Contains(text, want) {
		t.Errorf("it lacks %q", want)
	}
	_, last, _ := strings.Cut(text, "\nFROM node:")
	user, command := strings.Index(last, "\nUSER node\n"), strings.Index(last, "\nENTRYPOINT [\"copilot-bridge\"]\n")
	if user < 0 || command < user {
		t.Errorf("it runs as root, or not at all:\n%s", last)
	}
}
