package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	programs "github.com/copilot-bridge/copilot-bridge/internal/program"
)

func (p *program) configEditCommand() *cobra.Command {
	return complete(&cobra.Command{
		Use:   "edit",
		Short: "Edit config.yaml, and check it before it counts",
		Long: `Open config.yaml in $VISUAL or $EDITOR (otherwise vi, or Notepad on Windows). What you save
counts only if it is valid; if not, you can edit it again. The old file stays until then.
Without a config.yaml you begin with the one that config init writes.`,
		Example: `  copilot-bridge config edit
  EDITOR="code --wait" copilot-bridge config edit`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, in := p.interruptible(cmd.Context())
			defer in.stop()
			return p.editConfig(ctx, p.loadOptions(cmd))
		},
	})
}

func (p *program) editConfig(ctx context.Context, o config.Options) error {
	path, err := config.FilePath(o)
	if err != nil {
		return err
	}
	old, err := os.ReadFile(path)
	start := old
	if errors.Is(err, os.ErrNotExist) {
		old, start, err = nil, config.Template(), os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err != nil {
		return err
	}
	// In the same directory, so that relative paths mean the same; its name
	// tells editors the language.
	draft := filepath.Join(filepath.Dir(path), "config.draft.yaml")
	if err := os.WriteFile(draft, start, 0o600); err != nil {
		return err
	}
	for {
		data, err := p.edited(ctx, draft)
		if err != nil {
			return err
		}
		if bytes.Equal(data, start) {
			p.console.Line("Nothing was changed.")
			return os.Remove(draft)
		}
		_, err = config.Rewrite(ctx, o, func(file string, now []byte) ([]byte, error) {
			if !bytes.Equal(now, old) {
				return nil, &bridge.Error{Code: bridge.CodeBusy, Message: file + " was changed by another program meanwhile, and stays so", Remedy: "Your version is in " + draft + "."}
			}
			return data, nil
		})
		if err == nil {
			p.console.Line("✓ saved: " + approval.Visible(p.short(path)))
			return os.Remove(draft)
		}
		e := bridge.AsError(err)
		if e.Code != bridge.CodeInvalid {
			return err
		}
		p.console.Report(&bridge.Error{Code: e.Code, Message: e.Message})
		again, err := p.editAgain(ctx)
		if err != nil {
			return err
		}
		if !again {
			return &bridge.Error{Code: bridge.CodeInvalid, Message: "the configuration is not valid; the old one stays in force", Remedy: "Your version is in " + draft + "."}
		}
	}
}

func (p *program) editAgain(ctx context.Context) (bool, error) {
	k := p.keyboard()
	if k == nil {
		return false, nil
	}
	defer k.Close()
	return k.Confirm(ctx, "Edit it again?")
}

// edited lets the user edit a file and returns what they have saved.
func (p *program) edited(ctx context.Context, file string) ([]byte, error) {
	command, err := p.editor(file)
	if err != nil {
		return nil, err
	}
	var s programs.Streams
	s.In, _ = p.env.Stdin.(*os.File)
	s.Out, _ = p.env.Stdout.(*os.File)
	s.Err, _ = p.env.Stderr.(*os.File)
	running, err := command.StartForeground(s)
	if err == nil {
		stop := context.AfterFunc(ctx, func() { running.Signal(os.Kill) })
		var exit programs.Exit
		exit, err = running.Wait()
		stop()
		err = cmp.Or(context.Cause(ctx), err, exit.Err())
	}
	if err != nil {
		if ctx.Err() == nil {
			err = &bridge.Error{Code: bridge.CodeUnavailable, Message: "the editor " + command.Args[0] + " failed: " + err.Error(),
				Remedy: "Set VISUAL or EDITOR to another one. What you have saved is in " + file + "."}
		}
		return nil, err
	}
	return os.ReadFile(file)
}

// editor is the command that edits a file. A variable names a program or, as
// in EDITOR="code --wait", a program and its arguments.
func (p *program) editor(file string) (programs.Command, error) {
	for _, name := range []string{"VISUAL", "EDITOR"} {
		value := strings.TrimSpace(p.env.get(name))
		if value == "" {
			continue
		}
		words := strings.Fields(value)
		if info, err := os.Stat(value); err == nil && info.Mode().IsRegular() {
			words = []string{value}
		}
		command, err := programs.New(programs.Place{Env: p.env.Environ}, words[0], append(words[1:], file)...)
		if err != nil {
			err = &bridge.Error{Code: bridge.CodeInvalid, Message: name + " names " + words[0] + ", which was not found", Remedy: "Set " + name + " to an editor that is installed."}
		}
		return command, err
	}
	for _, name := range []string{"vi", "nano", "notepad"} {
		if command, err := programs.New(programs.Place{Env: p.env.Environ}, name, file); err == nil {
			return command, nil
		}
	}
	return programs.Command{}, &bridge.Error{Code: bridge.CodeInvalid, Message: "no editor was found", Remedy: "Set VISUAL or EDITOR to one, such as EDITOR=nano."}
}
