package copilotruntime

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

func itoa(n int) string { return strconv.Itoa(n) }

// The carried locks name the pinned packages and their hashes, and no
// addresses, which would overrule the user's own registry.
func TestCarriedLocks(t *testing.T) {
	hash := regexp.MustCompile(`^sha512-[A-Za-z0-9+/]{86}==$`)
	found := map[string][]string{}
	for _, prod := range []product{runtimeProduct(), cliProduct()} {
		folders, err := fs.ReadDir(locks, path.Join("lock", prod.folder))
		if err != nil {
			t.Fatal(err)
		}
		for _, folder := range folders {
			s := site{product: prod, platform: folder.Name()}
			found[prod.folder] = append(found[prod.folder], s.platform)
			packageJSON, packageLock, ok := s.lockFiles()
			if !ok {
				t.Errorf("%s: the lock cannot be read", s.packageName())
				continue
			}
			var wanted struct{ Dependencies map[string]string }
			var locked struct {
				Packages map[string]struct{ Version, Integrity string }
			}
			if err := errors.Join(json.Unmarshal(packageJSON, &wanted), json.Unmarshal(packageLock, &locked)); err != nil {
				t.Errorf("%s: %v", s.packageName(), err)
				continue
			}
			if len(wanted.Dependencies) != 1 || wanted.Dependencies[s.packageName()] != prod.version {
				t.Errorf("%s: package.json wants %v, the pin is %s", s.packageName(), wanted.Dependencies, prod.version)
			}
			entry := locked.Packages[s.packageDir()]
			if len(locked.Packages) != 2 || entry.Version != prod.version || !hash.MatchString(entry.Integrity) {
				t.Errorf("%s: package-lock.json has %+v", s.packageName(), locked.Packages)
			}
			for _, text := range []string{string(packageJSON), string(packageLock)} {
				if strings.Contains(text, "resolved") || strings.Contains(text, "http") {
					t.Errorf("%s: an address in %s", s.packageName(), text)
				}
			}
		}
	}
	if want := []string{"linux-x64", "linuxmusl-x64"}; !slices.Equal(found["runtime"], want) {
		t.Errorf("runtime locks for %v, want %v", found["runtime"], want)
	}
	if len(found["cli"]) != 8 {
		t.Errorf("CLI locks for %v, want all eight platforms", found["cli"])
	}
}

