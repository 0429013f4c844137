package launch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
	"github.com/copilot-bridge/copilot-bridge/internal/httpserver"
	"github.com/copilot-bridge/copilot-bridge/internal/text"
)

// Server is a bridge that serves.
type Server struct {
	URL   string
	Token string // "" if none is needed
	Own   bool   // this process serves there; otherwise it has to be this user's
}

// Answers is who answers there.
type Answers struct {
	Detail string `json:"answers"`
	Notice string `json:"-"` // set when the answers are not Copilot's
}

// Model is one of the models there.
type Model struct {
	ID            string `json:"id"`
	ContextLength int    `json:"context_length"` // 0 if not known
	Capabilities  struct {
		Limits struct {
			Output int `json:"max_output_tokens"`
		} `json:"limits"`
	} `json:"capabilities"`
}

// Output is how many tokens an answer may have; 0 if that is not known.
func (m Model) Output() int { return m.Capabilities.Limits.Output }

// A bridge on this machine answers these requests from memory, except for the list of
// models, for which it may have to ask.
const (
	healthWait = 3 * time.Second
	modelsWait = time.Minute
)

// maxAnswer bounds what is read of an answer.
const maxAnswer = 4 << 20

// Running finds a bridge of this user among the addresses where one may serve. ok
// is false if there is none, or none that takes the token.
func Running(ctx context.Context, urls []string, token string) (s Server, who Answers, ok bool) {
	for _, u := range urls {
		s = Server{URL: u, Token: token}
		if who, err := s.health(ctx); err == nil && who.Detail != "" { // which it tells to those it admits
			return s, who, true
		}
	}
	return Server{}, Answers{}, false
}

func (s Server) health(ctx context.Context) (who Answers, err error) {
	ctx, cancel := context.WithTimeout(ctx, healthWait)
	defer cancel()
	h, err := s.get(ctx, "/healthz", &who)
	who.Notice = h.Get(wire.NoticeHeader)
	return who, err
}

// Model finds the model of a name or, without one, the first of these that
// exists: the configured one, one that suits the client, the first of the list.
func (s Server) Model(ctx context.Context, c Client, name, configured string) (m Model, err error) {
	ctx, cancel := context.WithTimeout(ctx, modelsWait)
	defer cancel()
	var list struct{ Data []Model }
	if _, err := s.get(ctx, "/v1/models", &list); err != nil {
		return m, err
	}
	if wanted := cmp.Or(name, configured); wanted != "" {
		_, err := s.get(ctx, "/v1/models/"+url.PathEscape(wanted), &m)
		if bridge.CodeOf(err) == bridge.CodeNotFound && name != "" {
			return m, unknown(name, list.Data)
		}
		if err == nil || name != "" {
			return m, err
		}
	}
	for _, m := range list.Data {
		if c.prefers != "" && strings.HasPrefix(m.ID, c.prefers) {
			return m, nil
		}
	}
	if len(list.Data) == 0 {
		return m, &bridge.Error{Code: bridge.CodeUnavailable, Message: "the bridge has no models", Remedy: "see `copilot-bridge models`"}
	}
	return list.Data[0], nil
}

func unknown(name string, models []Model) error {
	var names []string
	for _, m := range models {
		if !strings.HasPrefix(m.ID, "agent/") { // which would work beside the client
			names = append(names, m.ID)
		}
	}
	e := &bridge.Error{Code: bridge.CodeInvalid, Message: fmt.Sprintf("there is no model %.128q", name), Remedy: "the models are " + strings.Join(names, ", ")}
	if near := text.Nearest(name, names); near != "" {
		e.Remedy = "did you mean " + near + "? " + e.Remedy
	}
	return e
}

// get asks the bridge. The token must not reach another user's program.
func (s Server) get(ctx context.Context, path string, into any) (http.Header, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	if s.Token != "" {
		r.Header.Set("Authorization", "Bearer "+s.Token)
	}
	t := &http.Transport{DisableKeepAlives: true}
	if !s.Own {
		t.DialContext = httpserver.DialOwn
	}
	client := &http.Client{Transport: t}
	res, err := client.Do(r)
	if err != nil {
		return nil, &bridge.Error{Code: bridge.CodeUnavailable, Message: "the bridge at " + s.URL + " does not answer", Cause: err}
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		var refused struct{ Error struct{ Message string } }
		if json.Unmarshal(body, &refused) != nil || refused.Error.Message == "" {
			refused.Error.Message = fmt.Sprintf("the bridge at %s answered %s", s.URL, res.Status)
		}
		e := &bridge.Error{Code: bridge.CodeUnavailable, Message: refused.Error.Message}
		if res.StatusCode == http.StatusNotFound {
			e.Code = bridge.CodeNotFound
		}
		return nil, e
	}
	return res.Header, json.Unmarshal(body, into)
}
