package capabilities

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Names of what is kept in a repository.
const (
	documentFile = "docs/copilot-capabilities.md"
	readmeFile   = "README.md"
	begin        = "<!-- capabilities: made by `make generate` -->"
	end          = "<!-- /capabilities -->"
)

// Check compares what is installed and built in with what is written down,
// and returns what differs. runtime is a package directory; sdk is the version
// of the SDK that the program was built with, or "" if it is not known; pin is
// the version of the runtime that it wants. repository is looked into for the
// document if it has one.
func Check(inv *Inventory, record *Record, runtime, sdk, pin, repository string) ([]string, error) {
	now, err := ReadSurface(runtime)
	if err != nil {
		return nil, err
	}
	var out []string
	if pin != inv.Runtime.Version {
		out = append(out, fmt.Sprintf("the pinned runtime is %s, the inventory was made from %s", pin, inv.Runtime.Version))
	}
	if sdk != "" && sdk != inv.SDK.Version {
		out = append(out, fmt.Sprintf("the SDK is %s, the inventory was made from %s", sdk, inv.SDK.Version))
	}
	if record.Runtime != inv.Runtime.Version || record.SDK != inv.SDK.Version {
		out = append(out, fmt.Sprintf("the probes ran on runtime %s and SDK %s, not on %s and %s", record.Runtime, record.SDK, inv.Runtime.Version, inv.SDK.Version))
	}
	changes := Diff(&inv.Runtime, now)
	for _, c := range changes {
		out = append(out, "the runtime's schemas: "+c.String())
	}
	if len(changes) == 0 {
		for name, sum := range now.Digests {
			if inv.Runtime.Digests[name] != sum {
				out = append(out, name+" is not the file that the inventory was made from")
			}
		}
	}
	stale, err := staleFiles(inv, record, repository)
	return append(out, stale...), err
}

func staleFiles(inv *Inventory, record *Record, repository string) ([]string, error) {
	var out []string
	written, err := os.ReadFile(filepath.Join(repository, filepath.FromSlash(documentFile)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // not in the bridge's own repository
	}
	if err != nil {
		return nil, fmt.Errorf("read the document: %w", err)
	}
	if string(written) != Document(inv, record) {
		out = append(out, documentFile+" is not what the inventory gives")
	}
	readme, err := os.ReadFile(filepath.Join(repository, readmeFile))
	if err != nil {
		return nil, fmt.Errorf("read the README: %w", err)
	}
	fresh, err := withFigures(string(readme), inv)
	if err != nil || fresh != string(readme) {
		out = append(out, readmeFile+" does not show the coverage")
	}
	return out, nil
}

// withFigures puts the table between the README's markers.
func withFigures(readme string, inv *Inventory) (string, error) {
	head, rest, ok := strings.Cut(readme, begin)
	_, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", fmt.Errorf("the README has no markers %s and %s", begin, end)
	}
	return head + begin + "\n" + FiguresTable(inv) + end + tail, nil
}

// Write puts the document and the README's table into a repository.
func Write(inv *Inventory, record *Record, repository string) error {
	if err := os.WriteFile(filepath.Join(repository, filepath.FromSlash(documentFile)), []byte(Document(inv, record)), 0o644); err != nil {
		return fmt.Errorf("write the document: %w", err)
	}
	path := filepath.Join(repository, readmeFile)
	readme, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the README: %w", err)
	}
	fresh, err := withFigures(string(readme), inv)
	if err != nil || fresh == string(readme) {
		return err
	}
	if err := os.WriteFile(path, []byte(fresh), 0o644); err != nil {
		return fmt.Errorf("write the README: %w", err)
	}
	return nil
}
