// A legacy runner: reads one request, lets an OpenAI-compatible model answer
// it, runs the one tool that it has, and writes events.
import { writeFileSync } from "node:fs";
import { text } from "node:stream/consumers";

const emit = (event) => process.stdout.write(JSON.stringify(event) + "\n");
const request = JSON.parse(await text(process.stdin));
const messages = request.history.map((m) => ({ role: m.role, content: m.text }));
messages.push({ role: "user", content: request.prompt });

const tools = [{ type: "function", function: { name: "create", parameters: { type: "object", properties: {} } } }];

async function ask() {
  const answer = await fetch(process.env.MODEL_URL + "/chat/completions", {
    method: "POST",
    headers: { authorization: "Bearer " + process.env.MODEL_KEY, "content-type": "application/json" },
    body: JSON.stringify({ model: process.env.MODEL, stream: true, stream_options: { include_usage: true }, messages, tools }),
  });
  if (!answer.ok) {
    const body = await answer.text();
    emit({ type: "error", message: body, status: answer.status });
    process.exit(1);
  }
  const calls = [];
  let said = "", rest = "";
  const decoder = new TextDecoder();
  for await (const piece of answer.body) {
    rest += decoder.decode(piece, { stream: true });
    const lines = rest.split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (!line.startsWith("data: ") || line === "data: [DONE]") continue;
      const chunk = JSON.parse(line.slice(6));
      const delta = chunk.choices?.[0]?.delta ?? {};
      if (delta.content) {
        said += delta.content;
        emit({ type: "assistant_delta", text: delta.content });
      }
      for (const c of delta.tool_calls ?? []) {
        calls[c.index] ??= { id: "", name: "", args: "" };
        calls[c.index].id ||= c.id ?? "";
        calls[c.index].name ||= c.function?.name ?? "";
        calls[c.index].args += c.function?.arguments ?? "";
      }
      if (chunk.usage) emit({ type: "usage", input_tokens: chunk.usage.prompt_tokens, output_tokens: chunk.usage.completion_tokens });
    }
  }
  return { said, calls };
}

for (;;) {
  const { said, calls } = await ask();
  if (said) emit({ type: "assistant_message", text: said });
  if (calls.length === 0) break;
  messages.push({ role: "assistant", content: said, tool_calls: calls.map((c) => ({ id: c.id, type: "function", function: { name: c.name, arguments: c.args } })) });
  for (const c of calls) {
    const input = JSON.parse(c.args);
    emit({ type: "tool_call", tool_name: c.name, tool_use_id: c.id, input });
    await new Promise((done) => setTimeout(done, 20)); // a host that minds has time to say so
    writeFileSync(input.path, input.file_text);
    emit({ type: "tool_result", tool_name: c.name, tool_use_id: c.id, output: "created " + input.path });
    messages.push({ role: "tool", tool_call_id: c.id, content: "created" });
  }
}
