package config

import (
	"fmt"
	"net/url"
	"strings"
)

// check compares settings with each other and fills in what follows from them.
func (l *loader) check() {
	if l.incomplete {
		return // what seems to be missing may stand in the part that could not be read
	}
	if l.cfg.AuditLogDir == "" {
		l.cfg.AuditLogDir = l.cfg.Path("audit")
	}
	l.checkBYOK()
	l.checkABP()
	l.checkTelemetry()
	l.checkInfiniteSessions()
}

// baseURLs is where providers are unless the user says otherwise. Every
// customer of Azure has a different one.
var baseURLs = map[Provider]string{
	ProviderOpenAI: "https://api.openai.com/v1", ProviderAnthropic: "https://api.anthropic.com", ProviderOllama: "http://127.0.0.1:11434/v1",
}

func (l *loader) checkBYOK() {
	byok := &l.cfg.BYOK
	if l.bad["byok.provider"] {
		return
	}
	if byok.Provider == "" {
		if vars := l.givenOf("byok."); len(vars) > 0 {
			l.missing("byok.provider", fmt.Sprintf("must be set to %s, because %s",
				find(l.table, "byok.provider").allowed, listed(vars, "is", "are")+" set"))
		}
		return
	}
	because := fmt.Sprintf("because the provider is %s", byok.Provider)
	if byok.Model == "" && !l.bad["byok.model"] {
		l.missing("byok.model", "must be set, "+because)
	}
	if byok.BaseURL == "" && !l.bad["byok.base_url"] {
		byok.BaseURL = baseURLs[byok.Provider]
		if byok.BaseURL == "" {
			l.missing("byok.base_url", "must be set, "+because)
		}
	}
	if byok.APIKey == "" && byok.BearerToken == "" && !l.bad["byok.api_key"] && !l.bad["byok.bearer_token"] && byok.needsKey() {
		l.missing("byok.api_key", "must be set, "+because)
	}
}

// needsKey reports whether no request can succeed without a key. Servers that
// merely speak OpenAI's or Anthropic's API often want none.
func (b *BYOK) needsKey() bool {
	return b.Provider == ProviderAzure || b.Provider != ProviderOllama && hostOf(b.BaseURL) == hostOf(baseURLs[b.Provider])
}

func hostOf(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Hostname())
}

// givenOf returns the variables of a group that something other than a default
// gives a value.
func (l *loader) givenOf(prefix string) []string {
	var vars []string
	for _, s := range l.table {
		if strings.HasPrefix(s.key, prefix) && l.cfg.origins[s.key].Source != SourceDefault {
			vars = append(vars, s.env)
		}
	}
	return vars
}

// listed names variables, with the verb that follows.
func listed(vars []string, one, many string) string {
	if len(vars) == 1 {
		return vars[0] + " " + one
	}
	last := len(vars) - 1
	return strings.Join(vars[:last], ", ") + " and " + vars[last] + " " + many
}

// checkABP lets the older name of the transport stand in for the newer one.
func (l *loader) checkABP() {
	if l.cfg.ABP.Protocol == "" || l.cfg.origins["abp.transport"].Source != SourceDefault {
		return
	}
	l.cfg.ABP.Transport = Transport(l.cfg.ABP.Protocol)
	l.cfg.origins["abp.transport"] = l.cfg.origins["abp.protocol"]
}

func (l *loader) checkTelemetry() {
	t := &l.cfg.Telemetry
	if l.bad["telemetry.exporter"] || l.bad["telemetry.otlp_endpoint"] || l.bad["telemetry.file"] {
		return
	}
	switch {
	case t.ExporterType == ExporterOTLP && t.OTLPEndpoint == "":
		l.missing("telemetry.otlp_endpoint", "must be set, because the exporter is "+string(ExporterOTLP))
	case t.ExporterType == ExporterFile && t.FilePath == "":
		l.missing("telemetry.file", "must be set, because the exporter is "+string(ExporterFile))
	case t.ExporterType != "":
	case t.OTLPEndpoint != "" && t.FilePath != "":
		s := find(l.table, "telemetry.exporter")
		l.missing(s.key, fmt.Sprintf("must be set to %s, because both a file and an endpoint are set", s.allowed))
	case t.OTLPEndpoint != "":
		t.ExporterType = ExporterOTLP
	case t.FilePath != "":
		t.ExporterType = ExporterFile
	}
}

// The runtime's own thresholds, which stand where only one is set.
const (
	runtimeBackground = 0.80
	runtimeBuffer     = 0.95
)

func (l *loader) checkInfiniteSessions() {
	const background, buffer = "infinite_sessions.background_threshold", "infinite_sessions.buffer_threshold"
	if l.bad[background] || l.bad[buffer] {
		return
	}
	low, high := l.cfg.InfiniteSessions.BackgroundThreshold, l.cfg.InfiniteSessions.BufferThreshold
	switch {
	case low == 0 && high == 0:
	case low == 0 && high <= runtimeBackground:
		l.reject(find(l.table, buffer), fmt.Sprintf("must be above %s, which is %g", background, runtimeBackground), false)
	case high == 0 && low >= runtimeBuffer:
		l.reject(find(l.table, background), fmt.Sprintf("must be below %s, which is %g", buffer, runtimeBuffer), false)
	case high != 0 && low >= high:
		l.reject(find(l.table, background), fmt.Sprintf("must be below %s, which is %g", buffer, high), false)
	}
}
