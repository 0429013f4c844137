package capabilities

import (
	"context"
	"slices"
	"strings"
	"time"

	copilot "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"
)

// authMatrix tries every combination of the ways to authenticate. The tokens
// are made up, so that it shows which of them are looked at.
func authMatrix(r *rig) {
	env := r.alone()
	const bogus = "gho_000000000000000000000000000000000000"
	for n := range 4 {
		token, login := []string{"", bogus}[n/2], n%2 == 1
		rt := r.runtimeIn("", env, func(o *copilot.ClientOptions) { o.GitHubToken, o.UseLoggedInUser = token, copilot.Bool(login) })
		for m := range 4 {
			own, byok := []string{"", bogus}[m/2], m%2 == 0
			var parts []string
			for name, on := range map[string]bool{"client token": token != "", "login": login, "session token": own != "", "provider": byok} {
				if on {
					parts = append(parts, name)
				}
			}
			slices.Sort(parts)
			r.saw(strings.ReplaceAll(listed(parts, "nothing"), ", ", " + "), "%s", r.authenticate(rt, own, byok))
		}
		check(rt.kill())
	}
}

// authenticate opens a session and runs a turn, and says how far that went.
func (r *rig) authenticate(rt *runtime, token string, byok bool) string {
	ctx, cancel := context.WithTimeout(r.ctx, 20*time.Second)
	defer cancel()
	var s *session
	if try(func() {
		s = r.part(ctx).open(rt, func(c *copilot.SessionConfig) {
			c.GitHubToken = token
			if !byok {
				c.Provider = nil
			}
		})
	}) != nil {
		return "the session is refused"
	}
	var list []copilot.SessionEvent
	err := try(func() { list = s.turn("text hello") })
	for _, e := range all[*rpc.SessionErrorData](list) {
		return "the session opens, the turn fails (" + e.ErrorType + ")"
	}
	switch {
	case err != nil:
		return "the session opens, the turn fails"
	case lastText(list) == "hello":
		return "the provider answers"
	}
	return "nobody answers"
}

// byokModels asks for the list of models where there is a provider.
func byokModels(r *rig) {
	list := func(rt *runtime) string {
		models, err := rt.client.ListModels(r.ctx)
		if err != nil {
			return "an error"
		}
		var ids []string
		for _, m := range models {
			ids = append(ids, m.ID)
		}
		return listed(ids, "an empty list")
	}
	r.saw("provider in the environment, offline: ListModels gives", "%s", list(r.runtime("")))
	asked := 0
	for _, q := range r.model.Requests() {
		if strings.HasSuffix(q.Path, "/models") {
			asked++
		}
	}
	r.saw("and asks the provider's /models", "%d times", asked)
	rt := r.runtimeIn("", r.alone())
	r.open(rt)
	r.saw("provider of a session only, no login: ListModels gives", "%s", list(rt))
	r.saw("with OnListModels it gives", "%s", list(r.runtime("", func(o *copilot.ClientOptions) {
		o.OnListModels = func(context.Context) ([]copilot.ModelInfo, error) { return []copilot.ModelInfo{{ID: "mine"}}, nil }
	})))
}
