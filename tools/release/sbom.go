package main

import (
	"debug/buildinfo"
	"encoding/json"
	"strings"
	"time"
)

// document is an SPDX 2.3 document, as far as it is used here.
type document struct {
	Version       string         `json:"spdxVersion"`
	License       string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Creation      creation       `json:"creationInfo"`
	Packages      []spdxPackage  `json:"packages"`
	Relationships []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	ID        string     `json:"SPDXID"`
	Name      string     `json:"name"`
	Version   string     `json:"versionInfo"`
	Location  string     `json:"downloadLocation"`
	Analyzed  bool       `json:"filesAnalyzed"`
	Checksums []checksum `json:"checksums,omitempty"`
	Refs      []ref      `json:"externalRefs,omitempty"`
	Comment   string     `json:"comment,omitempty"`
}

type checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type ref struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	From string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

// sboms writes the modules of each binary, which Go's linker has recorded in it.
func (r *release) sboms() error {
	for _, a := range r.of("Binary") {
		info, err := buildinfo.ReadFile(a.Path)
		if err != nil {
			return err
		}
		sum, err := sha256Of(a.Path)
		if err != nil {
			return err
		}
		name := "copilot-bridge_" + r.Version + "_" + a.OS + "_" + a.Arch
		d := document{Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: name,
			Namespace: "https://github.com/copilot-bridge/copilot-bridge/spdx/" + name + "-" + sum,
			Creation:  creation{Created: r.Date.Format(time.RFC3339), Creators: []string{"Organization: Copilot Bridge", "Tool: tools/release"}}}
		d.add(spdxPackage{ID: "SPDXRef-program", Name: "copilot-bridge", Version: r.Version, Location: "https://github.com/copilot-bridge/copilot-bridge",
			Checksums: []checksum{{"SHA256", sum}}, Comment: "commit " + r.Commit}, "SPDXRef-DOCUMENT", "DESCRIBES")
		d.add(spdxPackage{ID: "SPDXRef-go", Name: "stdlib", Version: strings.TrimPrefix(info.GoVersion, "go"), Location: "https://go.dev/dl/",
			Refs: purl("stdlib", strings.TrimPrefix(info.GoVersion, "go"))}, "SPDXRef-program", "CONTAINS")
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			d.add(spdxPackage{ID: "SPDXRef-" + strings.NewReplacer("/", "-", "_", "-").Replace(m.Path), Name: m.Path, Version: m.Version, Location: "https://pkg.go.dev/" + m.Path + "@" + m.Version,
				Refs: purl(m.Path, m.Version), Comment: "go.sum " + m.Sum}, "SPDXRef-program", "CONTAINS")
		}
		data, err := json.MarshalIndent(d, "", "  ")
		if err != nil {
			return err
		}
		if err := r.write(name+".spdx.json", append(data, '\n')); err != nil {
			return err
		}
	}
	return nil
}

func (d *document) add(p spdxPackage, from, kind string) {
	d.Packages = append(d.Packages, p)
	d.Relationships = append(d.Relationships, relationship{from, kind, p.ID})
}

func purl(path, version string) []ref {
	return []ref{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + version}}
}
