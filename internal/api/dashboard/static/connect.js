// How clients are connected, and a form that tries a model.
import { html, useState, useEffect, useRef, useLoad, docs, Page, Failure, Loading, Copy, plain } from './lib.js';
import { visible, Markdown } from './text.js';

/** quotable is a name that can stand in any of the examples. */
const quotable = /^[A-Za-z0-9_.:/@+-]+$/;

const examples = ({ base, model, token }) => [
  { name: 'curl', code: `curl ${base}/v1/chat/completions \\
  -H "Content-Type: application/json" \\${token ? '\n  -H "Authorization: Bearer $COPILOT_BRIDGE_TOKEN" \\' : ''}
  -d '{"model": "${model}", "messages": [{"role": "user", "content": "Say hello"}]}'` },
  { name: 'OpenAI SDK', guide: 'guides/clients.md', about: 'More libraries and clients', code: `${token ? 'import os\n' : ''}from openai import OpenAI

client = OpenAI(base_url="${base}/v1", api_key=${token ? 'os.environ["COPILOT_BRIDGE_TOKEN"]' : '"any"'})
answer = client.chat.completions.create(
    model="${model}",
    messages=[{"role": "user", "content": "Say hello"}],
)
print(answer.choices[0].message.content)` },
  { name: 'Claude Code', code: `export ANTHROPIC_BASE_URL=${base}
export ANTHROPIC_AUTH_TOKEN=${token ? '$COPILOT_BRIDGE_TOKEN' : 'any'}
export ANTHROPIC_MODEL=${model}
export ANTHROPIC_DEFAULT_HAIKU_MODEL=${model}
claude` },
  { name: 'Codex, in ~/.codex/config.toml', code: `model = "${model}"
model_provider = "copilot-bridge"

[model_providers.copilot-bridge]
name = "Copilot Bridge"
base_url = "${base}/v1"
wire_api = "responses"${token ? '\nenv_key = "COPILOT_BRIDGE_TOKEN"' : ''}` },
];

function Example({ name, code, guide, about }) {
  return html`<section class="example"><header><h3>${name}</h3><${Copy} text=${code} /></header>${guide && html`<p class="small"><a href=${docs + guide}>${about}</a></p>`}<pre tabindex="0" role="group" aria-label=${`Example: ${name}`}>${code}</pre></section>`;
}

export function Examples() {
  const { data: a, error, reload } = useLoad('/about');
  if (!a) return html`<${Failure} error=${error} retry=${reload} /><${Loading} when=${!error} />`;
  const model = quotable.test(a.model) ? a.model : 'MODEL', base = a.url || location.origin;
  return html`
    ${a.notice && html`<p class="notice warning" role="note">${plain(a.notice, 600)}</p>`}
    <dl class="facts">
      ${a.version && html`<div><dt>Version</dt><dd>${plain(a.version, 80)}</dd></div>`}
      ${a.answers && html`<div><dt>Answers come from</dt><dd>${plain(a.answers, 200)}</dd></div>`}
      ${a.workspace && html`<div><dt>Workspace</dt><dd>${plain(a.workspace, 300)}</dd></div><div><dt>Agents may</dt><dd>${a.read_only ? 'read it, and change nothing' : 'read and change it, as the policy allows'}</dd></div>`}
      <div><dt>Clients need</dt><dd>${a.token ? html`the token; the examples expect it in <code>COPILOT_BRIDGE_TOKEN</code>` : 'no key; any will be accepted'}</dd></div>
    </dl>
    <p>A model such as <code>${model}</code> answers with the tools that the client brings. <code>agent/${model}</code> is Copilot’s agent: it works in the workspace with tools of its own, under the <a href=${docs + 'guides/policy.md'}>policy</a>. Coding agents have their own tools, so give them the plain model.</p>
    <${Try} model=${a.model} />
    <h2>Coding agents</h2>
    <${Example} name="In a terminal: claude, codex, opencode, qwen or cline" guide="guides/coding-agents.md" about="Claude Code, Codex, OpenCode, Qwen Code and Cline" code="copilot-bridge launch claude" />
    <h2>Programs</h2>
    ${examples({ base, model, token: a.token }).map((e) => html`<${Example} ...${e} />`)}
    <p><a href="/v1/models">Models</a> · <a href="/healthz">Health</a> · <a href="/metrics">Metrics</a> · <a href=${docs + 'README.md'}>Documentation</a></p>`;
}

