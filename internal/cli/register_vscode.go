package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	programs "github.com/copilot-bridge/copilot-bridge/internal/program"
)

// extensionID is what VS Code calls the extension.
const extensionID = "copilot-bridge.copilot-bridge"

// editorWithin is how long an editor's command may take.
const editorWithin = 2 * time.Minute

// editors are the programs that install extensions, in the order of preference.
var editors = []string{"code", "code-insiders", "codium", "code-server"}

// vscodeOptions are the flags of register and unregister vscode.
type vscodeOptions struct {
	vsix, editor string
}

func (p *program) registerVSCodeCommand() *cobra.Command {
	o := &vscodeOptions{}
	cmd := p.command(&cobra.Command{
		Use:   "vscode",
		Short: "Install the extension in VS Code",
		Long: `Install the Copilot Bridge extension in VS Code. It serves VS Code's models over OpenAI's and
Anthropic's APIs; see docs/guides/vscode.md. The .vsix file is looked for beside this
program and in the bridge's home. The first of ` + strings.Join(editors, ", ") + ` on the PATH
installs it, replacing an older version.`,
		Example: `  copilot-bridge register vscode
  copilot-bridge register vscode --vsix ~/Downloads/` + vsixName() + `
  copilot-bridge register vscode --editor code-server`,
	}, func(ctx context.Context, c call) error { return p.registerVSCode(ctx, c.cfg, o) })
	cmd.Flags().StringVar(&o.vsix, "vsix", "", "`FILE` with the extension")
	must(cmd.MarkFlagFilename("vsix", "vsix"))
	o.commonFlags(flagsOf(cmd))
	return cmd
}

func (p *program) unregisterVSCodeCommand() *cobra.Command {
	o := &vscodeOptions{}
	cmd := p.command(&cobra.Command{
		Use:   "vscode",
		Short: "Remove the extension from VS Code",
		Long: `Remove the Copilot Bridge extension from VS Code. Open windows keep it
until they are reloaded.`,
		Example: `  copilot-bridge unregister vscode
  copilot-bridge unregister vscode --editor codium`,
	}, func(ctx context.Context, c call) error { return p.unregisterVSCode(ctx, o) })
	o.commonFlags(flagsOf(cmd))
	return cmd
}

func (o *vscodeOptions) commonFlags(f flagSet) {
	f.StringVar(&o.editor, "editor", "", "`PROGRAM` of the editor, by name or path")
	f.complete("editor", fixedCompletions(editors))
	f.json("write the result as a line of JSON")
}

// registered is what became of it.
type registered struct {
	Extension string `json:"extension"`
	Editor    string `json:"editor"`
	VSIX      string `json:"vsix,omitempty"`
	Installed bool   `json:"installed"`
	Before    bool   `json:"before"` // it was installed before
}

func (p *program) registerVSCode(ctx context.Context, cfg *config.Config, o *vscodeOptions) error {
	vsix, err := p.findVSIX(cfg, o.vsix)
	if err != nil {
		return err
	}
	editor, err := p.findEditor(o.editor, "install "+vsix)
	if err != nil {
		return err
	}
	before, err := p.hasExtension(ctx, editor)
	if err != nil {
		return err
	}
	if _, err := p.runEditor(ctx, editor, "--install-extension", vsix, "--force"); err != nil {
		return err
	}
	has, err := p.hasExtension(ctx, editor)
	if err == nil && !has {
		err = &bridge.Error{Code: bridge.CodeInternal, Message: editor + " says that it has installed the extension, but does not list it"}
	}
	if err != nil {
		return err
	}
	return p.show(registered{extensionID, editor, vsix, true, before},
		"✓ the extension is installed with "+editor+"\n  Reload the windows that are open, then run “Bridge: Enable” from the command palette.\n")
}

