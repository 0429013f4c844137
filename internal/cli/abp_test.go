package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// vectors are the project's own receipts with their hashes.
func vectors(t *testing.T, name string) (out []struct{ Name, Input, Canonical, SHA256, Reencoded, Error string }) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../api/abp/contract/testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestABPVerify(t *testing.T) {
	v := vectors(t, "receipt_hash_vectors.json")[0]
	sealed := strings.Replace(v.Canonical, `"receipt_sha256":null`, `"receipt_sha256":"`+v.SHA256+`"`, 1)
	for name, tt := range map[string]struct {
		text string
		code int
		out  string
	}{
		"sealed":   {sealed, exitDone, "✓ " + v.SHA256},
		"final":    {`{"t":"final","ref_id":"r","receipt":` + sealed + "}\n", exitDone, "✓ " + v.SHA256},
		"changed":  {strings.Replace(sealed, `"duration_ms":3750`, `"duration_ms":3751`, 1), exitFailed, "stored is " + v.SHA256},
		"unsealed": {v.Input, exitFailed, v.SHA256 + "  -: no hash is stored"},
		"garbage":  {"{}", exitUsage, "no valid receipt: missing field"},
		"nothing":  {"", exitUsage, "no valid receipt"},
	} {
		w := newWorld(t)
		w.Stdin = strings.NewReader(tt.text)
		if code := w.run("abp", "verify", "-"); code != tt.code || !strings.Contains(w.out.String(), tt.out) {
			t.Errorf("%s: %d %s%s", name, code, w.out, w.err)
		}
	}
	w := newWorld(t)
	for name, text := range map[string]string{"a": sealed, "b": v.Input, "c": "x"} {
		if err := os.WriteFile(filepath.Join(w.Dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if code := w.run("abp", "verify", "a", "b", "--json"); code != exitFailed || strings.Count(w.out.String(), "\n") != 2 || !strings.Contains(w.out.String(), `{"file":"a","ok":true,"sha256":"`+v.SHA256) {
		t.Errorf("%d %s", code, w.out)
	}
	for _, args := range [][]string{{"c"}, {"none"}, {"a", "b", "c"}, {}} {
		if code := newWorldIn(t, w.Dir).run(append([]string{"abp", "verify"}, args...)...); code != exitUsage {
			t.Errorf("%v: %d", args, code)
		}
	}
}

func newWorldIn(t *testing.T, dir string) *world {
	t.Helper()
	w := newWorld(t)
	w.Dir = dir
	return w
}

func TestABPCanonical(t *testing.T) {
	for _, v := range vectors(t, "receipt_hash_vectors.json") {
		w := newWorld(t)
		w.Stdin = strings.NewReader(v.Input)
		code := w.run("abp", "canonical", "-")
		if v.Error != "" {
			if code != exitUsage || w.out.String() != "" {
				t.Errorf("%s: %d %s", v.Name, code, w.out)
			}
			continue
		}
		sum := sha256.Sum256([]byte(w.out.String()))
		if code != exitDone || w.out.String() != v.Canonical || hex.EncodeToString(sum[:]) != v.SHA256 {
			t.Errorf("%s: %d %s", v.Name, code, w.out)
		}
	}
}

func TestABPValidate(t *testing.T) {
	all := vectors(t, "envelope_decode_vectors.json")
	var in strings.Builder
	for _, v := range all {
		in.WriteString(v.Input + "\n")
	}
	w := newWorld(t)
	w.Stdin = strings.NewReader(in.String())
	if code := w.run("abp", "validate"); code != exitDone {
		t.Fatalf("%d %s", code, w.err)
	}
	lines := strings.Split(strings.TrimSuffix(w.out.String(), "\n"), "\n")
	if len(lines) != len(all) {
		t.Fatalf("%d lines for %d", len(lines), len(all))
	}
	for i, v := range all {
		if v.Error == "" && lines[i] != `{"ok":true,"envelope":`+v.Reencoded+`}` || v.Error != "" && !strings.HasPrefix(lines[i], `{"ok":false,"error":"`) {
			t.Errorf("%s: %s", v.Name, lines[i])
		}
		if !json.Valid([]byte(lines[i])) {
			t.Errorf("%s: not JSON: %s", v.Name, lines[i])
		}
	}
	if code := newWorld(t).run("abp", "validate", "none"); code != exitUsage {
		t.Errorf("a file that is not there: %d", code)
	}
}

// A sidecar that is not configured well says so in its protocol, and only
// there on standard output.
func TestABPMisconfigured(t *testing.T) {
	w := newWorld(t)
	w.Environ = append(w.Environ, "ABP_COPILOT_MAX_INLINE_OUTPUT_BYTES=many")
	w.Stdin = strings.NewReader(`{"t":"run","id":"r","work_order":{"id":"11111111-2222-4333-8444-555555555555","task":"x"}}` + "\n")
	code := w.run("abp")
	lines := strings.Split(strings.TrimSuffix(w.out.String(), "\n"), "\n")
	if code != exitUsage || len(lines) != 2 || !strings.HasPrefix(lines[0], `{"t":"hello"`) || !strings.HasPrefix(lines[1], `{"t":"fatal","ref_id":"r","error":"ABP_COPILOT_MAX_INLINE_OUTPUT_BYTES`) {
		t.Errorf("%d %s%s", code, w.out, w.err)
	}
}
