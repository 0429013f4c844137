package app

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/dashboard"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/policy"
)

// The kinds of places where rules are written.
const (
	fromDefault     = "default"
	fromUser        = "user file"
	fromWorkspace   = "workspace file"
	fromSettings    = "configuration"
	fromEnvironment = "environment"
	fromFlag        = "command line"
	fromOther       = "other"
)

// alwaysKey is the setting with tools that need no consent.
const alwaysKey = "abp.permission_allow_always_tools"

// directory is where a question about the policy is asked.
func (r *records) directory(dir string) (string, error) {
	dir = cmp.Or(dir, r.workspace)
	found, err := filepath.EvalSymlinks(dir)
	if err != nil || !filepath.IsAbs(dir) {
		return "", &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("there is no directory %.200q", dir), Remedy: "name an existing directory by its absolute path"}
	}
	return found, nil
}

// Policy tells every rule that sessions in a directory begin with, and where each is
// written.
func (r *records) Policy(_ context.Context, dir string) (dashboard.Policy, error) {
	dir, err := r.directory(dir)
	if err != nil {
		return dashboard.Policy{}, err
	}
	p := dashboard.Policy{Dir: dir, Defaults: map[string]string{}}
	o := r.origins(dir)
	defaults := policy.DefaultsRun()
	for _, kind := range slices.Sorted(maps.Keys(defaults.Verdicts)) {
		verdict := defaults.Verdicts[kind].String()
		p.Defaults[string(kind)] = verdict
		p.Rules = append(p.Rules, dashboard.PolicyRule{List: "default", Rule: string(kind), Verdict: verdict, Source: o.of(defaults.Source)})
	}
	readOnly := dashboard.PolicyRule{List: "readOnly", Rule: "true, for clients of serve", Verdict: policy.Deny.String(), Source: o.of(defaults.Source)}
	if defaults.ReadOnly = !r.readWrite; r.readWrite {
		readOnly.Rule, readOnly.Verdict = "false, for clients of serve", policy.Allow.String()
		readOnly.Source = dashboard.PolicySource{Kind: fromFlag, File: "--read-write", Trusted: true}
	}
	p.Rules = append(p.Rules, readOnly)
	never, asked := policy.Protected()
	for i, glob := range slices.Concat(never, asked) {
		rule := dashboard.PolicyRule{List: "protected", Rule: glob, Verdict: policy.Deny.String(), Source: o.of(defaults.Source)}
		if i >= len(never) {
			rule.Verdict = policy.Ask.String()
		}
		p.Rules = append(p.Rules, rule)
	}
	for _, tool := range r.bridge.opts.Config.ABP.AllowAlwaysTools {
		p.Rules = append(p.Rules, dashboard.PolicyRule{List: alwaysKey, Rule: tool, Verdict: policy.Allow.String(), Source: o.setting})
	}
	layers := r.files(&p, dir, o)
	p.ReadOnly, _ = policy.Combine(defaults, layers...).ReadOnly()
	return p, nil
}

// files adds the policy files of a directory and their rules.
func (r *records) files(p *dashboard.Policy, dir string, o origins) (layers []policy.Layer) {
	home := r.bridge.opts.Config.Home
	user, userErr := policy.LoadUser(home)
	local, trusted, localErr := policy.LoadTrusted(home, dir)
	for _, f := range []struct {
		kind, path string
		file       *policy.File
		trusted    bool
		err        error
	}{{fromUser, o.user, user, true, userErr}, {fromWorkspace, o.workspace, local, trusted, localErr}} {
		about := dashboard.PolicyFile{Kind: f.kind, Path: f.path, Exists: f.file != nil || f.err != nil, Trusted: f.trusted}
		if f.err != nil {
			e := bridge.AsError(f.err)
			about.Error = strings.TrimSpace(e.Error() + ". " + e.Remedy)
			p.Error = cmp.Or(p.Error, "the policy cannot be used, so everything is denied: "+about.Error)
		}
		if f.file != nil {
			rules := fileRules(f.file, f.trusted, o)
			about.Rules = len(rules)
			p.Rules = append(p.Rules, rules...)
			layers = append(layers, f.file.Layer(f.trusted))
		}
		p.Files = append(p.Files, about)
	}
	return layers
}

func fileRules(file *policy.File, trusted bool, o origins) (out []dashboard.PolicyRule) {
	if only := file.Rules.ReadOnly; only != nil {
		rule := dashboard.PolicyRule{List: "readOnly", Rule: fmt.Sprint(*only), Verdict: policy.Deny.String(), Source: o.of(file.Rules.ReadOnlySource)}
		if !*only {
			rule.Verdict, rule.Ignored = policy.Allow.String(), !trusted
		}
		out = append(out, rule)
	}
	for _, list := range slices.Sorted(maps.Keys(file.Rules.Lists)) {
		for _, r := range file.Rules.Lists[list] {
			rule := dashboard.PolicyRule{List: list, Rule: r.Pattern, Verdict: policy.Allow.String(), Source: o.of(r.Source), Ignored: !trusted && policy.Eases(list)}
			switch {
			case strings.HasSuffix(list, ".deny"):
				rule.Verdict = policy.Deny.String()
			case strings.HasSuffix(list, ".ask"):
				rule.Verdict = policy.Ask.String()
			}
			out = append(out, rule)
		}
	}
	return out
}

