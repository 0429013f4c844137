package acp

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/agent/environ"
	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// secretNames are the variables that Copilot must not hand to its shells.
var secretNames = []string{"COPILOT_PROVIDER_API_KEY", "COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"}

// command returns the arguments and the environment of the program.
func (o *Options) command() (args, env []string, err error) {
	if !o.Copilot {
		return o.Args, environ.Plain(o.Env, true), nil
	}
	args = slices.Clone(o.Args)
	if len(args) > 0 && args[0] == "agent" {
		args = args[1:] // as older descriptions have it; the CLI refuses it
		o.Logger.Warn("the Copilot CLI has no sub-command \"agent\"; it is started without")
	}
	for _, a := range args {
		name, _, _ := strings.Cut(a, "=")
		if slices.Contains(unasked, name) {
			return nil, nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "the argument " + name + " would let Copilot act without asking, past the policy",
				Remedy: "take it out of ABP_COPILOT_ACP_ARGS and ABP_COPILOT_ARGS; allow what you need in the policy file"}
		}
	}
	args = append(args, "--no-auto-update", "--disallow-temp-dir", "--no-custom-instructions", "--excluded-tools=lsp", "--secret-env-vars="+strings.Join(secretNames, ","))
	if err := os.MkdirAll(o.tmp(), 0o700); err != nil {
		return nil, nil, err
	}
	return args, o.environment(), nil
}

func (o *Options) tmp() string { return filepath.Join(o.Records, "tmp") }

// unasked are the arguments that switch permission requests off.
var unasked = []string{"--allow-all", "--yolo", "--allow-all-tools", "--allow-all-paths", "--allow-all-urls", "--allow-tool", "--allow-url",
	"--autopilot", "--assisted-approval", "--add-dir", "--trust-folder"}

// environment is Copilot's. Unlike the SDK the CLI takes the provider's key
// from there; it is told to keep it from its shells.
func (o *Options) environment() []string {
	env := slices.DeleteFunc(environ.Plain(o.Env, o.UseLogin), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains([]string{"COPILOT_OFFLINE", "COPILOT_MODEL", "COPILOT_ALLOW_ALL", "COPILOT_ASSISTED_APPROVAL", "COPILOT_HOME"}, name) ||
			strings.HasPrefix(name, "COPILOT_PROVIDER_")
	})
	// Copilot trusts the temporary directory whatever its arguments say, so it
	// gets one of its own, in which there is nothing of anybody else's.
	env = append(env, "TMPDIR="+o.tmp(), "TMP="+o.tmp(), "TEMP="+o.tmp())
	if o.Home != "" {
		env = append(env, "COPILOT_HOME="+o.Home)
	}
	if o.Token != "" {
		env = append(env, "COPILOT_GITHUB_TOKEN="+o.Token)
	}
	if o.Model != "" {
		env = append(env, "COPILOT_MODEL="+o.Model)
	}
	p := o.Provider
	if p == nil {
		return env
	}
	kind := p.Kind
	if kind == "ollama" {
		kind = "openai" // whose protocol it speaks
	}
	env = append(env, "COPILOT_PROVIDER_TYPE="+kind, "COPILOT_PROVIDER_BASE_URL="+p.BaseURL, "COPILOT_PROVIDER_API_KEY="+p.APIKey)
	if p.WireAPI != "" {
		env = append(env, "COPILOT_PROVIDER_WIRE_API="+p.WireAPI)
	}
	if p.AzureAPIVersion != "" {
		env = append(env, "COPILOT_PROVIDER_AZURE_API_VERSION="+p.AzureAPIVersion)
	}
	if o.Token == "" && !o.UseLogin {
		env = append(env, "COPILOT_OFFLINE=true")
	}
	return env
}
