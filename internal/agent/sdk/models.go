package sdk

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// providerModels asks a provider which models it has. The configured one is
// always among them, first; a provider without such a list has just that one.
func providerModels(ctx context.Context, p *bridge.Provider, configured string) ([]bridge.Model, error) {
	out := []bridge.Model{{ID: configured, Name: configured}}
	if p.Kind == "azure" {
		return out, nil // lists deployments only through another service
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	base := strings.TrimRight(p.BaseURL, "/")
	if p.Kind == "anthropic" {
		base += "/v1"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/models", nil)
	if err != nil {
		return nil, &bridge.Error{Code: bridge.CodeInvalid, Message: "the provider's address is not a URL", Cause: err}
	}
	switch {
	case p.APIKey == "":
	case p.Kind == "anthropic":
		req.Header.Set("X-Api-Key", p.APIKey)
		req.Header.Set("Anthropic-Version", "2023-06-01")
	default:
		req.Header.Set("Authorization", "Bearer "+p.APIKey)
	}
	for k, v := range p.Headers {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, &bridge.Error{Code: bridge.CodeUnavailable, Message: "the provider at " + p.BaseURL + " cannot be reached",
			Remedy: "check COPILOT_BYOK_BASE_URL and that the server is running", Cause: err}
	}
	defer func() { _ = resp.Body.Close() }() // only read from
	body, err := io.ReadAll(io.LimitReader(resp.Body, 8<<20))
	if err != nil {
		return nil, fmt.Errorf("list of models: %w", err)
	}
	switch {
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		return nil, &bridge.Error{Code: bridge.CodeUnauthenticated, Status: resp.StatusCode,
			Message: "the provider at " + p.BaseURL + " refused the credentials", Remedy: "check COPILOT_BYOK_API_KEY"}
	case resp.StatusCode == http.StatusNotFound:
		return out, nil
	case resp.StatusCode/100 != 2:
		return nil, &bridge.Error{Code: bridge.CodeProvider, Status: resp.StatusCode,
			Message: fmt.Sprintf("the provider at %s answered %s to a request for its models", p.BaseURL, resp.Status)}
	}
	ids, err := decodeModels(body)
	if err != nil {
		return nil, &bridge.Error{Code: bridge.CodeProvider, Message: "the provider's list of models is not understood", Cause: err}
	}
	for _, id := range ids {
		if id != configured {
			out = append(out, bridge.Model{ID: id, Name: id})
		}
	}
	return out, nil
}

func decodeModels(body []byte) ([]string, error) {
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	var ids []string
	for _, m := range list.Data {
		if m.ID != "" {
			ids = append(ids, m.ID)
		}
	}
	return ids, nil
}
