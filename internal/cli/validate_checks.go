package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/answers"
	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/copilotruntime"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
	programs "github.com/copilot-bridge/copilot-bridge/internal/program"
	"github.com/copilot-bridge/copilot-bridge/internal/supervise"
)

// directories checks that state can be written.
func (v *validation) directories(cfg *config.Config) {
	for _, d := range []struct{ what, path, remedy string }{
		{"home", cfg.Home, "make it writable, or choose another with COPILOT_BRIDGE_HOME"},
		{"audit log", cfg.AuditLogDir, "make it writable, or choose another with COPILOT_AUDIT_LOG_DIR"},
		{"process records", app.Records(cfg), "make it writable"},
	} {
		err := writable(d.path)
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			v.fail("state", bridge.DiskFull(d.path+" ("+d.what+")", err), exitFailed)
			continue
		}
		if err != nil {
			v.fail("state", &bridge.Error{Message: fmt.Sprintf("the directory %s (%s) cannot be written", d.path, d.what), Cause: err, Remedy: d.remedy}, exitFailed)
			continue
		}
		v.ok("state", "%s (%s) can be written", v.p.short(d.path), d.what)
	}
}

// writable tries to write to a directory or, if it is not there yet, to where
// it would be made. It writes some kilobytes: an empty file can be made on a
// full disk too. Nothing stays.
func writable(dir string) error {
	for {
		info, err := os.Stat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist) && filepath.Dir(dir) != dir:
			dir = filepath.Dir(dir)
			continue
		case err != nil:
			return pathCause(err)
		case !info.IsDir():
			return fmt.Errorf("%s is not a directory", dir)
		}
		f, err := os.CreateTemp(dir, ".copilot-bridge-check-*")
		if err != nil {
			return pathCause(err)
		}
		_, err = f.Write(make([]byte, 64<<10))
		return errors.Join(pathCause(err), f.Close(), os.Remove(f.Name()))
	}
}

func (v *validation) sessions(ctx context.Context, cfg *config.Config) {
	store := app.Store(cfg)
	var damaged atomic.Pointer[string]
	store.Tell = func(told string) { damaged.Store(&told) }
	entries, err := store.List(ctx)
	switch {
	case err != nil:
		v.fail("sessions", err, exitFailed)
	case damaged.Load() != nil:
		v.warn("sessions", *damaged.Load(), "")
	default:
		v.ok("sessions", "%s on the list", plural(len(entries), "session"))
	}
}

// leftovers ends what a killed bridge left behind.
func (v *validation) leftovers(cfg *config.Config) {
	n, err := supervise.Reap(app.Records(cfg))
	switch {
	case err != nil:
		v.warn("processes", "what a killed bridge left behind could not be ended: "+err.Error(), "look for processes with COPILOT_BRIDGE_TREE in their environment")
	case n > 0:
		v.ok("processes", "ended %s that a killed bridge had left", plural(n, "process"))
	default:
		v.ok("processes", "no leftovers of killed bridges")
	}
}

// runtime checks the runtime itself, and says whether it can be used.
func (v *validation) runtime(ctx context.Context, cfg *config.Config) bool {
	rt, err := copilotruntime.Find(ctx, copilotruntime.Options{Home: cfg.Home, CLIPath: cfg.CLIPath})
	v.npm(err == nil)
	if err != nil && v.elsewhere(ctx, cfg) {
		v.warn("runtime", err.Error(), bridge.AsError(err).Remedy)
		return true
	}
	if err != nil {
		v.fail("runtime", err, exitUnavailable)
		return false
	}
	kind := "native runtime"
	if !rt.Native {
		kind = "Copilot CLI, which is slower than the native runtime"
	}
	v.ok("runtime", "%s, from %s (%s, reports version %s)", v.p.short(rt.Path), rt.Source, kind, rt.Version)
	status, err := copilotruntime.Check(ctx, rt.Path)
	if err != nil {
		v.fail("handshake", err, exitUnavailable)
		return false
	}
	v.ok("handshake", "the runtime reports version %s, protocol %d", status.Version, status.Protocol)
	return true
}

// npm is only needed to install.
func (v *validation) npm(installed bool) {
	var missing []string
	for _, name := range []string{"node", "npm"} {
		if _, err := programs.Find(name, os.Environ()); err != nil {
			missing = append(missing, name)
		}
	}
	remedy := "install Node.js 20 or newer, which brings npm"
	switch {
	case len(missing) == 0:
		v.ok("npm", "node and npm are there")
	case installed:
		v.warn("npm", strings.Join(missing, " and ")+" not found; only needed to install the runtime", remedy)
	default:
		v.fail("npm", &bridge.Error{Message: strings.Join(missing, " and ") + " not found, which setup needs", Remedy: remedy}, exitUnavailable)
	}
}

