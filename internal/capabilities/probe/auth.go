package probe

import (
	"context"
	"slices"
	"strings"
	"time"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"
)

// alone is an environment without a login, in which GitHub cannot be reached
// but the model can: whatever needs GitHub fails at once.
func (r *rig) alone(ctx context.Context) ([]string, error) {
	nowhere, err := deadPort(ctx)
	if err != nil {
		return nil, err
	}
	home, err := r.folder("nobody")
	if err != nil {
		return nil, err
	}
	env := slices.DeleteFunc(r.environment(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return strings.HasPrefix(name, "COPILOT_") || name == "HOME" || name == "XDG_CONFIG_HOME" || strings.HasSuffix(strings.ToLower(name), "_proxy")
	})
	return append(env, "HOME="+home, "HTTPS_PROXY=http://"+nowhere, "https_proxy=http://"+nowhere, "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1"), nil
}

// authMatrix tries every combination of the ways to say who asks. The tokens
// are made up, so that what is seen is which of them are looked at.
func authMatrix(ctx context.Context, r *rig) error {
	env, err := r.alone(ctx)
	if err != nil {
		return err
	}
	const bogus = "gho_000000000000000000000000000000000000"
	for _, token := range []string{"", bogus} {
		for _, login := range []bool{false, true} {
			rt, err := r.runtimeIn(ctx, "", env, func(o *copilot.ClientOptions) {
				o.GitHubToken, o.UseLoggedInUser = token, copilot.Bool(login)
			})
			if err != nil {
				return err
			}
			for _, own := range []string{"", bogus} {
				for _, byok := range []bool{true, false} {
					var parts []string
					for name, on := range map[string]bool{"client token": token != "", "login": login, "session token": own != "", "provider": byok} {
						if on {
							parts = append(parts, name)
						}
					}
					slices.Sort(parts)
					if len(parts) == 0 {
						parts = []string{"nothing"}
					}
					r.saw(strings.Join(parts, " + "), "%s", r.tryAuth(ctx, rt, own, byok))
				}
			}
			if err := rt.kill(); err != nil {
				return err
			}
		}
	}
	return nil
}

// tryAuth opens a session and runs a turn, and says how far that went.
func (r *rig) tryAuth(ctx context.Context, rt *runtime, token string, byok bool) string {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	s, err := r.open(ctx, rt, func(c *copilot.SessionConfig) {
		c.GitHubToken = token
		if !byok {
			c.Provider = nil
		}
	})
	if err != nil {
		return "the session is refused"
	}
	list, err := s.turn(ctx, "text hello")
	for _, e := range all[*rpc.SessionErrorData](list) {
		return "the session opens, the turn fails (" + e.ErrorType + ")"
	}
	if err != nil {
		return "the session opens, the turn fails"
	}
	if lastText(list) == "hello" {
		return "the provider answers"
	}
	return "nobody answers"
}

// byokModels asks for the list of models where there is a provider.
func byokModels(ctx context.Context, r *rig) error {
	env, err := r.alone(ctx)
	if err != nil {
		return err
	}
	list := func(rt *runtime) string {
		models, err := rt.client.ListModels(ctx)
		if err != nil {
			return "an error"
		}
		var ids []string
		for _, m := range models {
			ids = append(ids, m.ID)
		}
		if len(ids) == 0 {
			return "an empty list"
		}
		return strings.Join(ids, ", ")
	}
	byEnv, err := r.runtime(ctx, "")
	if err != nil {
		return err
	}
	r.saw("provider in the environment, offline: ListModels gives", "%s", list(byEnv))
	asked := 0
	for _, q := range r.model.Requests() {
		if strings.HasSuffix(q.Path, "/models") {
			asked++
		}
	}
	r.saw("and asks the provider's /models", "%d times", asked)
	rt, err := r.runtimeIn(ctx, "", env)
	if err != nil {
		return err
	}
	if _, err := r.open(ctx, rt); err != nil {
		return err
	}
	r.saw("provider of a session only, no login: ListModels gives", "%s", list(rt))
	own, err := r.runtime(ctx, "", func(o *copilot.ClientOptions) {
		o.OnListModels = func(context.Context) ([]copilot.ModelInfo, error) { return []copilot.ModelInfo{{ID: "mine"}}, nil }
	})
	if err != nil {
		return err
	}
	r.saw("with OnListModels it gives", "%s", list(own))
	return nil
}
