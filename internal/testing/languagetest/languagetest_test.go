package languagetest_test

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/languagetest"
)

func TestServersRun(t *testing.T) {
	out, err := exec.Command(languagetest.Gopls(t), "version").Output()
	if err != nil || !strings.Contains(string(out), languagetest.GoplsVersion) {
		t.Errorf("gopls says %q, %v", out, err)
	}
	out, err = exec.Command(languagetest.TypeScript(t), "--version").Output()
	if err != nil || !strings.HasPrefix(string(out), "5.") {
		t.Errorf("typescript-language-server says %q, %v", out, err)
	}
}

func TestLockFileNamesNoAddress(t *testing.T) {
	lock, err := os.ReadFile("typescript/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(lock, []byte("resolved")) || bytes.Contains(lock, []byte("://")) {
		t.Error("the lock file names a registry")
	}
	if bytes.Count(lock, []byte(`"integrity"`)) != bytes.Count(lock, []byte(`"node_modules/`)) {
		t.Error("a package has no integrity")
	}
}
