package view

import (
	"encoding/json"
	"log/slog"
	"net/url"
	"strings"
	"testing"
)

const secret = `sk-"a\b<c>&d e/f`

func TestScrubKnowsAllForms(t *testing.T) {
	var s Scrubber
	s.Learn([]string{secret, "short", "sk-plainplain", "sk-plainplain-longer"})
	encoded, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "key", secret)
	for in, want := range map[string]string{
		"a " + secret + " b":            "a [REDACTED] b",
		string(encoded):                 `"[REDACTED]"`,
		"?k=" + url.QueryEscape(secret): "?k=[REDACTED]",
		"/" + url.PathEscape(secret):    "/[REDACTED]",
		"short is a word":               "short is a word",
		"sk-plainplain-longer":          "[REDACTED]",
		"sk-plainplain-long":            "[REDACTED]-long",
	} {
		if got := s.Text(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
	if got := s.Text(log.String()); !strings.Contains(got, `key="[REDACTED]"`) {
		t.Errorf("a log record became %q", got)
	}
}

func TestScrubForgets(t *testing.T) {
	var s Scrubber
	if got := s.Text("sk-plainplain"); got != "sk-plainplain" {
		t.Error("knew it before")
	}
	s.Learn([]string{"sk-plainplain"})
	s.Learn(nil)
	if got := s.Text("sk-plainplain"); got != "sk-plainplain" {
		t.Error("knows it still")
	}
}
