package config

import (
	"fmt"
	"io"
	"log/slog"
)

// Secret is a value that must not be seen. Whatever prints, logs or encodes it
// gets a mark instead; string(s) gives the value to those who need it.
type Secret string

// Plain are headers as they are sent; nil if there are none.
func Plain(headers map[string]Secret) map[string]string {
	if len(headers) == 0 {
		return nil
	}
	out := make(map[string]string, len(headers))
	for name, value := range headers {
		out[name] = string(value)
	}
	return out
}

const mark = "••••••"

// String is the mark, or nothing for an empty secret.
func (s Secret) String() string { return s.masked() }

func (s Secret) masked() string {
	if s == "" {
		return ""
	}
	return mark
}

// Format implements fmt.Formatter, so that no verb shows the value.
func (s Secret) Format(f fmt.State, _ rune) {
	// fmt reports a failed write itself.
	_, _ = io.WriteString(f, s.masked())
}

// MarshalText implements encoding.TextMarshaler, which JSON and YAML use too.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.masked()), nil }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.masked()) }
