package e2e

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/testing/errorcases"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

var update = flag.Bool("update", false, "write what the program says into testdata/errors.txt")

// Every error that a person can cause says what is wrong and what to do. After a
// change of words run this with -update, then `go test ./test/docs -update`.
func TestErrors(t *testing.T) {
	t.Parallel()
	all, err := errorcases.Read("../..")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("no cases")
	}
	copilot, web := runtimetest.Path(t), badProvider(t)
	t.Run("cases", func(t *testing.T) {
		for i, c := range all {
			t.Run(strconv.Itoa(i)+" "+c.Means, func(t *testing.T) {
				t.Parallel()
				report, code := runCase(t, c, copilot, web)
				if *update {
					all[i].Report, all[i].Exit = report, code
				} else if !slices.Equal(report, c.Report) || code != c.Exit {
					t.Errorf("%s\nexit code %d:\n%s\nnot %d:\n%s", c.Command, code, strings.Join(report, "\n"), c.Exit, strings.Join(c.Report, "\n"))
				}
			})
		}
	})
	if *update {
		if err := errorcases.Write("../..", all); err != nil {
			t.Fatal(err)
		}
	}
}

// witness is a file that is named after the hash of a path.
var witness = regexp.MustCompile(`[0-9a-f]{16}\.json`)

// runCase returns the program's report of the error and its exit code.
func runCase(t *testing.T, c errorcases.Case, copilot, web string) ([]string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home, dir := filepath.Join(base, "home"), filepath.Join(base, "w")
	if err := errors.Join(os.Mkdir(home, 0o755), os.Mkdir(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	script := "exec 3>&2 2>/dev/null >/dev/null\n" + strings.Join(c.Setup, "\n") + "\nexec 2>&3\n" + c.Command
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", script)
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + home, "PATH=" + filepath.Dir(binary) + ":" + os.Getenv("PATH"), "PROVIDER=" + web, "COPILOT_CLI_PATH=" + copilot, "TMPDIR=" + base}
	var said bytes.Buffer
	cmd.Stderr = &said
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	text := strings.NewReplacer(web, "$PROVIDER", dir, "$PWD", home, "$HOME", copilot, "$COPILOT_CLI_PATH", base, "$TMPDIR").Replace(said.String())
	text = witness.ReplaceAllString(text, "….json")
	if i := strings.LastIndex("\n"+text, "\ncopilot-bridge: "); i >= 0 {
		text = text[i:] // before it the work is told
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n"), cmd.ProcessState.ExitCode()
}

// badProvider is a server that answers each path in its own wrong way.
func badProvider(t *testing.T) string {
	t.Helper()
	answers := map[string]struct {
		status     int
		kind, body string
	}{
		"html": {200, "text/html", "<!DOCTYPE html><html><title>Router</title></html>"},
		"json": {200, "application/json", `{"hello":"you"}`},
		"400":  {400, "application/json", `{"error":{"message":"max_tokens is too large"}}`},
		"401":  {401, "application/json", `{"error":{"message":"no such key"}}`},
		"404":  {404, "text/html", "<html>not here</html>"},
		"429":  {429, "application/json", `{"error":{"message":"slow down"}}`},
		"500":  {500, "application/json", `{"error":{"message":"on fire"}}`},
		"bare": {500, "text/plain", ""},
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the answer is the same
		a := answers[strings.Split(r.URL.Path, "/")[1]]
		w.Header().Set("Content-Type", a.kind)
		w.WriteHeader(a.status)
		_, _ = io.WriteString(w, a.body) // the client may have gone
	}))
	t.Cleanup(s.Close)
	return s.URL
}
