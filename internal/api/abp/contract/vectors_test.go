package contract

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// shared is where ABP's own vectors are, if they are.
const shared = "../../../../../shared/data/abp"

type vector struct {
	Name      string `json:"name"`
	Input     string `json:"input"`
	Canonical string `json:"canonical"`
	SHA256    string `json:"sha256"`
	Reencoded string `json:"reencoded"`
	Error     string `json:"error"`
}

func load(t *testing.T, path string, to any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) && filepath.Dir(path) == shared {
		t.Skip("ABP's own vectors are not here")
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, to); err != nil {
		t.Fatal(err)
	}
}

func TestReceiptVectors(t *testing.T) {
	vectors(t, "receipt_hash_vectors.json", func(t *testing.T, v vector) error {
		r, err := ParseReceipt([]byte(v.Input))
		if err != nil {
			return err
		}
		if got := string(r.Canonical()); got != v.Canonical {
			t.Errorf("%s:\n got %s\nwant %s", v.Name, got, v.Canonical)
		}
		if got := r.Hash(); got != v.SHA256 {
			t.Errorf("%s: hash %s, want %s", v.Name, got, v.SHA256)
		}
		return nil
	})
}

func TestEnvelopeVectors(t *testing.T) {
	vectors(t, "envelope_decode_vectors.json", func(t *testing.T, v vector) error {
		e, err := ParseEnvelope([]byte(v.Input))
		if err != nil {
			return err
		}
		if got := string(AppendEnvelope(nil, e)); got != v.Reencoded {
			t.Errorf("%s:\n got %s\nwant %s", v.Name, got, v.Reencoded)
		}
		return nil
	})
}

// vectors tries ABP's vectors and ours. parse returns the error of one that cannot
// be read.
func vectors(t *testing.T, file string, parse func(*testing.T, vector) error) {
	t.Helper()
	for _, dir := range []string{shared, "testdata"} {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			var all []vector
			load(t, filepath.Join(dir, file), &all)
			if len(all) < 10 {
				t.Fatalf("only %d vectors", len(all))
			}
			for _, v := range all {
				if err := parse(t, v); (err != nil) != (v.Error != "") {
					t.Errorf("%s: %v, want %q", v.Name, err, v.Error)
				}
			}
		})
	}
}

func TestGoldenReceipts(t *testing.T) {
	var all []struct {
		Source  string          `json:"source"`
		SHA256  string          `json:"sha256"`
		Receipt json.RawMessage `json:"receipt"`
	}
	load(t, filepath.Join(shared, "golden_receipts.json"), &all)
	for _, g := range all {
		r, err := ParseReceipt(g.Receipt)
		if err != nil {
			t.Errorf("%s: %v", g.Source, err)
			continue
		}
		if got := r.Hash(); got != g.SHA256 || r.SHA256 == nil || *r.SHA256 != got {
			t.Errorf("%s: hash %s, want %s", g.Source, got, g.SHA256)
		}
	}
}
