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
	for _, dir := range []string{shared, "testdata"} {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			var all []vector
			load(t, filepath.Join(dir, "receipt_hash_vectors.json"), &all)
			if len(all) < 10 {
				t.Fatalf("only %d vectors", len(all))
			}
			for _, v := range all {
				r, err := ParseReceipt([]byte(v.Input))
				if v.Error != "" {
					if err == nil {
						t.Errorf("%s: read, want %s", v.Name, v.Error)
					}
					continue
				}
				if err != nil {
					t.Errorf("%s: %v", v.Name, err)
					continue
				}
				if got := string(r.Canonical()); got != v.Canonical {
					t.Errorf("%s:\n got %s\nwant %s", v.Name, got, v.Canonical)
				}
				if got := r.Hash(); got != v.SHA256 {
					t.Errorf("%s: hash %s, want %s", v.Name, got, v.SHA256)
				}
			}
		})
	}
}

func TestEnvelopeVectors(t *testing.T) {
	for _, dir := range []string{shared, "testdata"} {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			var all []vector
			load(t, filepath.Join(dir, "envelope_decode_vectors.json"), &all)
			if len(all) < 10 {
				t.Fatalf("only %d vectors", len(all))
			}
			for _, v := range all {
				e, err := ParseEnvelope([]byte(v.Input))
				if v.Error != "" {
					if err == nil {
						t.Errorf("%s: read, want %s", v.Name, v.Error)
					}
					continue
				}
				if err != nil {
					t.Errorf("%s: %v", v.Name, err)
					continue
				}
				if got := string(AppendEnvelope(nil, e)); got != v.Reencoded {
					t.Errorf("%s:\n got %s\nwant %s", v.Name, got, v.Reencoded)
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
