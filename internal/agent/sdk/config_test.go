package sdk

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	copilot "github.com/github/copilot-sdk/go"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/testing/agenttest"
)

// full is a spec with everything set.
func full() bridge.SessionSpec {
	return bridge.SessionSpec{
		ID: "id", Profile: bridge.ProfileAgent, Model: "m", ReasoningEffort: "high", System: bridge.SystemText{Text: "t"}, WorkingDir: "/w",
		Tools: []bridge.ToolSpec{{Name: "t"}}, AvailableTools: []string{"builtin:bash"}, ExcludedTools: []string{"builtin:view"},
		MCPServers: map[string]bridge.MCPServer{"s": {Command: "c", Args: []string{"a"}, Timeout: time.Second}, "h": {URL: "http://127.0.0.1"}},
		Infinite:   &bridge.InfiniteSession{Enabled: true, BackgroundThreshold: 0.5},
		Provider:   &bridge.Provider{Kind: "azure", BaseURL: "https://x", APIKey: "k", AzureAPIVersion: "v"}, MaxAICredits: 2,
		Gate: agenttest.AllowAll(), Person: nobody{},
	}
}

type nobody struct{ bridge.Person }

// A session is resumed under the configuration that it was opened with.
func TestResumeCarriesEverything(t *testing.T) {
	opts := Options{}
	s := newSession(newHost(New(opts), bridge.ProfileAgent), &process{}, full())
	defer s.Stop()
	c, err := s.config()
	if err != nil {
		t.Fatal(err)
	}
	from, to := reflect.ValueOf(*c), reflect.ValueOf(*resumed(c))
	for i := range from.NumField() {
		name := from.Type().Field(i).Name
		if name == "SessionID" || from.Field(i).IsZero() {
			continue
		}
		f := to.FieldByName(name)
		switch {
		case !f.IsValid():
			t.Errorf("%s cannot be resumed", name)
		case f.Kind() == reflect.Func:
			if f.IsNil() {
				t.Errorf("%s is lost", name)
			}
		case !reflect.DeepEqual(f.Interface(), from.Field(i).Interface()):
			t.Errorf("%s is lost", name)
		}
	}
	if c.Provider.Type != "azure" || c.Provider.Azure == nil || c.SessionLimits == nil || c.OnElicitationRequest == nil || len(c.MCPServers) != 2 {
		t.Errorf("config %+v", c)
	}
}

// leftAlone are options of the kinds by which the runtime is told what to load,
// and why config does not set them.
var leftAlone = map[string]string{
	"AdditionalDirectories":          "one workspace a session",
	"Agent":                          "no agent is chosen",
	"Canvases":                       "none are declared",
	"CanvasHandler":                  "there are no canvases",
	"CanvasProvider":                 "there are no canvases",
	"CoauthorEnabled":                "a line in commit messages",
	"ConfigDirectory":                "the runtime's home is the agent's",
	"DefaultAgent":                   "it has all tools",
	"DisabledMCPServers":             "the user's own, in Copilot's home",
	"DisabledSkills":                 "there are none",
	"EnableCitations":                "of the model's answers",
	"EnableFileChangeTracking":       "the record has every write",
	"EnableMCPApps":                  "off",
	"EnableManagedSettings":          "an enterprise's",
	"EnableSessionTelemetry":         "loads nothing",
	"ExtensionInfo":                  "there are no extensions",
	"ExtensionSDKPath":               "there are no extensions",
	"IncludeSubAgentStreamingEvents": "loads nothing",
	"IncludedBuiltinSkills":          "skills are off",
	"InstructionDirectories":         "none: the gate reads instruction files",
	"ContinuePendingWork":            "pending work is not continued",
	"OpenCanvases":                   "none are declared",
	"OrganizationCustomInstructions": "the system text is given",
	"PluginDirectories":              "none: plugins are not loaded",
	"RequestCanvasRenderer":          "there are no canvases",
	"SkillDirectories":               "skills are off",
}

// Every option that can tell the runtime to load something is set, or left
// alone for a reason: an option that is new in the SDK has to be thought about.
func TestEveryLoadingOptionIsDecided(t *testing.T) {
	loads := regexp.MustCompile(`^(Enable|Skip|Request)|Enabled$|Director(y|ies)$|Instruction|Skill|Plugin|Agent|Hooks|Memory|Extension|Canvas|Discovery|Disabled`)
	for _, profile := range []bridge.Profile{bridge.ProfileAgent, bridge.ProfileChat} {
		spec := full()
		spec.Profile = profile
		s := newSession(newHost(New(Options{}), profile), &process{}, spec)
		defer s.Stop()
		c, err := s.config()
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range []reflect.Value{reflect.ValueOf(*c), reflect.ValueOf(*resumed(c))} {
			for i := range v.NumField() {
				name := v.Type().Field(i).Name
				kind := v.Field(i).Type().String()
				if !loads.MatchString(name) && kind != "*bool" && kind != "[]string" || strings.HasPrefix(name, "On") || !v.Field(i).IsZero() || leftAlone[name] != "" {
					continue
				}
				if profile == bridge.ProfileChat && (name == "ExcludedBuiltInAgents" || name == "CustomAgents") {
					continue // a chat has no tools of the runtime's, and so no sub-agents
				}
				t.Errorf("%s, %s: %s is not decided", profile, v.Type().Name(), name)
			}
		}
	}
}

