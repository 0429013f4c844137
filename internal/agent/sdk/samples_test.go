package sdk

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/runtimetest"
)

// schema makes samples of what the runtime's own schema describes.
type schema struct {
	definitions map[string]map[string]any
}

func readSchema(t *testing.T) schema {
	t.Helper()
	// prebuilds/<platform>/copilot-runtime is two levels below the package.
	pkg := filepath.Dir(filepath.Dir(filepath.Dir(runtimetest.Path(t))))
	b, err := os.ReadFile(filepath.Join(pkg, "schemas", "session-events.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		Definitions map[string]map[string]any `json:"definitions"`
	}
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	return schema{s.Definitions}
}

// members are the shapes of a union.
func (s schema) members(t *testing.T, union string) []map[string]any {
	t.Helper()
	list, _ := s.definitions[union]["anyOf"].([]any)
	var out []map[string]any
	for _, m := range list {
		if d := s.resolve(m); d != nil {
			out = append(out, d)
		}
	}
	if len(out) == 0 {
		t.Fatalf("the schema has no %s", union)
	}
	return out
}

func (s schema) resolve(n any) map[string]any {
	m, _ := n.(map[string]any)
	for m != nil {
		ref, ok := m["$ref"].(string)
		if !ok {
			return m
		}
		m = s.definitions[ref[strings.LastIndexByte(ref, '/')+1:]]
	}
	return nil
}

// sample is a value with every field set, down to some depth.
func (s schema) sample(n any, name string, depth int) any {
	m := s.resolve(n)
	if c, ok := m["const"]; ok {
		return c
	}
	if list, ok := m["enum"].([]any); ok {
		return list[0]
	}
	if list, ok := m["anyOf"].([]any); ok {
		return s.sample(list[0], name, depth)
	}
	kind, _ := m["type"].(string)
	if kinds, ok := m["type"].([]any); ok {
		kind, _ = kinds[0].(string)
	}
	switch kind {
	case "string":
		if m["format"] == "date-time" {
			return "2026-01-02T03:04:05Z"
		}
		return "the " + name
	case "integer", "number":
		return 7.0
	case "boolean":
		return true
	case "array":
		return []any{s.sample(m["items"], name, depth+1)}
	case "null":
		return nil
	}
	out := map[string]any{}
	properties, _ := m["properties"].(map[string]any)
	required, _ := m["required"].([]any)
	for field, p := range properties {
		if depth < 5 || slices.Contains(required, any(field)) {
			out[field] = s.sample(p, field, depth+1)
		}
	}
	return out
}

// decoded says where the words of an event must be found again: the fields of
// the sample that reach the reader.
var decoded = map[string][]string{
	"assistant.message":                  {"content", "reasoningText", "messageId"},
	"assistant.message_delta":            {"deltaContent", "messageId"},
	"assistant.reasoning":                {"content", "reasoningId"},
	"assistant.reasoning_delta":          {"deltaContent", "reasoningId"},
	"assistant.usage":                    {"model"},
	"model.call_start":                   {"model"},
	"model.call_failure":                 {"errorMessage"},
	"external_tool.requested":            {"requestId", "toolCallId", "toolName"},
	"tool.execution_start":               {"toolCallId", "toolName", "mcpServerName"},
	"tool.execution_partial_result":      {"toolCallId", "partialOutput"},
	"tool.execution_progress":            {"toolCallId", "progressMessage"},
	"tool.execution_complete":            {"toolCallId", "content", "message", "code"},
	"permission.completed":               {"requestId", "toolCallId"},
	"user_input.requested":               {"requestId", "question"},
	"user_input.completed":               {"requestId"},
	"elicitation.requested":              {"requestId", "message"},
	"elicitation.completed":              {"requestId"},
	"session.plan_changed":               nil,
	"session.todos_changed":              nil,
	"session.mode_changed":               nil,
	"session.usage_info":                 nil,
	"session.warning":                    {"message"},
	"session.info":                       {"message"},
	"session.error":                      {"message"},
	"subagent.started":                   {"agentDisplayName"},
	"subagent.completed":                 {"agentDisplayName"},
	"subagent.failed":                    {"agentDisplayName", "error"},
	"skill.invoked":                      {"name"},
	"hook.end":                           {"hookType", "message"},
	"hook.progress":                      {"message"},
	"session.compaction_start":           nil,
	"session.compaction_complete":        nil,
	"session.truncation":                 nil,
	"session_limits_exhausted.requested": nil,
	"session.shutdown":                   {"errorReason"},
	"session.managed_settings_enforced":  {"message"},
	"session.mcp_server_status_changed":  {"serverName", "error"},
	"mcp.oauth_required":                 {"serverName"},
	"session.custom_agents_updated":      {"errors", "warnings"},
}

// silent are the events of which nothing is passed on: a byte count, the sign
// to void what a broken stream left, and a question that a hook has answered.
var silent = []string{"assistant.streaming_delta", "assistant.turn_retry", "permission.requested"}

// Each event that the schema describes is decoded by the SDK and translated.
// Events that the domain knows keep their texts; all others survive a round trip
// unchanged.
func TestEveryEventOfTheSchema(t *testing.T) {
	s := readSchema(t)
	seen := map[string]bool{}
	for _, member := range s.members(t, "SessionEvent") {
		sample, _ := s.sample(member, "event", 0).(map[string]any)
		name, _ := sample["type"].(string)
		seen[name] = true
		t.Run(name, func(t *testing.T) { checkSample(t, name, sample) })
	}
	for name := range decoded {
		if !seen[name] {
			t.Errorf("the schema has no %s any more", name)
		}
	}
	t.Run("from the future", func(t *testing.T) {
		checkSample(t, "future.event", map[string]any{"id": "1", "timestamp": "2026-01-02T03:04:05Z", "parentId": nil, "type": "future.event",
			"data": map[string]any{"text": "words", "list": []any{1.0, nil, "x"}}})
	})
}

func checkSample(t *testing.T, name string, sample map[string]any) {
	delete(sample, "agentId") // a sub-agent's are told apart in tests of their own
	raw, err := json.Marshal(sample)
	if err != nil {
		t.Fatal(err)
	}
	var e copilot.SessionEvent
	if err := json.Unmarshal(raw, &e); err != nil {
		t.Fatalf("the SDK cannot decode %s: %v", raw, err)
	}
	if string(e.Type()) != name {
		t.Errorf("it is called %s", e.Type())
	}
	var out []bridge.Event
	newTranslator(&host{opts: &Options{}}).translate(e, func(ev bridge.Event) { out = append(out, ev) })
	if slices.Contains(silent, name) {
		if len(out) != 0 {
			t.Errorf("gave %+v", out)
		}
		return
	}
	if len(out) != 1 {
		t.Fatalf("gave %d events: %+v", len(out), out)
	}
	line, err := bridge.EncodeEvent(out[0])
	if err != nil {
		t.Fatal(err)
	}
	back, err := bridge.DecodeEvent(line)
	if err != nil || bridge.TypeOf(back) != bridge.TypeOf(out[0]) {
		t.Fatalf("%s came back as %+v, %v", line, back, err)
	}
	o, other := back.(bridge.Other)
	words, known := decoded[name]
	if known == other {
		t.Fatalf("decoded is %v in the table, but it came as %s", known, line)
	}
	if other {
		if _, raw := e.Data.(*rpc.RawSessionEventData); !raw {
			// The SDK's types leave out what they do not know.
			return
		}
		if !reflect.DeepEqual(o.Data, sample["data"]) {
			t.Errorf("came back as %v", o.Data)
		}
		return
	}
	for _, w := range words {
		if !strings.Contains(string(line), "the "+w) {
			t.Errorf("%s is lost in %s", w, line)
		}
	}
}

// Each kind of permission request keeps what a gate needs to judge it.
func TestEveryPermissionOfTheSchema(t *testing.T) {
	s := readSchema(t)
	want := map[string]bridge.PermissionRequest{
		"shell": {Kind: bridge.PermissionShell, CallID: "the toolCallId", Tool: "bash", Intention: "the intention", Command: "the fullCommandText",
			Segments: []string{"the fullCommandText"}, Paths: []string{"the possiblePaths"}, URLs: []string{"the url"}, ReadOnly: true},
		"write":       {Kind: bridge.PermissionWrite, CallID: "the toolCallId", Intention: "the intention", Paths: []string{"the fileName", "the resolvedPath"}, Diff: "the diff"},
		"read":        {Kind: bridge.PermissionRead, CallID: "the toolCallId", Intention: "the intention", Paths: []string{"the path", "the resolvedPath"}, ReadOnly: true},
		"mcp":         {Kind: bridge.PermissionMCP, CallID: "the toolCallId", Tool: "the toolName", Server: "the serverName", Args: map[string]any{}, ReadOnly: true},
		"url":         {Kind: bridge.PermissionURL, CallID: "the toolCallId", Intention: "the intention", URLs: []string{"the url"}},
		"memory":      {Kind: bridge.PermissionMemory, CallID: "the toolCallId", Intention: "the fact"},
		"custom-tool": {Kind: bridge.PermissionCustom, CallID: "the toolCallId", Tool: "the toolName", Args: map[string]any{}},
		"hook":        {Kind: bridge.PermissionHook, CallID: "the toolCallId", Tool: "the toolName", Args: map[string]any{}, Intention: "the hookMessage"},
		"extension-management": {Kind: bridge.PermissionUnknown, CallID: "the toolCallId", Tool: "the extensionName",
			Intention: "the operation an extension"},
		"extension-permission-access": {Kind: bridge.PermissionUnknown, CallID: "the toolCallId", Tool: "the extensionName",
			Args: []any{"the capabilities"}, Intention: "give an extension abilities"},
		"extension-env-access": {Kind: bridge.PermissionUnknown, CallID: "the toolCallId", Tool: "the extensionName",
			Args: []any{"the environmentVariables"}, Intention: "give an extension secrets of the environment"},
		"factory": {Kind: bridge.PermissionUnknown, CallID: "the toolCallId", Tool: "the name", Intention: "run a factory: the description"},
	}
	for _, member := range s.members(t, "PermissionRequest") {
		sample, _ := s.sample(member, "request", 0).(map[string]any)
		kind, _ := sample["kind"].(string)
		t.Run(kind, func(t *testing.T) {
			raw, err := json.Marshal(map[string]any{"id": "1", "timestamp": "2026-01-02T03:04:05Z", "parentId": nil, "type": "permission.requested",
				"data": map[string]any{"requestId": "r", "permissionRequest": sample}})
			if err != nil {
				t.Fatal(err)
			}
			var e copilot.SessionEvent
			if err := json.Unmarshal(raw, &e); err != nil {
				t.Fatal(err)
			}
			d, ok := e.Data.(*rpc.PermissionRequestedData)
			if !ok {
				t.Fatalf("it is %T", e.Data)
			}
			expected, known := want[kind]
			if !known {
				t.Fatalf("nobody has thought about this kind; it arrives as %+v", permission(d.PermissionRequest))
			}
			expected.Native = kind
			if got := permission(d.PermissionRequest); !reflect.DeepEqual(got, expected) {
				t.Errorf("got %+v, want %+v", got, expected)
			}
		})
		delete(want, kind)
	}
	for kind := range want {
		t.Errorf("the schema has no %s any more", kind)
	}
}

// The runtime's inner events repeat other events.
func TestEchoesAreDropped(t *testing.T) {
	for name, want := range map[string]bool{"model.messages_snapshot": true, "model.response": true, "model.newcomer": false} {
		e := copilot.SessionEvent{Data: &rpc.RawSessionEventData{EventType: rpc.SessionEventType(name), Raw: json.RawMessage(`{}`)}}
		got := true
		newTranslator(&host{opts: &Options{}}).translate(e, func(bridge.Event) { got = false })
		if got != want {
			t.Errorf("%s is dropped: %v", name, got)
		}
	}
}
