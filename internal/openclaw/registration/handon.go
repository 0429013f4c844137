package registration

import (
	"net/url"
	"slices"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/config"
	"github.com/copilot-bridge/copilot-bridge/internal/program"
)

// SecretsTo says what becomes of secrets when settings are handed on.
type SecretsTo string

// What becomes of them: they are left out, OpenClaw is told to take them from
// its own environment, or they are copied as they are.
const (
	SecretsOmitted    SecretsTo = "omit"
	SecretsReferenced SecretsTo = "reference"
	SecretsCopied     SecretsTo = "copy"
)

// HandedOn is what a bridge needs that another program starts without the
// environment of this one.
type HandedOn struct {
	Env     map[string]string
	Secrets bool     // Env holds some as they are
	LeftOut []string // the secrets that it lacks, by variable
}

// surroundings are variables that count although they are no settings.
var surroundings = []string{"OPENCLAW_PROFILE", "OPENCLAW_STATE_DIR", "OPENCLAW_CONFIG_PATH", "OPENCLAW_WORKSPACE_DIR", "COPILOT_HOME", "GH_HOST", "GH_CONFIG_DIR",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"}

// HandOn collects what this bridge was told by its environment, for one that is
// started in dir: settings in files it finds by itself. A .env file counts as
// one of these only in dir.
func HandOn(c *config.Config, environ []string, here, dir string, secrets SecretsTo) HandedOn {
	h := HandedOn{Env: map[string]string{}}
	put := func(name, value string, secret bool) {
		switch {
		case value == "":
		case !secret || secrets == SecretsCopied:
			h.Env[name] = value
			h.Secrets = h.Secrets || secret
		case secrets == SecretsReferenced:
			h.Env[name] = Reference(name)
		default:
			h.LeftOut = append(h.LeftOut, name)
		}
	}
	for _, s := range c.Show() {
		from := s.Origin.Source
		if (from == config.SourceEnvironment || from == config.SourceDotEnv && here != dir) && !strings.HasPrefix(s.Key, "serve.") && !strings.HasPrefix(s.Key, "facade.") {
			put(s.Env, c.Value(s.Key), s.Secret)
		}
	}
	for _, name := range surroundings {
		value := program.Variable(environ, name)
		u, err := url.Parse(value)
		put(name, value, err == nil && u.User != nil) // a proxy's password
	}
	for _, name := range []string{"GH_TOKEN", "GITHUB_TOKEN"} {
		put(name, program.Variable(environ, name), true)
	}
	slices.Sort(h.LeftOut)
	return h
}