const reasonOf = async (response) => (await response.json().catch(() => ({}))).error?.message ?? `The bridge answered ${response.status}.`;

/** Try sends a message to a model and shows the answer as it comes. */
function Try({ model: first }) {
  const [models, setModels] = useState([]);
  const [model, setModel] = useState(first);
  const [answer, setAnswer] = useState('');
  const [state, setState] = useState('');
  const [running, setRunning] = useState(null);
  const message = useRef(null);
  useEffect(() => {
    fetch('/v1/models').then(async (r) => {
      if (!r.ok) throw new Error(await reasonOf(r));
      const names = (await r.json()).data.map((m) => m.id);
      setModels(names);
      if (!names.includes(first) && names.length) setModel(names[0]);
      if (!names.length) setState('There are no models.');
    }).catch((e) => setState(`The models cannot be listed: ${e.message}`));
  }, []);
  const ask = async () => {
    const stop = new AbortController();
    setRunning(stop);
    setAnswer('');
    setState('Waiting for the answer…');
    let text = '', frame = 0;
    try {
      const response = await fetch('/v1/chat/completions', { method: 'POST', signal: stop.signal, headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ model, stream: true, messages: [{ role: 'user', content: message.current.value }] }) });
      if (!response.ok) throw new Error(await reasonOf(response));
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = '';
      for (let { value, done } = await reader.read(); !done; { value, done } = await reader.read()) {
        const lines = (rest + value).split('\n');
        rest = lines.pop();
        for (const line of lines) {
          if (!line.startsWith('data: ') || line === 'data: [DONE]') continue;
          const event = JSON.parse(line.slice(6));
          if (event.error) throw new Error(event.error.message);
          text += event.choices?.[0]?.delta?.content ?? '';
        }
        frame ||= requestAnimationFrame(() => { frame = 0; setAnswer(text); });
      }
      setState(`Answered by ${model}.`);
    } catch (e) {
      setState(e.name === 'AbortError' ? 'Stopped.' : `It failed: ${e.message}`);
    } finally {
      cancelAnimationFrame(frame);
      setAnswer(text);
      setRunning(null);
    }
  };
  const submit = (e) => { e.preventDefault(); if (!running && models.length) ask(); };
  const groups = [['Plain models', models.filter((n) => !n.startsWith('agent/'))], ['Agents in the workspace', models.filter((n) => n.startsWith('agent/'))]];
  return html`<form class="panel try" onSubmit=${submit} aria-labelledby="try"><h2 id="try">Send a message</h2>
    <label for="model">Model</label><select id="model" value=${model} onChange=${(e) => setModel(e.target.value)}>${groups.filter(([, of]) => of.length).map(([label, of]) => html`<optgroup label=${label}>${of.map((n) => html`<option value=${n} selected=${n === model}>${n}</option>`)}</optgroup>`)}</select>
    <label for="try-message">Message</label><textarea id="try-message" rows="3" required ref=${message} defaultValue="Say hello" onKeyDown=${(e) => { if (e.key === 'Enter' && (e.ctrlKey || e.metaKey)) submit(e); }}></textarea>
    <div class="row"><button disabled=${running !== null || models.length === 0}>Send</button>${running && html`<button type="button" class="quiet" onClick=${() => running.abort()}>Stop</button>`}<span role="status" class="t">${visible(state)}</span></div>
    ${answer && html`<div class="answer" aria-label="Answer" role="group"><${Markdown} text=${answer} /></div>`}
  </form>`;
}

export const Connect = () => html`<${Page} title="Connect"><${Examples} /><//>`;