// copilot starts the runtime under its supervisor and asks who answers.
func (v *validation) copilot(ctx context.Context, cfg *config.Config, o *validateOptions) {
	opts := v.p.options(cfg)
	opts.FindOnly = true
	b, err := v.p.start(ctx, opts)
	if err != nil {
		v.fail("start", err, exitUnavailable)
		return
	}
	defer func() {
		if err := b.Close(ctx); err != nil {
			v.warn("end", err.Error(), "")
		}
	}()
	defer v.p.progress().Begin("asking who answers")()
	v.Answers = &b.Answers
	began := time.Now()
	status, err := b.Engine.Status(ctx)
	if err != nil {
		v.fail("start", err, exitUnavailable)
		return
	}
	v.transports(b, cfg)
	if b.Answers.Kind == bridge.AnswersRunner {
		v.ok("answers", "%s", b.Answers.Detail)
		if o.turn {
			v.turn(ctx, b)
		}
		return // it is started with each turn; its login and models only it knows
	}
	v.ok("start", "%s runs under its supervisor after %s", agentName(status), view.Duration(time.Since(began)))
	if b.Answers.Kind == bridge.AnswersDemo {
		v.warn("answers", b.Answers.Detail+": NOT COPILOT", answers.InsteadOfDemo)
	} else {
		v.ok("answers", "%s", b.Answers.Detail)
	}
	loggedIn := true
	if k := b.Answers.Kind; k == bridge.AnswersDemo || k == bridge.AnswersProvider {
		v.ok("login", "not needed: GitHub is not asked")
	} else {
		loggedIn = v.login(status)
	}
	if loggedIn && v.models(ctx, b, cfg) && o.turn {
		v.turn(ctx, b)
	}
}

// login says whether there is any point in asking for the models.
func (v *validation) login(s bridge.AgentStatus) bool {
	if s.Failure != nil {
		v.fail("login", s.Failure, exitUnavailable)
		return false
	}
	if !s.Authenticated {
		detail := "not logged in"
		if s.Message != "" {
			detail += ": " + s.Message
		}
		v.fail("login", &bridge.Error{Message: detail, Remedy: "log in with `copilot-bridge login` or set a valid COPILOT_GITHUB_TOKEN"}, exitUnavailable)
		return false
	}
	detail := "by " + cmp.Or(s.AuthType, "-")
	if s.Login != "" {
		detail = "as " + s.Login + ", " + detail
	}
	if s.Host != "" {
		detail += " at " + s.Host
	}
	v.ok("login", "%s", detail)
	return true
}

// models asks for the list, which shows too that the provider is there.
func (v *validation) models(ctx context.Context, b *app.Bridge, cfg *config.Config) bool {
	models, err := b.Engine.Models(ctx)
	if err != nil {
		v.fail("models", err, exitUnavailable)
		return false
	}
	const most = 5
	var names []string
	known := cfg.Model == "" || b.Answers.Kind == bridge.AnswersDemo
	for _, m := range models {
		known = known || m.ID == cfg.Model
		if len(names) < most {
			names = append(names, m.ID)
		}
	}
	if len(models) > most {
		names = append(names, "…")
	}
	if !known {
		v.warn("models", fmt.Sprintf("the model %s is not among the %d that are listed: %s", cfg.Model, len(models), strings.Join(names, ", ")),
			"choose another with COPILOT_BRIDGE_MODEL")
		return true
	}
	v.ok("models", "%d: %s", len(models), strings.Join(names, ", "))
	return true
}

// turn lets the model answer, and forgets it again.
func (v *validation) turn(ctx context.Context, b *app.Bridge) {
	gate, err := b.Gate(app.Guarding{Workspace: v.p.env.Dir, Door: "cli", Client: "copilot-bridge", Asker: approval.Nobody{}, Defaults: policy.DefaultsRun()})
	if err != nil {
		v.fail("turn", err, exitFailed)
		return
	}
	spec := b.Spec(bridge.ProfileAgent, v.p.env.Dir)
	spec.Gate = gate
	began, first := time.Now(), time.Duration(0)
	r, err := b.Engine.RunTask(ctx, engine.Task{Prompt: bridge.Prompt{Text: "Reply with the one word: ok"},
		Request: engine.Request{Spec: spec, Door: "cli", Keep: true, Title: "validate"}}, func(ev bridge.Event) {
		if _, ok := ev.(bridge.TextDelta); ok && first == 0 {
			first = time.Since(began)
		}
	})
	if r.Session != "" {
		if err := b.Engine.Delete(context.WithoutCancel(ctx), r.Session); err != nil {
			v.p.log.Warn("validate.session_not_deleted", "error", err)
		}
	}
	if err != nil {
		v.fail("turn", err, exitUnavailable)
		return
	}
	v.ok("turn", "answered: first words after %s, all after %s, %s tokens in, %s out",
		view.Duration(first), view.Duration(time.Since(began)), view.Count(r.Usage.InputTokens), view.Count(r.Usage.OutputTokens))
}

