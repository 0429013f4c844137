package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
)

// version is set when a release is built:
//
//	-ldflags "-X github.com/copilot-bridge/copilot-bridge/internal/cli.version=1.2.3"
var version = "dev"

const sdkModule = "github.com/github/copilot-sdk/go"

// versionInfo is what version prints.
type versionInfo struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built from a tree that was not committed
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
	Runtime  string `json:"runtime"` // of the npm package that setup installs
	CLI      string `json:"cli"`     // likewise, with --acp
	SDK      string `json:"sdk"`
	Protocol int    `json:"protocol"`
}

func readVersion() versionInfo {
	v := versionInfo{Version: version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		Runtime: copilotruntime.RuntimeVersion, CLI: copilotruntime.CLIVersion, Protocol: copilotruntime.Protocol, SDK: "unknown"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if m := info.Main.Version; v.Version == "dev" && m != "" && m != "(devel)" {
		v.Version = m // built by `go install …@version`
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	for _, d := range info.Deps {
		if d.Path == sdkModule {
			v.SDK = d.Version
		}
	}
	return v
}

func buildVersion() string { return readVersion().Version }

func (p *program) versionCommand() *cobra.Command {
	cmd := complete(&cobra.Command{
		Use:     "version",
		Short:   "Print version information",
		Example: "  copilot-bridge version\n  copilot-bridge version --json",
		RunE: func(*cobra.Command, []string) error {
			v := readVersion()
			return p.show(v, v.String())
		},
	})
	flagsOf(cmd).json("write JSON")
	return cmd
}

// String is the information for people.
func (v versionInfo) String() string {
	commit := ""
	if v.Commit != "" {
		commit = " (" + v.Commit[:min(12, len(v.Commit))]
		if v.Modified {
			commit += ", modified"
		}
		commit += ")"
	}
	return fmt.Sprintf("copilot-bridge %s%s\n%s %s/%s\nCopilot runtime package %s, Copilot CLI package %s, SDK %s, protocol %d\n",
		v.Version, commit, v.Go, v.OS, v.Arch, v.Runtime, v.CLI, v.SDK, v.Protocol)
}
