package githubtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"net/http"
	"time"
)

// Where the runtime asks.
const (
	UserPath      = "/copilot_internal/user"
	ModelsPath    = "/models"
	ChatPath      = "/chat/completions"
	ResponsesPath = "/responses"
	MessagesPath  = "/v1/messages"
	MCPPath       = "/mcp/readonly"
)

// Account is who a token belongs to, and what is left of the premium requests.
type Account struct {
	Login       string
	Plan        string
	NoChat      bool // the account has no Copilot: its models are refused
	Entitlement int
	Remaining   int
	Unlimited   bool
	ResetDate   string // 2006-01-02
}

func individual() Account {
	return Account{Login: "octocat", Plan: "individual", Entitlement: 300, Remaining: 240, ResetDate: "2027-01-01"}
}

// Model is an entry of the list of models.
type Model struct {
	ID         string
	Name       string
	Vendor     string
	Endpoint   string // ChatPath, ResponsesPath or MessagesPath
	Context    int    // tokens
	Prompt     int
	Output     int
	Vision     bool
	NoTools    bool
	Efforts    []string
	Multiplier float64 // premium requests for one turn
	Policy     string  // enabled, disabled or unconfigured
}

// UsualModels has one model for each kind of endpoint.
func UsualModels() []Model {
	return []Model{
		{ID: "gpt-5", Name: "GPT-5", Vendor: "Azure OpenAI", Endpoint: ChatPath, Context: 264000, Prompt: 128000, Output: 64000, Vision: true, Multiplier: 1, Policy: "enabled"},
		{ID: "gpt-5-codex", Name: "GPT-5-Codex", Vendor: "OpenAI", Endpoint: ResponsesPath, Context: 400000, Prompt: 272000, Output: 128000, Vision: true, Efforts: []string{"low", "medium", "high"}, Multiplier: 1, Policy: "enabled"},
		{ID: "claude-sonnet-4.5", Name: "Claude Sonnet 4.5", Vendor: "Anthropic", Endpoint: MessagesPath, Context: 144000, Prompt: 128000, Output: 16000, Vision: true, Multiplier: 1, Policy: "enabled"},
	}
}

func (s *Server) user(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	a := s.account
	s.mu.Unlock()
	percent := 100.0
	if a.Entitlement > 0 {
		percent = 100 * float64(a.Remaining) / float64(a.Entitlement)
	}
	sku := "copilot_" + a.Plan
	writeJSON(w, http.StatusOK, map[string]any{
		"login": a.Login, "access_type_sku": sku, "copilot_plan": a.Plan, "chat_enabled": !a.NoChat, "organization_list": []any{},
		"endpoints":        map[string]any{"api": s.http.URL, "telemetry": s.http.URL + "/telemetry"},
		"quota_reset_date": a.ResetDate,
		"quota_snapshots": map[string]any{"premium_interactions": map[string]any{
			"entitlement": a.Entitlement, "remaining": a.Remaining, "percent_remaining": percent, "unlimited": a.Unlimited,
			"overage_count": 0, "overage_permitted": false, "quota_id": "premium_interactions", "timestamp_utc": "2026-11-01T00:00:00Z",
		}},
	})
}

func (s *Server) list(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.account.NoChat {
		writeJSON(w, http.StatusForbidden, map[string]any{"error": map[string]string{"message": "access denied"}})
		return
	}
	data := []any{}
	for _, m := range s.models {
		supports := map[string]any{"streaming": true, "tool_calls": !m.NoTools, "parallel_tool_calls": !m.NoTools, "vision": m.Vision}
		if len(m.Efforts) > 0 {
			supports["reasoning_effort"] = m.Efforts
		}
		limits := map[string]any{"max_context_window_tokens": m.Context, "max_prompt_tokens": m.Prompt, "max_output_tokens": m.Output}
		if m.Vision {
			limits["vision"] = map[string]any{"max_prompt_images": 5, "max_prompt_image_size": 3 << 20, "supported_media_types": []string{"image/png", "image/jpeg"}}
		}
		data = append(data, map[string]any{
			"id": m.ID, "name": m.Name, "vendor": m.Vendor, "version": m.ID, "object": "model", "preview": false, "model_picker_enabled": true,
			"policy": map[string]any{"state": m.Policy, "terms": "The terms of " + m.Name}, "billing": map[string]any{"is_premium": m.Multiplier > 0, "multiplier": m.Multiplier},
			"capabilities": map[string]any{"type": "chat", "object": "model_capabilities", "family": m.ID, "tokenizer": "o200k_base", "limits": limits, "supports": supports},

			"supported_endpoints": []string{m.Endpoint},
		})
	}
	writeJSON(w, http.StatusOK, map[string]any{"data": data})
}

// issuer makes the server's certificates by an authority of its own. The runtime
// refuses a certificate that is its own authority.
type issuer struct {
	authority *x509.Certificate
	key       *ecdsa.PrivateKey
	der       []byte
}

func newIssuer() (*issuer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	root := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "stand-in for GitHub"}, NotBefore: now.AddDate(-2, 0, 0), NotAfter: now.AddDate(2, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, root, root, &key.PublicKey, key)
	return &issuer{root, key, der}, err
}

// issue makes a certificate for the server.
func (i *issuer) issue(from, to time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "127.0.0.1"}, NotBefore: from, NotAfter: to,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, leaf, i.authority, &key.PublicKey, i.key)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
