// The official client library uses `copilot-bridge acp` as an editor does: prompts
// with tools and permissions, a cancellation, and a session that another process
// loads.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { Readable, Writable } from "node:stream";
import test from "node:test";
import { client, methods, ndJsonStream, PROTOCOL_VERSION } from "@agentclientprotocol/sdk";

const { AGENT, WORKSPACE, LOG } = process.env;

// tap copies the messages of a stream to the log, one per line.
function tap(direction) {
  let rest = "";
  const decoder = new TextDecoder();
  return new TransformStream({
    transform(chunk, controller) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
      rest = lines.pop();
      for (const line of lines) appendFileSync(LOG, JSON.stringify({ from: direction, line }) + "\n");
      controller.enqueue(chunk);
    },
  });
}

// start runs the agent and connects to it. Permission requests are answered
// with the option that `choose` returns.
async function start(t, choose = () => "allow_once") {
  appendFileSync(LOG, JSON.stringify({ from: "start" }) + "\n");
  const child = spawn(AGENT, ["acp"], { stdio: ["pipe", "pipe", "inherit"], cwd: WORKSPACE });
  const exited = new Promise((resolve) => child.on("exit", resolve));
  const input = tap("client");
  input.readable.pipeTo(Writable.toWeb(child.stdin)).catch(() => {});
  const stream = ndJsonStream(input.writable, Readable.toWeb(child.stdout).pipeThrough(tap("agent")));
  const seen = { updates: [], asked: [], read: [] };
  const watchers = new Set();
  const app = client({ name: "sdk-test" })
    .onRequest(methods.client.session.requestPermission, async ({ params }) => {
      seen.asked.push(params);
      const optionId = await choose(params);
      return { outcome: optionId ? { outcome: "selected", optionId } : { outcome: "cancelled" } };
    })
    .onRequest(methods.client.fs.readTextFile, ({ params }) => {
      seen.read.push(params.path);
      return { content: "as the editor has it\n" };
    })
    .onNotification(methods.client.session.update, ({ params }) => {
      seen.updates.push(params.update);
      for (const w of watchers) w(params.update);
    });
  const connection = app.connect(stream);
  t.after(async () => {
    child.stdin.end();
    assert.equal(await exited, 0, "the agent's exit code");
  });
  const agent = connection.agent;
  seen.hello = await agent.request("initialize", {
    protocolVersion: PROTOCOL_VERSION,
    clientInfo: { name: "sdk-test", version: "1" },
    clientCapabilities: { fs: { readTextFile: true, writeTextFile: true }, terminal: true },
  });
  return {
    agent,
    seen,
    until: (is) => new Promise((resolve) => watchers.add((u) => is(u) && resolve(u))),
    of: (kind) => seen.updates.filter((u) => u.sessionUpdate === kind),
    text: (kind = "agent_message_chunk") =>
      seen.updates.filter((u) => u.sessionUpdate === kind).map((u) => u.content.text).join(""),
  };
}

const prompt = (sessionId, ...lines) => ({ sessionId, prompt: [{ type: "text", text: lines.join("\n") }] });
const tool = (name, args) => `rehearsal: tool ${name} ${JSON.stringify(args)}`;
const file = (name) => path.join(WORKSPACE, name);

let stored; // a session for the last test

// eventually repeats a check until it succeeds: the library calls the handler of
// an update with a delay, so a later answer may be handled first.
async function eventually(check) {
  for (const deadline = Date.now() + 5000; ; await new Promise((resolve) => setTimeout(resolve, 10))) {
    try {
      return check();
    } catch (err) {
      if (Date.now() > deadline) throw err;
    }
  }
}

const patience = { timeout: 180_000 };

test("a prompt with tools and a permission", patience, async (t) => {
  const c = await start(t);
  assert.equal(c.seen.hello.protocolVersion, 1);
  assert.equal(c.seen.hello.agentInfo.name, "copilot-bridge");
  const session = await c.agent.request("session/new", { cwd: WORKSPACE, mcpServers: [] });
  stored = session.sessionId;
  assert.deepEqual(session.modes.availableModes.map((m) => m.name), ["Agent", "Plan", "Autopilot"]);
  assert.ok(session.configOptions.find((o) => o.id === "model").options.length > 0);
  await eventually(() => assert.ok(c.of("available_commands_update")[0].availableCommands.some((x) => x.name === "compact")));
  const done = await c.agent.request(
    "session/prompt",
    prompt(
      stored,
      "rehearsal: reason Let me see.",
      "rehearsal: text I set to work.",
      tool("create", { path: file("new.txt"), file_text: "one\n" }),
      "rehearsal: next",
      tool("edit", { path: file("new.txt"), old_str: "one", new_str: "two" }),
      tool("bash", { command: "touch ran.txt", description: "Leave a trace" }),
      tool("sql", { query: "INSERT INTO todos (id, title, status) VALUES ('a', 'Write it', 'done'), ('b', 'Read it', 'pending')", description: "Plan" }),
      "rehearsal: next",
      "rehearsal: text It is written.",
    ),
  );
  assert.equal(done.stopReason, "end_turn");
  await eventually(() => assert.equal(c.text(), "I set to work.It is written."));
  assert.equal(c.text("agent_thought_chunk"), "Let me see.");
  assert.equal(readFileSync(file("new.txt"), "utf8"), "two\n");
  assert.ok(existsSync(file("ran.txt")));
  assert.equal(c.seen.asked.length, 1, "only the command needs consent");
  const asked = c.seen.asked[0].toolCall;
  const calls = c.of("tool_call");
  const bash = calls.find((u) => u.kind === "execute");
  assert.equal(asked.toolCallId, bash.toolCallId);
  assert.match(asked.title, /^touch ran.txt/);
  const edit = calls.find((u) => u.title === "Edit new.txt");
  assert.deepEqual(edit.content[0], { type: "diff", path: file("new.txt"), oldText: "one", newText: "two" });
  const ends = c.of("tool_call_update").filter((u) => u.status === "completed");
  assert.equal(ends.length, 4, "each of the four tools has ended");
  assert.deepEqual(c.of("plan").at(-1).entries.map((e) => [e.content, e.status]), [["Write it", "completed"], ["Read it", "pending"]]);
  assert.ok(c.of("usage_update").at(-1).used > 0);
});

