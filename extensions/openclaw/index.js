// OpenClaw's plugin: it registers the tools that tools.json lists and hands
// calls on to `copilot-bridge mcp plugin`, which does everything else. The
// list is made by that program (go generate), so that names, descriptions and
// schemas are written in one place and known even where the program is not.
import { readFileSync } from "node:fs";
import { Bridge } from "./bridge.js";

const { tools, version } = JSON.parse(readFileSync(new URL("./tools.json", import.meta.url), "utf8"));

export default {
  id: "copilot-bridge",
  name: "Copilot Bridge",
  description: "Delegates coding tasks to GitHub Copilot's agent, under your policy.",
  register(api) {
    // Nothing is started here: OpenClaw registers plugins to look at them, too.
    const bridge = Bridge.shared(api.pluginConfig ?? {}, version, api.logger);
    for (const tool of tools) {
      api.registerTool({
        ...tool,
        catalogMode: "direct-only", // otherwise the model does not see it
        execute: (id, args, signal, onUpdate) => bridge.call(tool.name, args, signal, onUpdate),
      });
    }
    api.on?.("gateway_stop", () => bridge.close());
    api.lifecycle?.onDispose?.(() => bridge.release());
  },
};
