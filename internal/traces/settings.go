package traces

import (
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// settings are what OpenTelemetry's variables say.
type settings struct {
	endpoint string // of traces, whole; "" for no traces
	headers  http.Header
	timeout  time.Duration
	resource []attr
	parent   link // of spans that have none
	sampler  sampler
}

// sampler says which traces are kept.
type sampler struct {
	parentBased bool    // a parent's decision counts where there is one
	ratio       float64 // of the others
}

// reader reads variables and collects what is wrong with them. Values are never
// repeated: some hold keys.
type reader struct {
	env   map[string]string
	wrong []string
}

func (r *reader) problem(name, what string) {
	r.wrong = append(r.wrong, name+" "+what)
}

// first returns the first of the variables that is set, with its name.
func (r *reader) first(names ...string) (name, value string) {
	for _, name := range names {
		if value := strings.TrimSpace(r.env[name]); value != "" {
			return name, value
		}
	}
	return names[0], ""
}

// read reads the variables. endpoint, if set, counts before them. What is wrong
// with others is ignored, and told.
func read(environ []string, endpoint, version string) (s settings, wrong []string) {
	r := &reader{env: map[string]string{}}
	for _, kv := range environ {
		if name, value, ok := strings.Cut(kv, "="); ok && (strings.HasPrefix(name, "OTEL_") || name == "TRACEPARENT") {
			r.env[name] = value
		}
	}
	if strings.EqualFold(r.env["OTEL_SDK_DISABLED"], "true") {
		return s, nil
	}
	switch name, to := r.first("OTEL_TRACES_EXPORTER"); to {
	case "", "otlp":
	case "none":
		return s, nil
	default:
		r.problem(name, "can be otlp or none here; there are no traces")
		return s, r.wrong
	}
	if s.endpoint = r.endpoint(endpoint); s.endpoint == "" {
		return s, r.wrong
	}
	if name, protocol := r.first("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"); protocol != "" && protocol != "http/protobuf" {
		r.problem(name, "can only be http/protobuf here, which is used")
	}
	s.headers, s.timeout = r.headers(), r.timeout()
	s.resource, s.sampler = r.resource(version), r.sampler()
	if given := r.env["TRACEPARENT"]; given != "" {
		var ok bool
		if s.parent, ok = parseParent(given); !ok {
			r.problem("TRACEPARENT", "is not what W3C Trace Context describes, and is ignored")
		}
	}
	return s, r.wrong
}

func (r *reader) endpoint(own string) string {
	name, at := r.first("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	if own != "" || at == "" {
		if name, at = r.first("OTEL_EXPORTER_OTLP_ENDPOINT"); own != "" {
			at = own // checked with the configuration
		}
		if at != "" {
			at = strings.TrimRight(at, "/") + "/v1/traces"
		}
	}
	if at == "" {
		return ""
	}
	u, err := url.Parse(at)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		r.problem(name, "is not an http or https URL with a host and without a user; there are no traces")
		return ""
	}
	return at
}

func (r *reader) headers() http.Header {
	out := http.Header{}
	name, list := r.first("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
	pairs, ok := parsePairs(list)
	if !ok {
		r.problem(name, "is not a list of name=value, separated by commas; a part of it is ignored")
	}
	for _, p := range pairs {
		out.Add(p[0], p[1])
	}
	return out
}

// timeoutMost bounds what one request may take.
const timeoutMost = time.Minute

func (r *reader) timeout() time.Duration {
	name, given := r.first("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT")
	if given == "" {
		return 10 * time.Second
	}
	ms, err := strconv.Atoi(given)
	if err != nil || ms <= 0 {
		r.problem(name, "is not a number of milliseconds; 10000 is used")
		return 10 * time.Second
	}
	return min(time.Duration(ms)*time.Millisecond, timeoutMost)
}

func (r *reader) resource(version string) []attr {
	pairs, ok := parsePairs(r.env["OTEL_RESOURCE_ATTRIBUTES"])
	if !ok {
		r.problem("OTEL_RESOURCE_ATTRIBUTES", "is not a list of name=value, separated by commas; a part of it is ignored")
	}
	all := map[string]string{"service.name": serviceName, "service.version": version, "telemetry.sdk.name": serviceName, "telemetry.sdk.language": "go"}
	for _, p := range pairs {
		all[p[0]] = p[1]
	}
	if name := r.env["OTEL_SERVICE_NAME"]; name != "" {
		all["service.name"] = name
	}
	var out []attr
	for _, k := range slices.Sorted(maps.Keys(all)) {
		out = append(out, attr{k, all[k]})
	}
	return out
}

func (r *reader) sampler() sampler {
	always := sampler{parentBased: true, ratio: 1}
	name, kind := r.first("OTEL_TRACES_SAMPLER")
	kind, parentBased := strings.CutPrefix(kind, "parentbased_")
	switch kind {
	case "":
		return always
	case "always_on":
		return sampler{parentBased, 1}
	case "always_off":
		return sampler{parentBased, 0}
	case "traceidratio":
		_, arg := r.first("OTEL_TRACES_SAMPLER_ARG")
		if arg == "" {
			return sampler{parentBased, 1}
		}
		ratio, err := strconv.ParseFloat(arg, 64)
		if err != nil || math.IsNaN(ratio) || ratio < 0 || ratio > 1 {
			r.problem("OTEL_TRACES_SAMPLER_ARG", "is not a number from 0 to 1; all traces are kept")
			ratio = 1
		}
		return sampler{parentBased, ratio}
	}
	r.problem(name, "can be always_on, always_off or traceidratio, also with parentbased_ before it; all traces are kept")
	return always
}

// parsePairs reads "name=value,name=value" with values in URL encoding.
func parsePairs(list string) (pairs [][2]string, ok bool) {
	ok = true
	for part := range strings.SplitSeq(list, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, value, found := strings.Cut(part, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		value, err := url.PathUnescape(value)
		if !found || name == "" || err != nil || strings.ContainsAny(name+value, "\r\n\x00") {
			ok = false
			continue
		}
		pairs = append(pairs, [2]string{name, value})
	}
	return pairs, ok
}