test("permissions that are refused or not answered", patience, async (t) => {
  for (const answer of ["reject_once", ""]) {
    const c = await start(t, () => answer);
    const { sessionId } = await c.agent.request("session/new", { cwd: WORKSPACE, mcpServers: [] });
    const done = await c.agent.request(
      "session/prompt",
      prompt(sessionId, tool("bash", { command: "touch refused.txt" }), "rehearsal: next", "rehearsal: text Then not."),
    );
    assert.equal(done.stopReason, "end_turn");
    await eventually(() => assert.equal(c.text(), "Then not."));
    await eventually(() => assert.equal(c.of("tool_call_update").at(-1).status, "failed"));
    assert.ok(!existsSync(file("refused.txt")));
  }
});

test("consent for the session, in autopilot mode too", patience, async (t) => {
  const c = await start(t, () => "allow_always");
  const { sessionId } = await c.agent.request("session/new", { cwd: WORKSPACE, mcpServers: [] });
  await c.agent.request("session/set_mode", { sessionId, modeId: "autopilot" });
  await eventually(() => assert.match(c.of("current_mode_update")[0].currentModeId, /#autopilot$/));
  for (const command of ["touch auto.txt", "touch auto.txt", "touch other.txt"]) {
    await c.agent.request("session/prompt", prompt(sessionId, tool("bash", { command }), "rehearsal: next", "rehearsal: text ok"));
  }
  assert.equal(c.seen.asked.length, 2, "the same command once, another one again");
});

test("the policy decides without the client", patience, async (t) => {
  const c = await start(t);
  writeFileSync(file(".env"), "KEY=1\n");
  const { sessionId } = await c.agent.request("session/new", { cwd: WORKSPACE, mcpServers: [] });
  await c.agent.request(
    "session/prompt",
    prompt(sessionId, tool("create", { path: file(".agent-policy.yaml"), file_text: "" }), "rehearsal: next", "rehearsal: text no"),
  );
  assert.equal(c.seen.asked.length, 0);
  await eventually(() => assert.equal(c.of("tool_call_update").at(-1).status, "failed"));
  assert.ok(!existsSync(file(".agent-policy.yaml")));
});

test("mentioned files come from the editor", patience, async (t) => {
  const c = await start(t);
  writeFileSync(file("open.txt"), "as it is on disk\n");
  const { sessionId } = await c.agent.request("session/new", { cwd: WORKSPACE, mcpServers: [] });
  await c.agent.request("session/prompt", {
    sessionId,
    prompt: [
      { type: "text", text: "What were you told? See " },
      { type: "resource_link", name: "open.txt", uri: "file://" + file("open.txt") },
      { type: "resource", resource: { uri: "file:///x/y.txt", mimeType: "text/plain", text: "token=ghp_0123456789abcdefghijklmnopqrstuvwxyzAB" } },
      { type: "image", mimeType: "image/png", data: "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==" },
    ],
  });
  assert.deepEqual(c.seen.read, [file("open.txt")]);
  await eventually(() => assert.match(c.text(), /as the editor has it/));
  assert.match(c.text(), /\[REDACTED\]/);
  assert.doesNotMatch(c.text(), /ghp_0123/);
});

test("a cancellation", patience, async (t) => {
  const c = await start(t);
  const { sessionId } = await c.agent.request("session/new", { cwd: WORKSPACE, mcpServers: [] });
  const spoken = c.until((u) => u.sessionUpdate === "agent_message_chunk");
  const turn = c.agent.request("session/prompt", prompt(sessionId, "rehearsal: chunks one |two ", "rehearsal: silence"));
  await spoken;
  await c.agent.notify("session/cancel", { sessionId });
  assert.equal((await turn).stopReason, "cancelled");
  const again = await c.agent.request("session/prompt", prompt(sessionId, "rehearsal: text still here"));
  assert.equal(again.stopReason, "end_turn");
  await eventually(() => assert.match(c.text(), /still here/));
});

test("a cancellation while a permission is pending", patience, async (t) => {
  let ask;
  const asked = new Promise((resolve) => (ask = resolve));
  let answer;
  const c = await start(t, () => (ask(), new Promise((resolve) => (answer = resolve))));
  const { sessionId } = await c.agent.request("session/new", { cwd: WORKSPACE, mcpServers: [] });
  const turn = c.agent.request("session/prompt", prompt(sessionId, tool("bash", { command: "touch cancelled.txt" })));
  await asked;
  await c.agent.notify("session/cancel", { sessionId });
  answer("");
  assert.equal((await turn).stopReason, "cancelled");
  assert.ok(!existsSync(file("cancelled.txt")));
});

test("a session that another process loads", patience, async (t) => {
  const c = await start(t);
  const { sessions } = await c.agent.request("session/list", { cwd: WORKSPACE });
  assert.ok(sessions.some((s) => s.sessionId === stored && s.cwd === WORKSPACE && s.title), JSON.stringify(sessions));
  const state = await c.agent.request("session/load", { sessionId: stored, cwd: WORKSPACE, mcpServers: [] });
  assert.match(state.modes.currentModeId, /#agent$/);
  assert.match(c.text("user_message_chunk"), /I set to work/);
  await eventually(() => assert.match(c.text(), /It is written\./));
  assert.equal(c.of("tool_call").length, 4);
  await eventually(() => assert.equal(c.of("plan").length, 1));
  const done = await c.agent.request("session/prompt", prompt(stored, "What were you told?"));
  assert.equal(done.stopReason, "end_turn");
  const told = await eventually(() => JSON.parse(c.text().slice(c.text().lastIndexOf('{"format"'))));
  assert.ok(told.messages > 6, `the model was told ${told.messages} messages`);
  await c.agent.request("session/close", { sessionId: stored });
  await assert.rejects(c.agent.request("session/prompt", prompt(stored, "more")), { code: -32002 });
  await assert.rejects(c.agent.request("session/load", { sessionId: "nobody", cwd: WORKSPACE, mcpServers: [] }), { code: -32002 });
});

test("a session stays in its mode", patience, async (t) => {
  const first = await start(t);
  const ids = [];
  for (const talk of [true, false]) {
    const { sessionId } = await first.agent.request("session/new", { cwd: WORKSPACE, mcpServers: [] });
    if (talk) await first.agent.request("session/prompt", prompt(sessionId, "hello"));
    await first.agent.request("session/set_mode", { sessionId, modeId: "plan" });
    await first.agent.request("session/close", { sessionId });
    ids.push(sessionId);
  }
  const c = await start(t);
  for (const sessionId of ids) {
    const state = await c.agent.request("session/load", { sessionId, cwd: WORKSPACE, mcpServers: [] });
    assert.match(state.modes.currentModeId, /#plan$/);
    await c.agent.request("session/prompt", prompt(sessionId, "a garden"));
    await eventually(() => assert.match(c.text(), /\[\[PLAN\]\] a garden/, "Copilot marks what is to be planned"));
    await c.agent.request("session/set_mode", { sessionId, modeId: "agent" });
    await c.agent.request("session/prompt", prompt(sessionId, "a house"));
    await eventually(() => assert.match(c.text(), /You said: a house/));
  }
});

test("slash commands", patience, async (t) => {
  const c = await start(t);
  const { sessionId } = await c.agent.request("session/new", { cwd: WORKSPACE, mcpServers: [] });
  await c.agent.request("session/prompt", prompt(sessionId, "rehearsal: text first"));
  await c.agent.request("session/prompt", prompt(sessionId, "/context"));
  await eventually(() => assert.match(c.text(), /Context Usage/));
  await c.agent.request("session/prompt", prompt(sessionId, "/plan"));
  await eventually(() => assert.match(c.of("current_mode_update").at(-1).currentModeId, /#plan$/));
  await c.agent.request("session/set_mode", { sessionId, modeId: "agent" });
  // An unknown command is part of the prompt, and changes nothing.
  await c.agent.request("session/prompt", prompt(sessionId, "/allow-all on"));
  await c.agent.request("session/prompt", prompt(sessionId, tool("bash", { command: "touch allowed.txt" }), "rehearsal: next", "rehearsal: text ok"));
  assert.equal(c.seen.asked.length, 1);
});

test("tool servers of the client", patience, async (t) => {
  const c = await start(t);
  const server = { name: "echo", command: process.execPath, args: [process.env.ECHO_SERVER], env: [{ name: "ECHO_PREFIX", value: "echo" }] };
  const { sessionId } = await c.agent.request("session/new", { cwd: WORKSPACE, mcpServers: [server] });
  await c.agent.request("session/prompt", prompt(sessionId, tool("echo-say", { text: "hello" }), "rehearsal: next", "rehearsal: text ok"));
  assert.equal(c.seen.asked.length, 1, "a tool of a server needs consent");
  const end = await eventually(() => c.of("tool_call_update").find((u) => u.status === "completed"));
  assert.match(end.content[0].content.text, /echo: hello/);
});
