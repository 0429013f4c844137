package openai

import (
	"cmp"
	"net/http"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/door/wire"
)

// modelObject is a model as the API shows it, and beside that as Anthropic's
// does, whose clients ask at the same path. When it was made is not known.
type modelObject struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`

	Type        string `json:"type"`
	DisplayName string `json:"display_name"`
	CreatedAt   string `json:"created_at"`
}

func newModelObject(m bridge.ChatModel) modelObject {
	name := cmp.Or(m.Model.Name, m.ID)
	if m.Profile == bridge.ProfileAgent {
		name += " (agent)"
	}
	return modelObject{
		ID: m.Name, Object: "model", OwnedBy: "github-copilot",
		Type: "model", DisplayName: name, CreatedAt: "1970-01-01T00:00:00Z",
	}
}

// models is GET /v1/models: the models as chat, then as agents.
func (d *door) models(w http.ResponseWriter, r *http.Request) {
	list, err := d.svc.Models(r.Context())
	if err != nil {
		d.fail(w, endedBy(r.Context(), err))
		return
	}
	out := struct {
		Object  string        `json:"object"`
		Data    []modelObject `json:"data"`
		HasMore bool          `json:"has_more"`
	}{"list", make([]modelObject, 0, len(list)), false}
	for _, profile := range []bridge.Profile{bridge.ProfileChat, bridge.ProfileAgent} {
		for _, m := range list {
			if m.Profile == profile {
				out.Data = append(out.Data, newModelObject(m))
			}
		}
	}
	wire.JSON(w, http.StatusOK, out)
}

// model is GET /v1/models/{id...}. Ids may hold a slash, as those of agents do.
func (d *door) model(w http.ResponseWriter, r *http.Request) {
	m, err := d.resolve(w, r, r.PathValue("id"))
	if err != nil {
		d.fail(w, err)
		return
	}
	wire.JSON(w, http.StatusOK, newModelObject(m))
}

// resolve finds the model that a client names. If it is another one instead,
// a header says so.
func (d *door) resolve(w http.ResponseWriter, r *http.Request, name string) (bridge.ChatModel, error) {
	if name == "" {
		return bridge.ChatModel{}, wire.At("model", "expected the name of a model")
	}
	m, err := d.svc.Model(r.Context(), name)
	if err != nil {
		if bridge.CodeOf(err) == bridge.CodeNotFound {
			return m, &named{err: err, param: "model", code: "model_not_found"}
		}
		return m, endedBy(r.Context(), err)
	}
	if m.Instead != "" {
		w.Header().Set("X-Copilot-Bridge-Model", m.Name)
	}
	return m, nil
}
