package app

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/agent/vscode"
	"github.com/copilot-bridge/copilot-bridge/internal/api/anthropic"
	"github.com/copilot-bridge/copilot-bridge/internal/api/openai"
	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/engine/chat"
	"github.com/copilot-bridge/copilot-bridge/internal/guard"
)

// apis are the APIs of OpenAI and Anthropic on a bridge, without a server.
type apis struct {
	bridge  *Bridge
	chat    *chat.Service
	workers *engine.Engine // of the fleet; nil where no agents are served

	mu      sync.Mutex
	prompts map[string]*guard.Guard // by API
}

func (b *Bridge) apis(o Serving) *apis {
	c := b.opts.Config
	unknown, kind := c.Facade.UnknownModel, string(c.BYOK.Provider)
	if b.Answers.Kind == bridge.AnswersDemo {
		unknown, kind = "default", "openai" // it plays whatever part it is given
	}
	a := &apis{bridge: b, prompts: map[string]*guard.Guard{}}
	chats := chat.Options{
		Logger: b.opts.Logger, Conversations: c.Facade.Conversations, ConversationTTL: c.Facade.ConversationTTL, ParkTimeout: c.Facade.ToolTTL,
		HistoryBytes: c.Facade.HistoryBytes, HistoryTurns: b.historyTurns(), Aliases: c.Facade.Aliases, UnknownModel: unknown,
		DefaultModel: b.Spec(bridge.ProfileChat, "").Model, Headers: config.Plain(c.RequestHeaders), ProviderKind: kind, Prompt: a.prompt, Warm: b.warm,
	}
	if b.opts.Window != nil {
		chats.NoAgents = vscode.NoAgent
	} else {
		chats.AgentSpec = func(tools []bridge.ToolSpec) (bridge.SessionSpec, error) {
			spec := b.Spec(bridge.ProfileAgent, o.Workspace)
			gate, err := b.serveGate(o, "http", o.asker(), tools)
			if err != nil {
				return spec, err
			}
			var here bridge.Person
			if o.hub != nil {
				here = o.hub.Person()
			}
			spec.Gate, spec.Person = gate, b.Person(Guarding{Workspace: o.Workspace, Door: "http"}, gate, here)
			return spec, nil
		}
		a.workers = b.workers(Guarding{Workspace: o.Workspace, Door: "http", Asker: o.asker(), Defaults: o.defaults()})
		chats.Workers = a.workers
	}
	a.chat = chat.New(b.Engine, chats)
	return a
}

// handlers are the APIs by pattern.
func (a *apis) handlers() map[string]http.Handler {
	api := callers(openai.New(a.chat, openai.Options{Logger: a.bridge.opts.Logger}))
	messages := callers(anthropic.New(a.chat, anthropic.Options{Logger: a.bridge.opts.Logger}))
	return map[string]http.Handler{
		"POST /v1/chat/completions": api, "POST /v1/responses": api, "GET /v1/models": api, "GET /v1/models/{id...}": api,
		"/v1/responses/{id...}": api, "POST /v1/messages": messages, "POST /v1/messages/count_tokens": messages,
	}
}

// Handler answers the APIs of OpenAI and Anthropic inside another server,
// which decides who may call. The caller must call end before it closes the bridge.
func (b *Bridge) Handler(o Serving) (h http.Handler, end func(context.Context) error) {
	a := b.apis(o)
	mux := http.NewServeMux()
	for pattern, handler := range a.handlers() {
		mux.Handle(pattern, handler)
	}
	return mux, a.close
}

// close ends all turns.
func (a *apis) close(ctx context.Context) error {
	err := a.chat.Close(ctx)
	if a.workers != nil {
		err = errors.Join(err, a.workers.Close(ctx))
	}
	return err
}

// callers tells the chats behind a door whose requests are whose: the same
// credentials and the same program count as one caller.
func callers(door http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := sha256.New()
		for _, name := range []string{"Authorization", "X-Api-Key", "User-Agent"} {
			fmt.Fprintf(h, "%q", r.Header.Get(name))
		}
		door.ServeHTTP(w, r.WithContext(chat.From(r.Context(), string(h.Sum(nil)))))
	})
}

// prompt hides secrets in a chat's prompt, and records it.
func (a *apis) prompt(ctx context.Context, api, text string) (string, error) {
	a.mu.Lock()
	g, err := a.prompts[api], error(nil)
	if g == nil {
		if g, err = a.bridge.PromptGuard(api); err == nil {
			a.prompts[api] = g
		}
	}
	a.mu.Unlock()
	if err != nil {
		return "", err
	}
	return g.Prompt(ctx, text)
}

// PromptGuard hides secrets in prompts, and records them. Chats have none of
// Copilot's tools, so it is all of the guard that they need.
func (b *Bridge) PromptGuard(door string) (*guard.Guard, error) {
	redactor, log, err := b.guard.shared(b.opts.Config, b.opts.UserDir)
	if err != nil {
		return nil, err
	}
	return guard.New(guard.Options{Redactor: redactor, Audit: log, Door: door}), nil
}
