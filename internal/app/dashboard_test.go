package app

import (
	"path/filepath"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
)

// What opens the dashboard cannot be read where the home is in the workspace.
func TestUnreadableKeys(t *testing.T) {
	root := filepath.Join(t.TempDir(), "a[b]*")
	c := &config.Config{Home: filepath.Join(root, ".copilot-bridge")}
	layers, err := unreadableKeys(c, root)
	if err != nil {
		t.Fatal(err)
	}
	p := policy.Combine(policy.Defaults{Root: root, Source: policy.DefaultsRun().Source, Verdicts: policy.DefaultsRun().Verdicts}, layers...)
	for rel, want := range map[string]bool{".copilot-bridge/dashboard.key": false, ".copilot-bridge/serve.token": false, ".copilot-bridge/timelines/s.jsonl": false, ".copilot-bridge/live/1-a/process.json": false, ".copilot-bridge/fleet/worker/user.nk": false, ".copilot-bridge/fleet/hub/account.nk": false, ".copilot-bridge/config.yaml": true, "x.go": true} {
		if _, denied := p.ReadDenied(rel); denied == want {
			t.Errorf("%s may be read: %v", rel, !denied)
		}
	}
	if layers, err := unreadableKeys(c, filepath.Join(root, "src")); layers != nil || err != nil {
		t.Errorf("elsewhere: %v, %v", layers, err)
	}
}
