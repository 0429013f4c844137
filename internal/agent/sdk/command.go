package sdk

import (
	"context"
	"strings"
	"time"

	"github.com/github/copilot-sdk/go/rpc"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// Commands lists the runtime's slash commands, and the user's skills, which
// are called the same way.
func (s *session) Commands(ctx context.Context) ([]bridge.Command, error) {
	list, err := s.sdk.RPC.Commands.List(ctx)
	if err != nil {
		return nil, s.host.explain(err, "list the commands")
	}
	out := make([]bridge.Command, 0, len(list.Commands))
	for _, c := range list.Commands {
		b := bridge.Command{Name: c.Name, Description: c.Description, Builtin: c.Kind == rpc.SlashCommandKindBuiltin}
		if c.Input != nil {
			b.Hint = c.Input.Hint
		}
		out = append(out, b)
	}
	return out, nil
}

// Invoke runs a slash command. Like a prompt it passes the gate first.
func (s *session) Invoke(ctx context.Context, name, input string) (bridge.CommandResult, error) {
	if s.spec.Gate != nil {
		text, err := s.spec.Gate.Prompt(ctx, strings.TrimSpace("/"+name+" "+input))
		if err != nil {
			return bridge.CommandResult{}, err
		}
		name, input, _ = strings.Cut(strings.TrimPrefix(text, "/"), " ")
	}
	res, err := s.sdk.RPC.Commands.Invoke(ctx, &rpc.CommandsInvokeRequest{Name: name, Input: &input})
	if err != nil {
		return bridge.CommandResult{}, s.host.explain(err, "run the command /"+name)
	}
	return invoked(name, res)
}

func invoked(name string, res rpc.SlashCommandInvocationResult) (bridge.CommandResult, error) {
	mode := func(m *rpc.SessionMode) string {
		if m == nil {
			return ""
		}
		return string(*m)
	}
	switch r := res.(type) {
	case *rpc.SlashCommandTextResult:
		return bridge.CommandResult{Text: r.Text}, nil
	case *rpc.SlashCommandCompletedResult:
		return bridge.CommandResult{Text: str(r.Message), Mode: mode(r.Mode)}, nil
	case *rpc.SlashCommandAgentPromptResult:
		return bridge.CommandResult{Text: str(r.Notice), Prompt: r.Prompt, Mode: mode(r.Mode)}, nil
	case *rpc.SlashCommandAddTimelineEntryResult:
		return bridge.CommandResult{Text: r.Entry.Text}, nil
	case *rpc.SlashCommandSelectSubcommandResult:
		lines := []string{r.Title}
		for _, o := range r.Options {
			lines = append(lines, "/"+r.Command+" "+o.Name+": "+o.Description)
		}
		return bridge.CommandResult{Text: strings.Join(lines, "\n")}, nil
	default:
		return bridge.CommandResult{}, &bridge.Error{Code: bridge.CodeUnsupported, Message: "/" + name + " needs Copilot's own terminal"}
	}
}

// planWithin bounds how long a turn waits to hear the steps of its plan.
const planWithin = 2 * time.Second

// steps asks for the list that the agent keeps of what it means to do. A plan
// that cannot be read is not worth failing a turn for.
func (s *session) steps(ctx context.Context) []bridge.PlanEntry {
	ctx, cancel := context.WithTimeout(ctx, planWithin)
	defer cancel()
	list, err := s.sdk.RPC.Plan.ReadSqlTodos(ctx)
	if err != nil {
		s.host.opts.Logger.Debug("reading the plan", "session", s.ID(), "error", err)
		return nil
	}
	var out []bridge.PlanEntry
	for _, r := range list.Rows {
		text := str(r.Title)
		if text == "" {
			text = str(r.Description)
		}
		if text == "" {
			text = str(r.ID)
		}
		out = append(out, bridge.PlanEntry{Text: text, Status: stepStatus(str(r.Status))})
	}
	return out
}

// stepStatus reads what the model wrote into the list, which binds it to no
// words.
func stepStatus(s string) bridge.StepStatus {
	switch s {
	case "in_progress", "in-progress", "running", "active":
		return bridge.StepRunning
	case "done", "completed", "complete":
		return bridge.StepDone
	default:
		return bridge.StepPending
	}
}
