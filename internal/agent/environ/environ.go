// Package environ makes the environment of the programs that agents start: the
// caller's, without the bridge's own secrets. It starts no program and decides
// nothing about tools. internal/agent/sdk, internal/agent/acp and
// internal/agent/runner call it.
package environ

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Plain is an environment without the bridge's own secrets, which a program
// would hand on to every shell, and as UTF8 has it. The tokens by which programs
// log in to GitHub stay only with login.
func Plain(env []string, login bool) []string {
	return slices.DeleteFunc(UTF8(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		switch name {
		case "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_GITHUB_TOKEN":
			return !login
		case "OPENCLAW_GATEWAY_TOKEN", "COPILOT_BRIDGE_TOKEN", "COPILOT_BRIDGE_REQUEST_HEADERS", "COPILOT_BRIDGE_MCP_SERVERS", "COPILOT_CLI_PATH", "COPILOT_SDK_AUTH_TOKEN":
			return true
		}
		return strings.HasPrefix(name, "COPILOT_BYOK_") || OfTraces(name)
	})
}

// OfTraces says of a variable that it is for the bridge's own traces. It may hold the
// key of a collector, and the runtime would send spans by it unasked.
func OfTraces(name string) bool {
	return strings.HasPrefix(name, "OTEL_EXPORTER_OTLP_") || name == "TRACEPARENT" || name == "TRACESTATE"
}

// UTF8 is an environment without the variables that are not UTF-8: with one of
// them Copilot's runtime panics.
func UTF8(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool { return !utf8.ValidString(kv) })
}
