package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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
	"github.com/copilot-bridge/copilot-bridge/internal/serves"
)

// serviceOptions are the flags of service install.
type serviceOptions struct {
	workspace, port   string
	readWrite, dryRun bool
}

func (p *program) serviceCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "service",
		Short: "Have a server that starts with your login",
		Long: `Install a service of your own that runs copilot-bridge serve from your login on: a user unit
of systemd on Linux, an agent of launchd on macOS. It needs no root.`,
		Example: `  copilot-bridge service install --workspace ~/src/app
  copilot-bridge service status
  copilot-bridge service uninstall`,
	}, p.serviceInstallCommand(), p.serviceUninstallCommand(), p.serviceStatusCommand())
}

func (p *program) serviceInstallCommand() *cobra.Command {
	o := &serviceOptions{}
	cmd := p.command(&cobra.Command{
		Use:   "install",
		Short: "Install the service and start it",
		Long: `Install the service and start it; an installed one is replaced. It has this PATH and reads
your configuration. Other variables of the environment, such as tokens, are not passed on:
write what it needs to config.yaml. Its log is shown by copilot-bridge logs.

Where nobody is logged in on Linux, it needs: loginctl enable-linger`,
		Example: `  copilot-bridge service install
  copilot-bridge service install --workspace ~/src/app --port 8790 --read-write
  copilot-bridge service install --dry-run`,
	}, func(ctx context.Context, c call) error { return p.serviceInstall(ctx, c.cfg, o) })
	f := flagsOf(cmd)
	f.dir(&o.workspace, "workspace", "w", "`DIR` that agent/… models work in (default: the current directory)")
	f.text(&o.port, "port", "`PORT` to listen on (default: serve.port of the configuration)")
	f.BoolVar(&o.readWrite, "read-write", false, "let agent/… models write in the workspace")
	f.BoolVarP(&o.dryRun, "dry-run", "n", false, "print the file that would be written, and change nothing")
	return cmd
}

func (p *program) serviceUninstallCommand() *cobra.Command {
	return p.command(&cobra.Command{
		Use: "uninstall", Short: "Stop the service and remove it", Example: "  copilot-bridge service uninstall",
	}, func(ctx context.Context, c call) error {
		s, err := p.service(c.cfg)
		if err != nil {
			return err
		}
		if !s.installed() {
			return p.print("no service is installed; nothing was changed\n")
		}
		return p.serviceUninstall(ctx, c.cfg, s)
	})
}

func (p *program) serviceStatusCommand() *cobra.Command {
	cmd := p.command(&cobra.Command{
		Use: "status", Short: "Say whether the service is installed and runs",
		Example: "  copilot-bridge service status\n  copilot-bridge service status --json",
	}, func(_ context.Context, c call) error {
		s, err := p.service(c.cfg)
		if err != nil {
			return err
		}
		status := struct {
			Installed bool          `json:"installed"`
			File      string        `json:"file"`
			Running   *serves.Serve `json:"running"`
		}{s.installed(), s.file, nil}
		text := "not installed; install it with: copilot-bridge service install\n"
		if status.Installed {
			text = "installed as " + p.short(s.file) + "; not running: see copilot-bridge logs\n"
		}
		running, err := s.running(c.cfg)
		if err != nil {
			return err
		}
		if len(running) > 0 {
			status.Running = &running[0]
			text = "installed as " + p.short(s.file) + "; running:\n" + p.serveTable(running)
		}
		return p.show(status, text)
	})
	flagsOf(cmd).json("write JSON")
	return cmd
}

// service is the user's service, as a system starts it.
type service struct {
	system string // as in runtime.GOOS
	file   string // that describes it
	log    string
	start  [][]string // commands
	stop   [][]string
}

// launchdLabel is the name of launchd's agent.
const launchdLabel = "io.github.copilot-bridge"

func (p *program) service(cfg *config.Config) (*service, error) {
	return p.serviceOn(runtime.GOOS, cfg)
}

func (p *program) serviceOn(system string, cfg *config.Config) (*service, error) {
	s := &service{system: system, log: filepath.Join(serves.Dir(cfg.Home), "serve-service.log")}
	switch {
	case p.env.HomeDir == "":
		return nil, &bridge.Error{Code: bridge.CodeUnavailable, Message: "a service needs a home directory, and none is known", Remedy: "set HOME"}
	case system == "linux":
		dir := p.env.get("XDG_CONFIG_HOME")
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(p.env.HomeDir, ".config")
		}
		s.file = filepath.Join(dir, "systemd", "user", "copilot-bridge.service")
		s.start = [][]string{{"systemctl", "--user", "daemon-reload"}, {"systemctl", "--user", "enable", "copilot-bridge.service"}, {"systemctl", "--user", "restart", "copilot-bridge.service"}}
		s.stop = [][]string{{"systemctl", "--user", "disable", "--now", "copilot-bridge.service"}}
	case system == "darwin":
		s.file = filepath.Join(p.env.HomeDir, "Library", "LaunchAgents", launchdLabel+".plist")
		domain := fmt.Sprintf("gui/%d", os.Getuid())
		s.start = [][]string{{"launchctl", "bootstrap", domain, s.file}}
		s.stop = [][]string{{"launchctl", "bootout", domain + "/" + launchdLabel}}
	default:
		return nil, &bridge.Error{Code: bridge.CodeUnsupported, Message: "there are services for Linux (systemd) and macOS (launchd) only",
			Remedy: "have the Task Scheduler start `copilot-bridge serve` when you log on"}
	}
	return s, nil
}