// modules warns of settings that have no effect here.
func (v *validation) modules() {
	for _, w := range app.ModuleWarnings(v.p.env.Environ) {
		v.warn("modules", w, "")
	}
}

// transport checks what the configured way to Copilot needs, and says whether
// it can be tried. Nothing is installed.
func (v *validation) transport(ctx context.Context, cfg *config.Config) bool {
	switch cfg.ABP.Transport {
	case config.TransportACP:
		if cfg.ABP.ACPURL != "" || cfg.ABP.Cmd != "" {
			return true // whether it is there shows when it is started
		}
		rt, err := copilotruntime.FindCLI(ctx, copilotruntime.Options{Home: cfg.Home, CLIPath: cfg.CLIPath})
		v.npm(err == nil)
		if err != nil {
			v.fail("cli", err, exitUnavailable)
			return false
		}
		v.ok("cli", "%s, from %s (reports version %s)", v.p.short(rt.Path), rt.Source, rt.Version)
		return true
	case config.TransportLegacy:
		if cfg.ABP.Runner == "" && cfg.ABP.Cmd == "" {
			v.warn("runner", "no runner is configured: turns will only say so", "name one with ABP_COPILOT_RUNNER")
		}
		return true
	case config.TransportSDK, config.TransportAuto:
	}
	return v.runtime(ctx, cfg)
}

// elsewhere says whether another way to Copilot may do where the runtime is
// not there.
func (v *validation) elsewhere(ctx context.Context, cfg *config.Config) bool {
	c := cfg.ABP
	if c.Transport != config.TransportAuto {
		return false
	}
	if c.ACPURL != "" || c.Cmd != "" || c.Runner != "" {
		return true
	}
	_, err := copilotruntime.FindCLI(ctx, copilotruntime.Options{Home: cfg.Home, CLIPath: cfg.CLIPath})
	return err == nil
}

// transports says which way is in use, and why others were passed over.
func (v *validation) transports(b *app.Bridge, cfg *config.Config) {
	for _, t := range b.Transports() {
		switch {
		case t.InUse:
			v.ok("transport", "%s is in use (ABP_COPILOT_TRANSPORT is %s)", t.Name, cfg.ABP.Transport)
		case t.Failed != nil:
			v.warn("transport", t.Name+" was passed over: "+t.Failed.Error(), bridge.AsError(t.Failed).Remedy)
		}
	}
}

// agentName names the started agent for people.
func agentName(s bridge.AgentStatus) string {
	if s.Agent == "acp" {
		return "the ACP agent " + s.RuntimeVersion
	}
	return "the runtime"
}

// vscode looks for VS Code, which is optional, its extension, and the
// windows in which a bridge runs.
func (v *validation) vscode(ctx context.Context, cfg *config.Config) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var said []string
	if editor, err := v.p.findEditor("", ""); err != nil {
		said = append(said, "not found, and not needed")
	} else if has, err := v.p.hasExtension(ctx, editor); err != nil {
		said = append(said, editor+" does not say whether it has the extension")
	} else if has {
		said = append(said, "the extension is installed in "+editor)
	} else {
		said = append(said, editor+" is there, without the extension (copilot-bridge register vscode)")
	}
	windows, err := app.Windows(ctx, cfg)
	if err != nil {
		v.warn("vscode", "the list of windows cannot be read: "+err.Error(), "see that "+cfg.Path("windows")+" can be")
		return
	}
	for _, w := range windows {
		var folders []string
		for _, f := range w.Folders {
			folders = append(folders, v.p.short(f))
		}
		if len(folders) == 0 {
			folders = []string{"no folder"}
		}
		said = append(said, fmt.Sprintf("a window answers at %s: %s (process %d)", w.URL, strings.Join(folders, ", "), w.PID))
	}
	v.ok("vscode", "%s", strings.Join(said, "\n"))
}
