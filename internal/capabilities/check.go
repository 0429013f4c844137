package capabilities

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The generated files of the repository, and the marks of the table in one.
const (
	documentFile = "docs/reference/capabilities.md"
	readmeFile   = "README.md"
	begin        = "<!-- capabilities: made by `make generate` -->"
	end          = "<!-- /capabilities -->"
)

// Check compares the installed runtime and the SDK with the inventory, and
// returns the differences. runtime is a package directory; sdk is the version
// of the SDK that the program was built with, or "" if it is not known; pin is
// the version of the runtime that it wants. The generated files are compared
// too, if repository has them.
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
	for name, sum := range now.Digests {
		if len(changes) == 0 && inv.Runtime.Digests[name] != sum {
			out = append(out, name+" is not the file that the inventory was made from")
		}
	}
	if _, err := os.Stat(filepath.Join(repository, filepath.FromSlash(documentFile))); err != nil {
		return out, nil //nolint:nilerr // not the bridge's own repository
	}
	err = generated(inv, record, repository, func(path, _ string) error {
		out = append(out, path+" does not show the inventory")
		return nil
	})
	return out, err
}

// Write puts the document and the README's table into a repository.
func Write(inv *Inventory, record *Record, repository string) error {
	return generated(inv, record, repository, func(path, text string) error {
		return os.WriteFile(filepath.Join(repository, filepath.FromSlash(path)), []byte(text), 0o644)
	})
}

// generated calls f for each generated file whose text has to change.
func generated(inv *Inventory, record *Record, repository string, f func(path, text string) error) error {
	document, err := Document(inv, record)
	if err != nil {
		return err
	}
	for _, path := range []string{documentFile, readmeFile} {
		now, err := os.ReadFile(filepath.Join(repository, filepath.FromSlash(path)))
		if err != nil {
			return fmt.Errorf("read a generated file: %w", err)
		}
		text := document
		if path == readmeFile {
			head, rest, ok := strings.Cut(string(now), begin)
			_, tail, closed := strings.Cut(rest, end)
			if !ok || !closed {
				return fmt.Errorf("the README has no markers %s and %s", begin, end)
			}
			text = head + begin + "\n" + FiguresTable(inv) + end + tail
		}
		if text == string(now) {
			continue
		}
		if err := f(path, text); err != nil {
			return fmt.Errorf("write a generated file: %w", err)
		}
	}
	return nil
}
