package chat

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/engine"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

const (
	listFor = time.Minute // how long a list of models is good
	// listAgain is the pause after a list that could not be had, so that
	// answers which do not need it are not held up each time.
	listAgain = 5 * time.Second
	listed    = 20  // how many models an error names
	maxNoted  = 100 // names whose fallback is logged once
	maxName   = 128 // bytes of a client's name in logs and errors
)

// catalog knows the models and what clients call them.
type catalog struct {
	engine *engine.Engine

	fetch sync.Mutex // one list at a time

	mu     sync.Mutex
	models []bridge.Model
	err    error // of the last list
	until  time.Time
	login  int                     // whose list it is; see engine.Logins
	seen   map[string]bridge.Model // every model that was ever listed
	noted  map[string]bool         // names that the default model has answered to
}

func newCatalog(e *engine.Engine) *catalog {
	return &catalog{engine: e, seen: map[string]bridge.Model{}, noted: map[string]bool{}}
}

// cached returns the list if it is fresh enough. That of another account is
// forgotten.
func (c *catalog) cached() (models []bridge.Model, fresh bool, err error) {
	login := c.engine.Logins()
	c.mu.Lock()
	defer c.mu.Unlock()
	if login != c.login {
		c.login, c.models, c.until = login, nil, time.Time{}
		clear(c.seen)
	}
	return c.models, time.Now().Before(c.until), c.err
}

// list returns the models; an old list is better than none.
func (c *catalog) list(ctx context.Context) ([]bridge.Model, error) {
	if models, fresh, err := c.cached(); fresh {
		return models, err
	}
	c.fetch.Lock()
	defer c.fetch.Unlock()
	old, fresh, err := c.cached()
	if fresh {
		return old, err
	}
	models, err := c.engine.Models(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.models, c.err, c.until = models, nil, time.Now().Add(listFor)
		for _, m := range models {
			c.seen[m.ID] = m
		}
	case ctx.Err() != nil:
		return nil, err // says nothing about the list
	default:
		c.until = time.Now().Add(listAgain)
		if c.err = err; len(c.models) > 0 {
			c.err = nil
		}
	}
	return c.models, c.err
}

func (c *catalog) known(id string) (bridge.Model, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, ok := c.seen[id]
	return m, ok
}

// Refresh has the list of models asked for anew when it is next needed.
func (s *Service) Refresh() {
	s.catalog.mu.Lock()
	defer s.catalog.mu.Unlock()
	s.catalog.until = time.Time{}
}

// Models is the list that clients see: every model as chat, and as agent if
// agents are served.
func (s *Service) Models(ctx context.Context) ([]bridge.ChatModel, error) {
	models, err := s.catalog.list(ctx)
	if err != nil {
		return nil, err
	}
	var out []bridge.ChatModel
	for _, m := range models {
		out = append(out, entry(m, false))
	}
	if s.opts.AgentSpec != nil {
		for _, m := range models {
			out = append(out, entry(m, true))
		}
	}
	return out, nil
}

// entry is a model in the list that clients see, as chat or as agent.
func entry(m bridge.Model, agent bool) bridge.ChatModel {
	if agent {
		return bridge.ChatModel{Model: m, Name: agentPrefix + m.ID, Profile: bridge.ProfileAgent}
	}
	return bridge.ChatModel{Model: m, Name: m.ID, Profile: bridge.ProfileChat}
}