func (s *service) installed() bool {
	_, err := os.Stat(s.file)
	return err == nil
}

// running is the server of the service, if it runs.
func (s *service) running(cfg *config.Config) ([]serves.Serve, error) {
	list, err := serves.List(cfg.Home)
	return slices.DeleteFunc(list, func(one serves.Serve) bool { return one.Log != s.log }), err
}

func (p *program) serviceInstall(ctx context.Context, cfg *config.Config, o *serviceOptions) error {
	dir, err := p.directory(o.workspace, "--workspace")
	if err == nil {
		err = p.requireExecutable()
	}
	if err != nil {
		return err
	}
	s, err := p.service(cfg)
	if err != nil {
		return err
	}
	text := s.describe(p.serviceArgs(dir, s.log, o), dir, p.serviceEnvironment())
	if o.dryRun {
		return p.print("# " + s.file + "\n" + text)
	}
	if _, err := programs.New(programs.Place{Env: p.env.Environ}, s.start[0][0]); err != nil {
		return &exitError{code: exitFailed, err: &bridge.Error{Code: bridge.CodeUnsupported,
			Message: fmt.Sprintf("nothing was installed: a service needs the program %s, which this system does not have", s.start[0][0]),
			Remedy:  "have `copilot-bridge serve --detach` started when you log in, such as by your shell's profile"}}
	}
	if s.system == "darwin" && s.installed() {
		_ = p.runAll(ctx, s.stop) // launchd refuses to load it twice; it may not be loaded
	}
	if err := s.write(text); err != nil {
		return &bridge.Error{Code: bridge.CodeUnavailable, Message: "the service cannot be written to " + s.file, Remedy: "make its directory writable", Cause: err}
	}
	if err := p.runAll(ctx, s.start); err != nil {
		return &exitError{code: exitFailed, err: &bridge.Error{Code: bridge.CodeUnavailable, // not Copilot
			Message: fmt.Sprintf("the service was written to %s, and could not be started: %s", p.short(s.file), bridge.AsError(err).Message),
			Remedy:  "run this in a login session of your own: " + commandLines(s.start)}}
	}
	return p.print(fmt.Sprintf("✓ the service is installed as %s, and starts with your login\n  it serves %s; see copilot-bridge ps and copilot-bridge logs\n", p.short(s.file), p.short(dir)))
}

// serviceArgs are the program and its arguments.
func (p *program) serviceArgs(dir, log string, o *serviceOptions) []string {
	args := []string{p.env.Executable, "serve", "--workspace=" + dir, "--log=" + log}
	if o.port != "" {
		args = append(args, "--port="+o.port)
	}
	if o.readWrite {
		args = append(args, "--read-write")
	}
	return args
}

// serviceEnvironment is what a service needs of the environment, without secrets.
func (p *program) serviceEnvironment() (env [][2]string) {
	for _, name := range []string{"PATH", "COPILOT_BRIDGE_HOME"} {
		if value := p.env.get(name); value != "" {
			env = append(env, [2]string{name, value})
		}
	}
	return env
}

// write writes the file, and the log, so that it is the user's alone.
func (s *service) write(text string) error {
	for _, dir := range []string{filepath.Dir(s.file), filepath.Dir(s.log)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(log.Close(), os.WriteFile(s.file, []byte(text), 0o600))
}

// serviceUninstall removes the file also where the system does not know the service.
func (p *program) serviceUninstall(ctx context.Context, cfg *config.Config, s *service) error {
	if err := p.runAll(ctx, s.stop); err != nil {
		p.log.Info("service.not_stopped", "error", err)
	}
	running, err := s.running(cfg)
	if err == nil {
		err = p.stopServers(ctx, cfg, running)
	}
	if err != nil {
		return err
	}
	if err := os.Remove(s.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return p.print("✓ removed the service " + p.short(s.file) + "\n")
}

// runAll runs commands of the system until one fails.
func (p *program) runAll(ctx context.Context, commands [][]string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, line := range commands {
		cmd, err := programs.New(programs.Place{Env: p.env.Environ}, line[0], line[1:]...)
		if err != nil {
			return err
		}
		told := &programs.Head{Limit: 4 << 10}
		exit, err := cmd.Run(ctx, programs.RunOptions{Stdout: told, Stderr: told})
		if err == nil && exit.Err() != nil {
			err = &bridge.Error{Code: bridge.CodeUnavailable, Message: fmt.Sprintf("`%s`: %s", strings.Join(line, " "), strings.TrimSpace(told.String()))}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func commandLines(commands [][]string) string {
	var lines []string
	for _, c := range commands {
		lines = append(lines, strings.Join(c, " "))
	}
	return strings.Join(lines, " && ")
}
