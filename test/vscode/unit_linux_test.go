package vscode

import (
	"path/filepath"
	"testing"
)

// TestUnits type-checks the extension strictly and runs its unit tests, which
// need no VS Code.
func TestUnits(t *testing.T) {
	requireGate(t)
	p, err := install()
	if err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(t.TempDir(), "extension")
	if err := p.sources(work); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"node_modules/typescript/bin/tsc", "--noEmit"}, {"build.mjs", "--test"},
		{"--test", "build/binary.test.cjs", "build/faults.test.cjs", "build/question.test.cjs", "build/rpc.test.cjs"}} {
		if err := run(t.Context(), work, nil, p.node, args...); err != nil {
			t.Fatal(err)
		}
	}
}
