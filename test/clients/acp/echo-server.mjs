// An MCP server with one tool, which returns ECHO_PREFIX and its argument.
import { createInterface } from "node:readline";

const answers = {
  initialize: (p) => ({ protocolVersion: p.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "echo", version: "1" } }),
  "tools/list": () => ({
    tools: [{ name: "say", description: "Says it", inputSchema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] } }],
  }),
  "tools/call": (p) => ({ content: [{ type: "text", text: `${process.env.ECHO_PREFIX}: ${p.arguments.text}` }] }),
};

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) continue;
  const answer = answers[method];
  const body = answer ? { result: answer(params) } : { error: { code: -32601, message: `no ${method}` } };
  process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, ...body }) + "\n");
}