func TestNPMRefusesOtherContentThanLocked(t *testing.T) {
	s, staging, npm := stagingFor(t, runtimeProduct())
	packageJSON, packageLock, ok := s.lockFiles()
	if !ok {
		t.Fatal("no lock is carried for this platform")
	}
	other := regexp.MustCompile(`sha512-....`).ReplaceAll(packageLock, []byte("sha512-AAAA"))
	for name, data := range map[string][]byte{"package.json": packageJSON, "package-lock.json": other} {
		if err := os.WriteFile(filepath.Join(staging, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	err := s.runNPM(t.Context(), staging, npm, []string{"ci"})
	var e *bridge.Error
	if !errors.As(err, &e) || !strings.Contains(e.Message, "EINTEGRITY") || !strings.Contains(e.Remedy, "true mirror") {
		t.Errorf("got %+v", err)
	}
}

func stagingFor(t *testing.T, prod product) (s site, staging, npm string) {
	t.Helper()
	s, err := newSite(Options{Home: t.TempDir()}, prod)
	if err != nil {
		t.Fatal(err)
	}
	npm, err = findNPM(prod)
	if err != nil {
		t.Fatal(err)
	}
	return s, t.TempDir(), npm
}

// What platforms without a carried lock go through, tried on this one.
func TestInstallWithoutCarriedLock(t *testing.T) {
	prod := runtimeProduct()
	prod.folder = "lockless"
	s, _, _ := stagingFor(t, prod)
	var first string
	rt, err := s.install(t.Context(), func(step Step) {
		if first == "" {
			first = step.Text
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(first, "untried on "+s.platform) {
		t.Errorf("the first step says %q", first)
	}
	if _, err := Check(t.Context(), rt.Path); err != nil {
		t.Error(err)
	}
}

// Every other platform asks npm for its own package and looks for its own
// files.
func TestInstallOnOtherPlatforms(t *testing.T) {
	for _, platform := range []string{"darwin-arm64", "darwin-x64", "linux-arm64", "linuxmusl-arm64", "linuxmusl-x64", "win32-arm64", "win32-x64"} {
		t.Run(platform, func(t *testing.T) {
			s := site{product: runtimeProduct(), platform: platform, root: filepath.Join(t.TempDir(), "runtime")}
			s.product.verify = func(_ context.Context, program string) (string, error) {
				want := "copilot-runtime" + map[bool]string{true: ".exe"}[strings.HasPrefix(platform, "win32")]
				if filepath.Base(program) != want {
					t.Errorf("the program is %s, want %s", program, want)
				}
				return "9.9.9", nil
			}
			ready := t.TempDir()
			fillFake(t, s, ready)
			bin := t.TempDir()
			fakeNPM(t, bin, "echo \"$@\" >'"+bin+"/args'\ncp -R '"+ready+"/node_modules' .\n")
			rt, err := s.install(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if rt.Version != "9.9.9" || rt.Dir != s.dir() {
				t.Errorf("got %+v", rt)
			}
			args, err := os.ReadFile(filepath.Join(bin, "args"))
			if err != nil {
				t.Fatal(err)
			}
			want := "install --no-save @github/copilot-sdk-" + platform + "@" + RuntimeVersion + " --ignore-scripts "
			if platform == "linuxmusl-x64" {
				want = "ci --ignore-scripts "
			}
			if !strings.HasPrefix(string(args), want) {
				t.Errorf("npm was called with %s, want %s", args, want)
			}
		})
	}
}

func fakeNPM(t *testing.T, dir, body string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "npm"), []byte("#!/bin/sh\n"+body), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func TestFailedInstallsSayWhyAndLeaveNothing(t *testing.T) {
	tests := []struct {
		name, npm, message, remedy string
	}{
		{"disk full", "echo 'npm error code ENOSPC' >&2\necho 'npm error nospc no space left' >&2\nexit 228\n", "no space left", "disk space"},
		{"no network", "echo 'npm ERR! code ENOTFOUND' >&2\nexit 1\n", "ENOTFOUND", "HTTPS_PROXY"},
		{"npm does nothing", "exit 0\n", "could not be installed", "directory can be written"},
		{"no words", "exit 7\n", "npm could not install", "npm 7 or newer"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			fakeNPM(t, t.TempDir(), test.npm)
			home := t.TempDir()
			_, err := Install(t.Context(), Options{Home: home}, nil)
			var e *bridge.Error
			if !errors.As(err, &e) || e.Code != bridge.CodeUnavailable ||
				!strings.Contains(e.Message, test.message) || !strings.Contains(e.Remedy, test.remedy) {
				t.Errorf("got %#v", err)
			}
			entries, err := os.ReadDir(filepath.Join(home, "runtime"))
			if err != nil {
				t.Fatal(err)
			}
			for _, entry := range entries {
				if !strings.HasPrefix(entry.Name(), ".lock") {
					t.Errorf("left behind: %s", entry.Name())
				}
			}
		})
	}
}

func TestInstallIntoAnUnwritableHome(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Install(t.Context(), Options{Home: file}, nil)
	var e *bridge.Error
	if !errors.As(err, &e) || e.Code != bridge.CodeUnavailable || !strings.Contains(e.Remedy, "can be written") {
		t.Errorf("got %#v", err)
	}
}

func TestInstallWhereThereIsNoCopilot(t *testing.T) {
	s := site{product: runtimeProduct(), root: t.TempDir()}
	if _, err := s.install(t.Context(), nil); bridge.CodeOf(err) != bridge.CodeUnsupported {
		t.Errorf("got %v", err)
	}
	if _, err := s.installed(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestHangingProgramIsEndedWithAllItStarted(t *testing.T) {
	dir := t.TempDir()
	pid := filepath.Join(dir, "pid")
	program := filepath.Join(dir, "hangs")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nsleep 600 &\necho $! >'"+pid+"'\nwait\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := check(t.Context(), program, 300*time.Millisecond)
	var e *bridge.Error
	if !errors.As(err, &e) || e.Code != bridge.CodeUnavailable || !strings.Contains(e.Message, "did not answer within 300ms") {
		t.Errorf("got %v", err)
	}
	child, err := os.ReadFile(pid)
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	// A process that is dead but not yet waited for by the system still has
	// an entry, but no command.
	for alive(t, strings.TrimSpace(string(child))) {
		if time.Now().After(deadline) {
			t.Fatal("the child is still there")
		}
	}
}

func alive(t *testing.T, pid string) bool {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ps", "-o", "stat=", "-p", pid).Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	state := strings.TrimSpace(string(out))
	return state != "" && !strings.HasPrefix(state, "Z")
}
