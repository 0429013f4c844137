package vscode

import (
	"path/filepath"
	"testing"
)

// TestUnits runs the extension's own tests, of what needs no VS Code, after a
// strict look at its types.
func TestUnits(t *testing.T) {
	gated(t)
	p, err := install()
	if err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(t.TempDir(), "extension")
	if err := p.sources(work); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"node_modules/typescript/bin/tsc", "--noEmit"}, {"build.mjs", "--test"},
		{"--test", "build/binary.test.cjs", "build/faults.test.cjs", "build/rpc.test.cjs"}} {
		if err := run(t.Context(), work, nil, p.node, args...); err != nil {
			t.Fatal(err)
		}
	}
}
