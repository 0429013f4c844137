package openai

import (
	"strings"
	"testing"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/wire"
)

func TestIgnoredFieldsAreNoticed(t *testing.T) {
	many := make([]string, 40)
	for i := range many {
		many[i] = `"field_` + strings.Repeat("x", i+1) + `":1`
	}
	for _, c := range []struct{ name, path, body, want string }{
		{"nothing ignored", "chat/completions", `"messages":[{"role":"user","content":"hi"}],"stream":false`, ""},
		{"absent", "chat/completions", `"messages":[{"role":"user","content":"hi"}],"logprobs":false,"seed":null`, ""},
		{"of no consequence", "chat/completions", `"messages":[{"role":"user","content":"hi"}],"user":"me","store":true,"metadata":{}`, ""},
		{"logprobs", "chat/completions", `"messages":[{"role":"user","content":"hi"}],"logprobs":true,"top_logprobs":3`, "without effect here: logprobs, top_logprobs"},
		{"of another type", "chat/completions", `"messages":[{"role":"user","content":"hi"}],"logprobs":"yes","seed":{"a":[1]}`, "without effect here: logprobs, seed"},
		{"sampling", "chat/completions", `"temperature":0,"min_p":0.1,"messages":[{"role":"user","content":"hi"}],"top_k":3`, "without effect here: min_p, temperature, top_k"},
		{"names for no header", "chat/completions", `"a b":1,"x\r\nEvil: 1":2,"é":3,"":4,"messages":[{"role":"user","content":"hi"}]`, ""},
		{"many", "chat/completions", `"messages":[{"role":"user","content":"hi"}],` + strings.Join(many, ","), ", 24 more"},
		{"responses", "responses", `"input":"hi","top_logprobs":2,"temperature":0.5,"include":["message.output_text.logprobs"],"seed":7`,
			"without effect here: include[message.output_text.logprobs], seed, temperature, top_logprobs"},
		{"responses, nothing", "responses", `"input":"hi","store":false,"include":["reasoning.encrypted_content"]`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			svc := plays(nil, bridge.MessageDone{Message: "m", Text: "ok"}, bridge.TurnEnded{Reason: bridge.EndDone})
			w := post(t, fixed(svc), "/v1/"+c.path, `{"model":"gpt-5",`+c.body+`}`)
			got := w.Header().Values(wire.NoticeHeader)
			if w.Code != 200 || len(svc.asked) != 1 || c.want == "" != (len(got) == 0) || c.want != "" && !strings.HasSuffix(got[0], c.want) {
				t.Errorf("%d %s, notices %q, want %q", w.Code, w.Body, got, c.want)
			}
		})
	}
}
