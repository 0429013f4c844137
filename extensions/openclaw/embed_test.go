package openclawplugin

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/internal/api/mcp"
)

// tools.json is what the binary says; `go generate` brings it up to date. The
// manifest names the same tools: OpenClaw silently drops those that it lacks.
func TestToolsAreTheBinarys(t *testing.T) {
	want, err := mcp.PluginTools()
	if err != nil {
		t.Fatal(err)
	}
	got, err := fs.ReadFile(Files(), "tools.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("tools.json is out of date: run go generate ./extensions/openclaw")
	}
	var list struct{ Tools []mcp.PluginTool }
	if err := json.Unmarshal(want, &list); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	var manifest struct {
		ID        string
		Contracts struct{ Tools []string }
	}
	data, err := fs.ReadFile(Files(), "openclaw.plugin.json")
	if err == nil {
		err = json.Unmarshal(data, &manifest)
	}
	if err != nil || manifest.ID != ID || !slices.Equal(manifest.Contracts.Tools, names) {
		t.Errorf("the manifest has %+v, %v; the tools are %q", manifest, err, names)
	}
}

// Every file of the plugin is in the binary, and it has no dependencies.
func TestFilesAreWhole(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), ".test.js") {
			continue
		}
		if _, err := fs.Stat(Files(), e.Name()); err != nil {
			t.Errorf("%s is not embedded: %v", e.Name(), err)
		}
	}
	data, err := fs.ReadFile(Files(), "package.json")
	if err != nil {
		t.Fatal(err)
	}
	var pkg map[string]any
	if err := json.Unmarshal(data, &pkg); err != nil || pkg["dependencies"] != nil || pkg["type"] != "module" {
		t.Errorf("%v, %v", pkg, err)
	}
}