// Model finds the model that a client means.
func (s *Service) Model(ctx context.Context, name string) (bridge.ChatModel, error) {
	if m, ok := s.exact(name); ok {
		return m, nil
	}
	models, err := s.catalog.list(ctx)
	if err != nil {
		return bridge.ChatModel{}, err
	}
	if m, ok := s.exact(name); ok {
		return m, nil
	}
	if bare, worker, ok := s.worker(name); ok {
		if worker == "" {
			return bridge.ChatModel{}, &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("%.80q names no worker after %s", name, workerSign),
				Remedy: "give labels of the worker, as in " + bare + workerSign + "gpu=yes, or " + bare + workerSign + "any"}
		}
		m, err := s.Model(ctx, bare)
		if m.Worker = worker; m.Instead != "" {
			m.Instead = name
		}
		m.Name += workerSign + worker
		return m, err
	}
	target, aliased := s.alias(name)
	if !aliased {
		target = name
	}
	m, ok, err := s.among(target, models)
	if bare, cut := strings.CutSuffix(target, copilotSuffix); cut && !ok && err == nil {
		m, ok, err = s.among(bare, models)
	}
	if ok || err != nil {
		return m, err
	}
	if aliased {
		return m, s.unknown(fmt.Sprintf("there is no model %q, which %q is an alias of", target, text.Clip(name, maxName)), name, models)
	}
	lack := fmt.Sprintf("there is no model %q", text.Clip(name, maxName))
	synthetic := strings.TrimPrefix(name, agentPrefix) == syntheticModel
	if s.opts.UnknownModel != "default" && !synthetic || len(models) == 0 {
		return m, s.unknown(lack, name, models)
	}
	def := s.opts.DefaultModel
	if def == "" {
		def = models[0].ID
	}
	if strings.HasPrefix(name, agentPrefix) {
		def = agentPrefix + def
	}
	m, ok, err = s.among(def, models)
	if err == nil && !ok {
		err = s.unknown(lack+fmt.Sprintf(", nor the default model %q", def), name, models)
	}
	if err == nil && !synthetic {
		m.Instead = name
		s.noteFallback(name, m.Name)
	}
	return m, err
}

// worker splits the name of an agent model that a worker elsewhere is to be.
func (s *Service) worker(name string) (bare, worker string, ok bool) {
	i := strings.LastIndex(name, workerSign)
	if i < 0 || s.opts.Workers == nil || !strings.HasPrefix(name, agentPrefix) {
		return "", "", false
	}
	return name[:i], name[i+len(workerSign):], true
}

// noteFallback logs once for each name that another model answers to it; the
// line of each request says so too.
func (s *Service) noteFallback(name, used string) {
	c := s.catalog
	c.mu.Lock()
	first := len(c.noted) < maxNoted && !c.noted[name]
	if first {
		c.noted[name] = true
	}
	c.mu.Unlock()
	if first {
		s.opts.Logger.Info("model.fallback", "requested", text.Clip(name, maxName), "model", used)
	}
}

// exact finds a model by its exact name, without asking for the list if an
// earlier one had it.
func (s *Service) exact(name string) (bridge.ChatModel, bool) {
	id, agent := strings.CutPrefix(name, agentPrefix)
	m, ok := s.catalog.known(id)
	if !ok || agent && s.opts.AgentSpec == nil {
		return bridge.ChatModel{}, false
	}
	return entry(m, agent), true
}

// alias is the configured meaning of a name. The alias of a chat model serves for
// the agent, too.
func (s *Service) alias(name string) (string, bool) {
	for _, prefix := range []string{"", agentPrefix} {
		bare, ok := strings.CutPrefix(name, prefix)
		if !ok {
			continue
		}
		for _, from := range slices.Sorted(maps.Keys(s.opts.Aliases)) {
			if strings.EqualFold(from, bare) {
				return prefix + strings.TrimPrefix(s.opts.Aliases[from], prefix), true
			}
		}
	}
	return "", false
}

// among finds the model that a name means. A name that may mean several is an
// error: none of them is better than another.
func (s *Service) among(name string, models []bridge.Model) (m bridge.ChatModel, ok bool, err error) {
	id, agent := strings.CutPrefix(name, agentPrefix)
	if agent && s.opts.AgentSpec == nil {
		return m, false, nil
	}
	ids := make([]string, len(models))
	for i, m := range models {
		ids[i] = m.ID
	}
	found := find(id, ids)
	switch {
	case len(found) == 0:
		return m, false, nil
	case len(found) > 1:
		return m, false, &bridge.Error{Code: bridge.CodeNotFound, Message: fmt.Sprintf("the model %q may be %s", text.Clip(name, maxName), strings.Join(found, " or ")), Remedy: "use one of these names"}
	}
	return entry(models[slices.Index(ids, found[0])], agent), true, nil
}

