// The program behind the tools: one child for all of them, started with the
// first call, spoken to in the Model Context Protocol on its standard streams.
import { spawn } from "node:child_process";
import { homedir } from "node:os";
import { createInterface } from "node:readline";

// What the child may see of the gateway's environment, besides the plugin's
// own setting `env`: where things are, how to reach the network, and all that
// copilot-bridge is configured by.
const names = new Set([
  "HOME", "USER", "LOGNAME", "USERPROFILE", "PATH", "SHELL", "TERM", "LANG", "TZ", "TMPDIR", "TMP", "TEMP",
  "SYSTEMROOT", "COMSPEC", "PATHEXT", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA",
  "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
  "GH_TOKEN", "GITHUB_TOKEN", "GH_HOST", "GH_CONFIG_DIR",
  "OPENCLAW_HOST", "OPENCLAW_PORT", "OPENCLAW_GATEWAY_TOKEN", "OPENCLAW_PROFILE", "OPENCLAW_STATE_DIR", "OPENCLAW_CONFIG_PATH", "OPENCLAW_WORKSPACE_DIR",
]);
const prefixes = ["COPILOT_", "ABP_COPILOT_", "LC_", "XDG_", "NPM_CONFIG_"];

function environment(extra) {
  const out = {};
  for (const [name, value] of Object.entries(process.env)) {
    const upper = name.toUpperCase();
    if (names.has(upper) || prefixes.some((p) => upper.startsWith(p))) out[name] = value;
  }
  return { ...out, ...extra };
}

const startIn = 60_000; // to answer the first request, on a busy machine
const closeIn = 2_000; // OpenClaw gives up a plugin for good that needs five seconds to stop
const stopIn = 10_000; // to end, for a child that was asked to; nobody waits for that
const worst = 5_000; // the longest pause before another start
const told = 2_000; // characters of standard error that an error repeats

// Fault is an error that is worth telling as it is.
class Fault extends Error {
  constructor(message, remedy, status = "failed") {
    super(message);
    this.remedy = remedy;
    this.status = status;
  }

  result() {
    const text = `${this.message}${this.remedy ? `\nWhat to do: ${this.remedy}` : ""}`;
    return {
      content: [{ type: "text", text }],
      details: { ok: false, status: this.status, error: this.message, ...(this.remedy && { remedy: this.remedy }) },
    };
  }
}

const aborted = () => new Fault("the call was aborted", undefined, "cancelled");