func (p *program) unregisterVSCode(ctx context.Context, o *vscodeOptions) error {
	editor, err := p.findEditor(o.editor, "uninstall “Copilot Bridge”")
	if err != nil {
		return err
	}
	before, err := p.hasExtension(ctx, editor)
	if err == nil && before {
		_, err = p.runEditor(ctx, editor, "--uninstall-extension", extensionID)
	}
	if err != nil {
		return err
	}
	text := "✓ the extension is removed from " + editor + "\n"
	if !before {
		text = "the extension is not installed in " + editor + "\n"
	}
	return p.show(registered{Extension: extensionID, Editor: editor, Before: before}, text)
}

// vsixName is what the extension for this platform is called.
func vsixName() string {
	platform := strings.NewReplacer("windows", "win32", "amd64", "x64").Replace(runtime.GOOS + "-" + runtime.GOARCH)
	return "copilot-bridge-" + platform + ".vsix"
}

// findVSIX finds the extension's file. It cannot be part of this program, of
// which it holds a copy.
func (p *program) findVSIX(cfg *config.Config, given string) (string, error) {
	if given != "" {
		given = p.path(given)
		if info, err := os.Stat(given); err != nil || !info.Mode().IsRegular() {
			return "", &bridge.Error{Code: bridge.CodeNotFound, Message: "there is no file " + given, Remedy: "name the extension's .vsix file"}
		}
		return given, nil
	}
	beside := filepath.Dir(p.env.Executable)
	looked := []string{filepath.Join(beside, vsixName()), filepath.Join(beside, "..", "build", "vsix", vsixName()), cfg.Path("vscode", vsixName())}
	for _, path := range looked {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return filepath.Clean(path), nil
		}
	}
	return "", &bridge.Error{Code: bridge.CodeNotFound, Message: "the extension " + vsixName() + " is neither beside this program nor in " + cfg.Path("vscode"),
		Remedy: "give it with --vsix FILE; `make vsix` builds it"}
}

// findEditor finds the program that installs extensions. by is what to do by
// hand if there is none.
func (p *program) findEditor(given, by string) (string, error) {
	names := editors
	if given != "" {
		names = []string{given}
	}
	for _, name := range names {
		if strings.ContainsAny(name, `/\`) {
			name = p.path(name)
		}
		if path, err := programs.Find(name, p.env.Environ); err == nil {
			return path, nil
		}
	}
	message := "none of " + strings.Join(editors, ", ") + " is on the PATH"
	if given != "" {
		message = given + " is not there, or cannot be run"
	}
	return "", &bridge.Error{Code: bridge.CodeNotFound, Message: message,
		Remedy: "in VS Code run “Shell Command: Install 'code' command in PATH” from the command palette, or " + by + " in its Extensions view"}
}

// hasExtension says whether an editor has the extension.
func (p *program) hasExtension(ctx context.Context, editor string) (bool, error) {
	out, err := p.runEditor(ctx, editor, "--list-extensions")
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(strings.Fields(out), func(id string) bool { return strings.EqualFold(id, extensionID) }), nil
}

// runEditor runs an editor's command and returns what it prints.
func (p *program) runEditor(ctx context.Context, editor string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, editorWithin)
	defer cancel()
	c, err := programs.New(programs.Place{Dir: p.env.Dir, Env: p.editorEnviron()}, editor, args...)
	if err != nil {
		return "", err
	}
	out, fault := &programs.Head{Limit: 1 << 20}, &programs.Tail{Limit: 2000}
	exit, err := c.Run(ctx, programs.RunOptions{Stdout: out, Stderr: fault})
	if err == nil {
		err = exit.Err()
	}
	if err != nil {
		if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return "", context.Cause(ctx)
		}
		return "", &bridge.Error{Code: bridge.CodeUnavailable, Message: fmt.Sprintf("%s %s failed", editor, args[0]),
			Cause:  errors.Join(err, errors.New(strings.TrimSpace(fault.String()))),
			Remedy: "try the same command by hand"}
	}
	return out.String(), nil
}

// editorEnviron is the environment without the bridge's secrets.
func (p *program) editorEnviron() []string {
	return slices.DeleteFunc(slices.Clone(p.env.Environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return strings.HasPrefix(name, "COPILOT_") || strings.HasPrefix(name, "OPENCLAW_") || strings.HasPrefix(name, "ABP_")
	})
}