// unknown is the error for a name that means nothing; lack says so.
func (s *Service) unknown(lack, name string, models []bridge.Model) error {
	var names []string
	for _, m := range models {
		names = append(names, m.ID)
	}
	if n := len(names) - listed; n > 0 {
		names[listed-1] += fmt.Sprintf(" and %d more", n)
		names = names[:listed]
	}
	if len(names) > 0 {
		lack += "; there are " + strings.Join(names, ", ")
	}
	remedy := "use one of these, or give the name a meaning with an alias (facade.aliases)"
	if strings.HasPrefix(name, agentPrefix) && s.opts.AgentSpec == nil && s.opts.NoAgents != "" {
		remedy = s.opts.NoAgents
	}
	if s.opts.AgentSpec != nil {
		remedy += `; with "agent/" before it a model works in the served workspace`
	}
	return &bridge.Error{Code: bridge.CodeNotFound, Message: lack, Remedy: remedy}
}

const agentPrefix = "agent/"

// workerSign stands between the name of an agent model and the worker that is to
// do its work.
const workerSign = "@"

// syntheticModel is the name by which clients of editors' bridges ask for Copilot
// without choosing a model. It always means one: gpt-4o, or else the default.
const syntheticModel = "gpt-4o" + copilotSuffix

// copilotSuffix is what such clients add to the name of a model.
const copilotSuffix = "-copilot"

// vendors are prefixes by which routers and catalogues name models.
var vendors = []string{"anthropic", "openai", "github", "google", "copilot", "azure", "xai", "x-ai", "meta", "mistral", "deepseek", "github_copilot", "github-copilot"}

// dated matches what vendors add to the name of a model to fix its version.
var dated = regexp.MustCompile(`(-20\d{6}|-20\d{2}-\d{2}-\d{2}|[-:]latest)$`)

// variant matches what clients add for themselves: Claude Code asks for
// "claude-opus-4[1m]" when it wants a large context.
var variant = regexp.MustCompile(`\[[0-9a-z]*\]$`)

// versionDash matches a dash between two numbers of a version.
var versionDash = regexp.MustCompile(`(\d)-(\d)`)

// find returns the ids among those given that a client may mean by name: the
// very same, or those of the same family and version. Names differ in case, in
// vendor prefixes, in dates, in variants, and in dots against dashes; nothing
// else is guessed.
func find(name string, ids []string) []string {
	if slices.Contains(ids, name) {
		return []string{name}
	}
	want, date := family(name)
	if want == "" {
		return nil
	}
	var same, near []string // with the same date, and with a date on one side only
	for _, id := range ids {
		switch base, d := family(id); {
		case base != want:
		case d == date:
			same = append(same, id)
		case d == "" || date == "":
			near = append(near, id)
		}
	}
	if len(same) == 0 {
		return near
	}
	return same
}

// family is a name without what may differ, and its date.
func family(name string) (base, date string) {
	base = strings.ToLower(strings.TrimSpace(name))
	for {
		vendor, rest, ok := strings.Cut(base, "/")
		if !ok || !slices.Contains(vendors, vendor) {
			break
		}
		base = rest
	}
	base = variant.ReplaceAllString(base, "")
	if m := dated.FindString(base); m != "" {
		base = strings.TrimSuffix(base, m)
		if !strings.HasSuffix(m, "latest") {
			date = strings.ReplaceAll(m, "-", "")
		}
	}
	// Twice, since matches do not overlap: 3-5-1.
	base = versionDash.ReplaceAllString(base, "$1.$2")
	base = versionDash.ReplaceAllString(base, "$1.$2")
	return base, date
}