// settle waits for a promise unless the signal comes first.
function settle(promise, signal) {
  if (!signal) return promise;
  return new Promise((resolve, reject) => {
    const stop = () => reject(aborted());
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}

// OpenClaw registers and evaluates a plugin more than once in a process: to
// run it and to look at it, each time from another copy of its files. Those of
// one configuration share one child. Their classes differ, so nothing private
// of another is touched here.
const all = (globalThis[Symbol.for("copilot-bridge.openclaw-plugin")] ??= new Map());

export class Bridge {
  static shared(config, version, logger) {
    const key = JSON.stringify([config, version]);
    if (!all.has(key)) all.set(key, new Bridge(config, version, logger, () => all.delete(key)));
    return all.get(key).use();
  }

  #child; // a promise of one that has answered, or undefined
  #failures = 0; // in a row: starts that failed, children that died
  #users = 0; // registrations that have not been released
  #closes = 0; // how often it was closed: a start that was under way then is over
  #forget;

  constructor(config, version, logger, forget) {
    this.config = config;
    this.version = version;
    this.logger = logger;
    this.#forget = forget;
  }

  // call calls a tool. It never throws: whatever goes wrong is a result.
  async call(name, args, signal, onUpdate) {
    try {
      if (signal?.aborted) throw aborted();
      const child = await settle(this.#ready(), signal);
      const answer = await child.request("tools/call", { name, arguments: args ?? {} }, { signal, onUpdate });
      this.#failures = 0;
      return { content: answer.content ?? [], details: answer.structuredContent ?? {} };
    } catch (error) {
      if (error instanceof Fault) return error.result();
      return new Fault(`copilot-bridge: ${error?.message ?? error}`).result();
    }
  }

  // use is for a registration, which releases it again.
  use() {
    this.#users++;
    return this;
  }

  // release is for a registration that is over; the last one ends the child.
  async release() {
    if (--this.#users > 0) return;
    this.#forget();
    await this.close();
  }

  // close ends the child. It does not wait long: one that is busy, or has not
  // answered yet, ends by itself. A later call would start another.
  async close() {
    const child = this.#child;
    this.#child = undefined;
    this.#closes++;
    if (!child) return;
    let late;
    const enough = new Promise((resolve) => (late = setTimeout(resolve, closeIn)));
    await Promise.race([child.then((c) => c.close()).catch(() => {}), enough]);
    clearTimeout(late);
  }

  #ready() {
    if (this.#child) return this.#child;
    const starting = this.#start();
    // What becomes of it counts only as long as it has not been closed.
    const over = (counts) => {
      if (this.#child !== starting) return;
      this.#child = undefined;
      if (counts) this.#failures++;
    };
    starting.then(
      (child) => child.gone.then(() => over(true)),
      (error) => over(!error.missing), // what is not there costs nothing to look for
    );
    this.#child = starting;
    return starting;
  }

  async #start() {
    if (this.#failures > 1) {
      const closes = this.#closes;
      await new Promise((resolve) => setTimeout(resolve, Math.min(worst, 100 * 2 ** this.#failures)));
      if (closes !== this.#closes) throw aborted();
    }
    const child = new Child(this.config, this.logger);
    try {
      await child.hello(this.version);
    } catch (error) {
      await child.close();
      throw error;
    }
    return child;
  }
}

// Child is one process of copilot-bridge.
class Child {
  #waiting = new Map(); // by id: { resolve, reject, onUpdate }
  #next = 1;
  #errors = ""; // the end of what it wrote to standard error
  #fault; // why it is gone

  constructor(config, logger) {
    this.logger = logger;
    this.binary = config.binary || process.env.COPILOT_BRIDGE_BINARY || "copilot-bridge";
    const args = ["mcp", "plugin", ...(config.workspace ? ["--workspace", config.workspace] : [])];
    this.process = spawn(this.binary, args, { cwd: homedir(), env: environment(config.env), stdio: ["pipe", "pipe", "pipe"], windowsHide: true });
    this.gone = new Promise((resolve) => {
      this.process.once("error", (error) => resolve(this.#end(this.#unstarted(error))));
      this.process.once("close", (code, signal) => resolve(this.#end(this.#ended(code, signal))));
    });
    this.process.stdin.on("error", () => {}); // the end of the process says it better
    this.process.stderr.setEncoding("utf8").on("data", (text) => {
      this.#errors = (this.#errors + text).slice(-told);
      for (const line of text.split("\n")) if (line.trim()) this.logger?.debug?.(`copilot-bridge: ${line}`);
    });
    createInterface({ input: this.process.stdout, crlfDelay: Infinity }).on("line", (line) => this.#receive(line));
  }

  #unstarted(error) {
    if (error.code !== "ENOENT") return new Fault(`copilot-bridge cannot be started: ${error.message}`);
    const fault = new Fault(
      `copilot-bridge was not found (${this.binary})`,
      "install copilot-bridge and run `copilot-bridge register openclaw`, or set plugins.entries.copilot-bridge.config.binary to its path",
    );
    fault.missing = true;
    return fault;
  }

  #ended(code, signal) {
    const how = signal ? `was ended by ${signal}` : `ended with code ${code}`;
    const last = this.#errors.trim();
    return new Fault(`copilot-bridge ${how}${last ? `:\n${last}` : ""}`, "try again; it is started anew");
  }

  #end(fault) {
    this.#fault ??= fault;
    for (const { reject } of this.#waiting.values()) reject(this.#fault);
    this.#waiting.clear();
  }

  // hello begins the protocol and finds out whether this is the program that
  // the plugin was made for.
  async hello(version) {
    const late = AbortSignal.timeout(startIn);
    const old = (why) =>
      new Fault(
        `the copilot-bridge at ${this.binary} does not fit this plugin: ${why}`,
        "update copilot-bridge, then run `copilot-bridge register openclaw` again",
      );
    let answer;
    try {
      answer = await this.request(
        "initialize",
        { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "openclaw-plugin", version: String(version) } },
        { signal: late },
      );
    } catch (error) {
      if (late.aborted) throw new Fault(`copilot-bridge did not answer in ${startIn / 1000} s`, "try again");
      if (this.process.exitCode === 2) throw old(this.#errors.trim() || "it does not know the command `mcp plugin`");
      throw error;
    }
    const speaks = answer.capabilities?.experimental?.["copilot-bridge/openclaw-plugin"]?.version;
    if (!(speaks >= version)) throw old(`it is ${answer.serverInfo?.name ?? "something else"} ${answer.serverInfo?.version ?? ""}`.trim());
    this.#send({ method: "notifications/initialized" });
  }

  #send(message) {
    this.process.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  }

  request(method, params, { signal, onUpdate } = {}) {
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      if (this.#fault) return reject(this.#fault);
      const stop = () => {
        if (!this.#waiting.delete(id)) return;
        this.#send({ method: "notifications/cancelled", params: { requestId: id, reason: "aborted" } });
        reject(aborted());
      };
      const settled = (then) => (value) => {
        signal?.removeEventListener("abort", stop);
        then(value);
      };
      this.#waiting.set(id, { resolve: settled(resolve), reject: settled(reject), onUpdate });
      signal?.addEventListener("abort", stop, { once: true });
      const asked = onUpdate ? { ...params, _meta: { progressToken: id } } : params;
      this.#send({ id, method, params: asked });
    });
  }

  #receive(line) {
    let message;
    try {
      message = JSON.parse(line);
    } catch {
      return; // nothing of ours
    }
    if (message.method === "notifications/progress") {
      const { progressToken, message: text } = message.params ?? {};
      try {
        this.#waiting.get(progressToken)?.onUpdate?.({ content: [{ type: "text", text: text ?? "" }], details: { progress: true } });
      } catch (error) {
        this.logger?.debug?.(`copilot-bridge: an update was not taken: ${error}`);
      }
      return;
    }
    if (message.method !== undefined) {
      if (message.id !== undefined) this.#answer(message);
      return;
    }
    const waiting = this.#waiting.get(message.id);
    if (!waiting) return; // it was aborted
    this.#waiting.delete(message.id);
    if (message.error) waiting.reject(new Fault(`copilot-bridge: ${message.error.message}`));
    else waiting.resolve(message.result ?? {});
  }

  // #answer answers the child's own requests: it may ask whether we are there.
  #answer({ id, method }) {
    if (method === "ping") this.#send({ id, result: {} });
    else this.#send({ id, error: { code: -32601, message: "not offered" } });
  }

  // close ends the process: it ends by itself when its input does, and takes
  // what it has started with it.
  async close() {
    this.process.stdin.end();
    const kill = setTimeout(() => this.process.kill("SIGKILL"), stopIn);
    kill.unref(); // without the gateway its input has an end, too
    await this.gone;
    clearTimeout(kill);
  }
}