func TestProviderNeedsAModel(t *testing.T) {
	spec := full()
	spec.Model = ""
	opts := Options{}
	s := newSession(newHost(New(opts), bridge.ProfileAgent), &process{}, spec)
	defer s.Stop()
	if _, err := s.config(); bridge.CodeOf(err) != bridge.CodeInvalid {
		t.Errorf("%v", err)
	}
}

func TestAttachmentNeedsSomething(t *testing.T) {
	if _, err := sendRequest(bridge.Prompt{Attachments: []bridge.Attachment{{Name: "x"}}}); bridge.CodeOf(err) != bridge.CodeInvalid {
		t.Errorf("%v", err)
	}
}

// A slow reader costs memory by the byte: pieces of text are joined.
func TestQueueCoalesces(t *testing.T) {
	q := newTurn()
	var want strings.Builder
	for range 10 * 512 {
		q.push(bridge.TextDelta{Message: "m", Text: "x"})
		want.WriteString("x")
	}
	q.push(bridge.TextDelta{Message: "other", Text: "y"})
	events, _, _ := q.Take()
	if len(events) > 512+2 {
		t.Errorf("%d events wait", len(events))
	}
	var got strings.Builder
	for _, ev := range events[:len(events)-1] {
		d, ok := ev.(bridge.TextDelta)
		if !ok {
			t.Fatalf("%#v", ev)
		}
		got.WriteString(d.Text)
	}
	if got.String() != want.String() {
		t.Error("text was lost")
	}
}

// What the SDK does not know is passed on, not dropped.
func TestUnknownSDKEventsAreKept(t *testing.T) {
	var e copilot.SessionEvent
	line := `{"type":"brand.new","id":"x","parentId":null,"timestamp":"2026-01-01T00:00:00Z","data":{"k":"v"}}`
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		t.Fatal(err)
	}
	var got []bridge.Event
	newTranslator(newHost(New(Options{}), bridge.ProfileAgent)).translate(e, func(ev bridge.Event) { got = append(got, ev) })
	if len(got) != 1 {
		t.Fatalf("%d events", len(got))
	}
	b, err := bridge.EncodeEvent(got[0])
	if err != nil || !strings.Contains(string(b), "brand.new") || !strings.Contains(string(b), `"k":"v"`) {
		t.Errorf("%s, %v", b, err)
	}
}

func FuzzTranslate(f *testing.F) {
	for _, kind := range []string{"assistant.message", "assistant.message_delta", "tool.execution_start", "tool.execution_complete",
		"permission.requested", "permission.completed", "session.error", "model.call_failure", "assistant.usage", "external_tool.requested", "x.y"} {
		f.Add(`{"type":"` + kind + `","id":"x","parentId":null,"timestamp":"2026-01-01T00:00:00Z","data":{"messageId":"m","toolCallId":"c","content":"t"}}`)
	}
	f.Add(`{"type":"permission.requested","id":"x","parentId":null,"timestamp":"2026-01-01T00:00:00Z","data":{"requestId":"r","permissionRequest":{"kind":"shell","fullCommandText":"ls"}}}`)
	f.Fuzz(func(t *testing.T, line string) {
		var e copilot.SessionEvent
		if json.Unmarshal([]byte(line), &e) != nil {
			return
		}
		tr := newTranslator(newHost(New(Options{}), bridge.ProfileAgent))
		for range 2 {
			tr.translate(e, func(ev bridge.Event) {
				if b, err := bridge.EncodeEvent(ev); err != nil || !json.Valid(b) {
					t.Errorf("%s became %s, %v", line, b, err)
				}
			})
		}
	})
}

func FuzzProviderTexts(f *testing.F) {
	f.Add([]byte(`{"message":"m"}`))
	f.Add([]byte(`{"data":[{"id":"m"}]}`))
	f.Add([]byte(`{"data":[{"id":"m","name":"M","created":1735689600,"owned_by":"o","context_length":8192},{"id":"n","created_at":"2025-01-01T00:00:00Z","max_input_tokens":"x"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if msg, code := providerMessage(string(b)); len(msg)+len(code) > 3*len(b) {
			t.Errorf("%q became %q", b, msg)
		}
		models, _ := decodeModels(b)
		for _, m := range models {
			if m.ID == "" || m.Name == "" || m.ContextTokens < 0 || m.Created < 0 {
				t.Errorf("%+v", m)
			}
		}
	})
}

// The history of a chat is its client's: the runtime must not put a summary in
// its place, unless the caller asks for it.
func TestChatsAreNotCompacted(t *testing.T) {
	for _, c := range []struct {
		spec    bridge.SessionSpec
		enabled *bool
	}{
		{bridge.SessionSpec{Profile: bridge.ProfileAgent}, nil},
		{bridge.SessionSpec{Profile: bridge.ProfileChat}, copilot.Bool(false)},
		{bridge.SessionSpec{Profile: bridge.ProfileChat, Infinite: &bridge.InfiniteSession{Enabled: true}}, copilot.Bool(true)},
	} {
		s := newSession(newHost(New(Options{}), c.spec.Profile), &process{}, c.spec)
		defer s.Stop()
		config, err := s.config()
		if err != nil {
			t.Fatal(err)
		}
		var got *bool
		if i := config.InfiniteSessions; i != nil {
			got = i.Enabled
		}
		if !reflect.DeepEqual(got, c.enabled) {
			t.Errorf("%+v: compaction %v", c.spec, got)
		}
	}
}
