package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	programs "github.com/copilot-bridge/copilot-bridge/internal/program"
)

const (
	programModule = "github.com/copilot-bridge/copilot-bridge/cmd/copilot-bridge"
	releasesPage  = "https://github.com/copilot-bridge/copilot-bridge/releases"
)

func (p *program) upgradeCommand() *cobra.Command {
	cmd := p.command(&cobra.Command{
		Use:   "upgrade",
		Short: "Say how to upgrade this program",
		Long: `Say how this program was installed, and the commands that upgrade it. Nothing is changed, and
nothing is asked of the network. Copilot's runtime is upgraded with the program.`,
		Example: "  copilot-bridge upgrade\n  copilot-bridge upgrade --json | jq -r .upgrade",
	}, func(ctx context.Context, _ call) error {
		i, err := p.installation(ctx)
		if err != nil {
			return err
		}
		return p.show(i, fmt.Sprintf("copilot-bridge %s is %s: %s\nupgrade it so:\n  %s\nservers that are running keep their version: stop and start them (copilot-bridge ps)\n", i.Version, i.How, p.short(i.Program), i.Upgrade))
	})
	flagsOf(cmd).json("write JSON")
	return cmd
}

// installation is how this program came to this machine.
type installation struct {
	Version string `json:"version"`
	Program string `json:"program"`
	How     string `json:"how"`
	Upgrade string `json:"upgrade"` // what to do
	Remove  string `json:"remove"`
}

func (p *program) installation(ctx context.Context) (installation, error) {
	if err := p.requireExecutable(); err != nil {
		return installation{}, err
	}
	at, err := filepath.EvalSymlinks(p.env.Executable)
	if err != nil {
		at = p.env.Executable // it was replaced while it runs
	}
	i := installation{Version: buildVersion(), Program: at}
	slashed := filepath.ToSlash(at)
	switch {
	case strings.Contains(slashed, "/Cellar/"):
		i.How, i.Upgrade, i.Remove = "installed with Homebrew", "brew update && brew upgrade copilot-bridge", "brew uninstall copilot-bridge"
		return i, nil
	case strings.Contains(slashed, "/extensions/"+extensionID+"-"):
		i.How, i.Upgrade, i.Remove = "part of the extension of VS Code", "install the new extension: copilot-bridge register vscode --vsix FILE", "copilot-bridge unregister vscode"
		return i, nil
	}
	if p.packaged(ctx, &i) {
		return i, nil
	}
	info, ok := debug.ReadBuildInfo()
	switch {
	case ok && version == "dev" && fromCheckout(info):
		i.How, i.Upgrade, i.Remove = "built from source", "git pull && make build, in the checkout", "rm "+shellWord(at)
	case ok && version == "dev":
		i.How, i.Upgrade, i.Remove = "installed with go install", "go install "+programModule+"@latest", "rm "+shellWord(at)
	default:
		i.How, i.Remove = "unpacked from an archive", "rm "+shellWord(at)
		i.Upgrade = fmt.Sprintf("unpack copilot-bridge_VERSION_%s_%s from %s, check it with checksums.txt, and replace %s", runtime.GOOS, runtime.GOARCH, releasesPage, at)
	}
	return i, nil
}

// fromCheckout: `go install` of a version knows no commit, and `go test` no version.
func fromCheckout(info *debug.BuildInfo) bool {
	for _, s := range info.Settings {
		if s.Key == "vcs" {
			return true
		}
	}
	return info.Main.Version == "" || info.Main.Version == "(devel)"
}

// packaged asks the package managers of this machine whose file the program is.
func (p *program) packaged(ctx context.Context, i *installation) bool {
	for _, m := range []struct {
		ask          []string
		what, format string
		install      string
		remove       string
	}{
		{[]string{"dpkg-query", "-S", i.Program}, "Debian", "deb", "sudo apt install ./", "sudo apt remove "},
		{[]string{"rpm", "-qf", "--qf", "%{NAME}:", i.Program}, "RPM", "rpm", "sudo dnf install ./", "sudo dnf remove "},
		{[]string{"apk", "info", "--quiet", "--who-owns", i.Program}, "Alpine", "apk", "sudo apk add --allow-untrusted ./", "sudo apk del "},
	} {
		name := p.owner(ctx, m.ask)
		if name == "" {
			continue
		}
		file := fmt.Sprintf("%s_VERSION_%s_%s.%s", name, runtime.GOOS, runtime.GOARCH, m.format)
		i.How = fmt.Sprintf("installed with the %s package %s", m.what, name)
		i.Upgrade = fmt.Sprintf("download %s from %s, then: %s%s", file, releasesPage, m.install, file)
		i.Remove = m.remove + name
		return true
	}
	return false
}

// owner is the package that a package manager names, "" for none.
func (p *program) owner(ctx context.Context, ask []string) string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd, err := programs.New(programs.Place{Env: p.env.Environ}, ask[0], ask[1:]...)
	if err != nil {
		return "" // this machine has another one
	}
	told := &programs.Head{Limit: 4 << 10}
	if exit, err := cmd.Run(ctx, programs.RunOptions{Stdout: told}); err != nil || exit.Err() != nil {
		return ""
	}
	name, _, _ := strings.Cut(strings.TrimSpace(told.String()), ":")
	return name
}

func shellWord(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