// origins tell where a rule is written, by the name of its source.
type origins struct {
	user, workspace string
	trusted         bool // the workspace's file
	setting         dashboard.PolicySource
}

func (r *records) origins(dir string) origins {
	c := r.bridge.opts.Config
	home := c.Home
	if found, err := filepath.EvalSymlinks(home); err == nil {
		home = found
	}
	o := origins{user: filepath.Join(home, policy.UserFile), workspace: filepath.Join(dir, policy.WorkspaceFile)}
	_, o.trusted, _ = policy.LoadTrusted(c.Home, dir) // whether the file can be read is told elsewhere
	at := c.Origin(alwaysKey)
	o.setting = dashboard.PolicySource{Kind: fromSettings, File: at.Where, Trusted: true}
	switch at.Source {
	case config.SourceEnvironment, config.SourceDotEnv:
		o.setting.Kind = fromEnvironment
	case config.SourceFlag:
		o.setting.Kind = fromFlag
	case config.SourceDefault, config.SourceFile:
	}
	return o
}

func (o origins) of(s policy.Source) dashboard.PolicySource {
	switch s.Name {
	case o.user:
		return dashboard.PolicySource{Kind: fromUser, File: s.Name, Line: s.Line, Trusted: true}
	case o.workspace:
		return dashboard.PolicySource{Kind: fromWorkspace, File: s.Name, Line: s.Line, Trusted: o.trusted}
	case guard.ConfigurationSource:
		return o.setting
	case policy.DefaultsRun().Source.Name, "built-in", "":
		return dashboard.PolicySource{Kind: fromDefault, Trusted: true}
	}
	return dashboard.PolicySource{Kind: fromOther, File: s.Name, Line: s.Line}
}

// TestPolicy says what `policy test` says.
func (r *records) TestPolicy(_ context.Context, dir string, in dashboard.PolicyCall) (v dashboard.PolicyVerdict, err error) {
	if dir, err = r.directory(dir); err != nil {
		return v, err
	}
	call := bridge.ToolCall{ID: "test", Name: in.Tool, Args: in.Args}
	if in.Words != "" {
		if call, err = parseWords(in.Words); err != nil {
			return v, err
		}
	} else if in.Args == nil {
		call.Args = map[string]any{}
	}
	b := &Bridge{opts: r.bridge.opts, wall: r.bridge.wall}
	out, confined, err := b.testPolicy(dir, call)
	if err != nil {
		return v, err
	}
	v = dashboard.PolicyVerdict{Tool: call.Name, Args: call.Args, Verdict: out.Verdict.String(), Reason: out.Reason, Rule: out.Rule.Key, Pattern: out.Rule.Pattern,
		Source: r.origins(dir).of(out.Rule.Source), Confined: confined}
	for _, a := range out.Lasting {
		v.Always = append(v.Always, a.String())
	}
	return v, nil
}

// parseWords is ParseCall that takes an address or a path alone for one to be read.
func parseWords(words string) (bridge.ToolCall, error) {
	word := strings.TrimSpace(words)
	starts := func(prefixes ...string) bool {
		return !strings.ContainsAny(word, " \t\n") && slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(word, p) })
	}
	switch {
	case starts("https://", "http://"):
		word = "web_fetch " + word
	case starts("/", "./", "../", "~/"):
		word = "view " + word
	}
	return ParseCall(word)
}

// subjects are the tools that ParseCall knows by a word, and what that word is.
var subjects = map[string]string{"bash": "command", "view": "path", "create": "path", "edit": "path", "glob": "pattern", "grep": "pattern", "web_fetch": "url"}

// ParseCall reads a call as people type it: TOOL {JSON}, TOOL SUBJECT or TOOL:
// SUBJECT for the best known tools, or a command line.
func ParseCall(words string) (bridge.ToolCall, error) {
	words = strings.TrimSpace(words)
	name, rest, _ := strings.Cut(words, " ")
	name, colon := strings.CutSuffix(name, ":")
	rest = strings.TrimSpace(rest)
	call := bridge.ToolCall{ID: "test", Name: name}
	subject, known := subjects[name]
	switch {
	case words == "":
		return call, &bridge.Error{Code: bridge.CodeInvalid, Message: "the call is empty", Remedy: "see `copilot-bridge policy test --help`"}
	case known && colon && rest != "":
		call.Args = map[string]any{subject: rest}
	case strings.HasPrefix(rest, "{"):
		args := map[string]any{}
		if err := json.Unmarshal([]byte(rest), &args); err != nil {
			return call, &bridge.Error{Code: bridge.CodeInvalid, Message: "the arguments of " + name + " are not JSON", Cause: err, Remedy: "put the whole call in single quotes"}
		}
		call.Args = args
	case known && rest != "" && (name != "grep" || !strings.Contains(rest, " ")):
		call.Args = map[string]any{subject: rest}
	default:
		call.Name, call.Args = "bash", map[string]any{"command": words}
	}
	return call, nil
}
