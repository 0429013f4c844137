// The policy, the audit log, and how the bridge is.
import { html, useState, useEffect, useRef, api, query, useLoad, useAction, Page, State, Ago, When, Failure, Empty, Loading, Copy, plain, plural, size, span, say, clip } from './lib.js';
import { visible, Folded, T, pretty } from './text.js';
import { doorName } from './sessions.js';

export const Verdict = ({ verdict }) => html`<span class=${`verdict-mark v-${String(verdict).replace(/[^a-z]/g, '')}`}>${plain(verdict, 40)}</span>`;

const origin = (s) => {
  if (!s) return '';
  if (typeof s === 'string') return plain(s, 300);
  return html`${s.kind}${s.file && html` <code class="t">${plain(s.file, 300)}${s.line > 0 && ':' + s.line}</code>`}${s.trusted === false && html` <span class="bad">not trusted, so not in force</span>`}`;
};

/** Test says what the policy would do with a call. */
function Test({ dir }) {
  const [kind, setKind] = useState('bash');
  const [result, setResult] = useState(null);
  const call = useRef(null);
  const [test, state] = useAction(async (text) => {
    const body = { dir: dir || undefined };
    if (kind === 'json') {
      let given;
      try { given = JSON.parse(text); } catch { throw new Error('That is no JSON. Write a tool and its arguments: {"tool": "view", "args": {"path": "/etc/passwd"}}'); }
      Object.assign(body, given);
    } else body.call = `${kind}: ${text}`;
    const r = await api('/policy/test', body);
    setResult(r);
    say(`${r.verdict}: ${plain(r.reason, 200)}`);
  });
  return html`<form class="panel test" onSubmit=${(e) => { e.preventDefault(); setResult(null); test(call.current.value.trim()); }}>
    <h2>What would happen if</h2>
    <div class="row"><label>Tool <select value=${kind} onChange=${(e) => setKind(e.target.value)}><option value="bash">run a command</option><option value="view">read a file</option><option value="edit">change a file</option><option value="fetch">fetch an address</option><option value="json">a tool, as JSON</option></select></label>
    <label class="grow">${{ bash: 'Command', fetch: 'Address', json: 'Tool and arguments' }[kind] ?? 'File'} <input ref=${call} required autocomplete="off" spellcheck="false" placeholder=${{ bash: 'rm -rf build', fetch: 'https://example.com', json: '{"tool": "view", "args": {"path": "a.txt"}}' }[kind] ?? 'src/main.go'} /></label>
    <button disabled=${state.busy}>Test</button></div>
    <${Failure} error=${state.error} />
    ${result && html`<div class="result" role="status"><${Verdict} verdict=${result.verdict} /> <${T} text=${result.reason} limit=${2000} />${result.rule && html` <span class="dim">Rule</span> <code class="t">${visible(clip(result.rule, 400))}</code>`}${result.confined && html` <span class="dim">· sandboxed</span>`}${result.source && html` <span class="dim">· from</span> ${origin(result.source)}`}</div>`}
  </form>`;
}

export function Policy() {
  const [dir, setDir] = useState('');
  const { data, error, loading, reload } = useLoad('/policy' + query({ dir }));
  const rules = data?.rules ?? [], defaults = data?.defaults ?? data?.verdicts;
  return html`<${Page} title="Policy" side=${html`<form class="filters" onSubmit=${(e) => { e.preventDefault(); setDir(new FormData(e.target).get('dir').trim()); }}><label>Directory <input name="dir" placeholder="that of the server" autocomplete="off" spellcheck="false" /></label><button class="quiet">Show</button></form>`}>
    <${Failure} error=${error} retry=${reload} /><${Loading} when=${loading} />
    ${data?.error && html`<div class="failure" role="alert"><p><${T} text=${data.error.message ?? data.error} limit=${2000} /> ${data.error.remedy}</p></div>`}
    <${Test} dir=${dir} />
    ${data && html`
      ${defaults && html`<dl class="facts">${Object.entries(defaults).map(([k, v]) => html`<div><dt>${plain(k, 60)}</dt><dd>${typeof v === 'object' ? JSON.stringify(v) : html`<${Verdict} verdict=${v} />`}</dd></div>`)}</dl>`}
      ${rules.length === 0 ? html`<${Empty}>There are no rules of your own: the defaults decide.<//>` : html`<table class="cards"><caption>Rules</caption><thead><tr><th scope="col">Rule</th><th scope="col">Verdict</th><th scope="col">List</th><th scope="col">From</th></tr></thead>
        <tbody>${rules.map((r) => html`<tr><th scope="row"><code class="t">${visible(clip(r.rule, 400))}</code></th><td><${Verdict} verdict=${r.verdict} /></td><td data-label="List">${plain(r.list, 80)}</td><td data-label="From">${origin(r.source)}</td></tr>`)}</tbody></table>`}
      ${data.files?.length > 0 && html`<h2>Files</h2><ul class="plain">${data.files.map((f) => html`<li>${typeof f === 'string' ? html`<code class="t">${plain(f, 400)}</code>` : html`<code class="t">${plain(f.file ?? f.path, 400)}</code> <span class="dim">${[f.kind, f.exists === false && 'not there', f.trusted === false && 'not trusted'].filter(Boolean).join(', ')}</span>`}</li>`)}</ul>`}`}
  <//>`;
}

function Entry({ e }) {
  const more = { input: e.input, output: e.output, result: e.result, caller: e.caller, connection: e.connection, request: e.request, sandbox: e.sandbox, hash: e.hash };
  const details = Object.fromEntries(Object.entries(more).filter(([, v]) => v !== undefined));
  return html`<tr>
    <th scope="row" class="num">${e.seq}</th>
    <td><${When} at=${e.time} /></td>
    <td>${e.decision ? html`<${Verdict} verdict=${e.decision} />` : html`<span class="dim">${plain(e.hook, 40)}</span>`}</td>
    <td data-label="Tool">${plain(e.tool, 80)}</td>
    <td data-label="Session">${e.session && html`<a href=${'#/sessions/' + encodeURIComponent(e.session)}>${plain(e.session, 10)}</a>`} <span class="dim">${doorName(e.door)}</span></td>
    <td class="wide"><${T} text=${e.reason} limit=${400} />${Object.keys(details).length > 0 && html`<details><summary>Entry</summary><${Folded} text=${pretty(details)} lines=${40} label=${`Entry ${e.seq}`} /></details>`}</td></tr>`;
}

function VerifyAudit() {
  const [report, setReport] = useState(null);
  const [verify, state] = useAction(async () => { const r = await api('/audit/verify', {}); setReport(r); say(r.ok ? 'The audit log is whole' : 'The audit log has problems'); });
  return html`<div class="panel"><div class="row"><button type="button" class="quiet" disabled=${state.busy} onClick=${() => verify()}>${state.busy ? 'Verifying…' : 'Verify the whole log'}</button>
    ${report && html`<span class=${report.ok ? 'good' : 'bad'}>${report.ok ? 'The log is whole' : plural(report.problems?.length ?? 0, 'problem')}: ${plural(report.entries ?? 0, 'entry', 'entries')} in ${plural(report.files?.length ?? report.files ?? 0, 'file')}.</span>`}</div>
    <${Failure} error=${state.error} />
    ${report?.problems?.length > 0 && html`<ul>${report.problems.map((p) => html`<li class="bad"><${T} text=${typeof p === 'string' ? p : `${p.file ?? ''}${p.line ? ':' + p.line : ''} ${p.text ?? ''}`} limit=${600} /></li>`)}</ul>`}</div>`;
}

export function Audit() {
  const [filter, setFilter] = useState({ q: '', verdict: '', session: '' });
  const first = useLoad('/audit' + query({ ...filter, limit: 100 }));
  const [older, setOlder] = useState({ entries: [] });
  useEffect(() => setOlder({ entries: [] }), [first.data]);
  const [load, state] = useAction(async () => {
    const page = await api('/audit' + query({ ...filter, limit: 100, before: older.before ?? first.data.before }));
    setOlder((o) => ({ ...page, entries: [...o.entries, ...page.entries] }));
  });
  const entries = [...(first.data?.entries ?? []), ...older.entries];
  const submit = (e) => { e.preventDefault(); const d = new FormData(e.target); setFilter({ q: d.get('q').trim(), verdict: d.get('verdict'), session: d.get('session').trim() }); };
  return html`<${Page} title="Audit" side=${html`<form class="filters" role="search" onSubmit=${submit}>
      <label>Search <input type="search" name="q" /></label>
      <label>Verdict <select name="verdict" onChange=${(e) => e.target.form.requestSubmit()}><option value="">all</option><option value="allow">allow</option><option value="ask">ask</option><option value="deny">deny</option></select></label>
      <label>Session <input name="session" autocomplete="off" spellcheck="false" /></label><button class="quiet">Search</button></form>`}>
    <${VerifyAudit} />
    <${Failure} error=${first.error ?? state.error} retry=${first.reload} /><${Loading} when=${first.loading} />
    ${first.data && entries.length === 0 && html`<${Empty}>Nothing fits.<//>`}
    ${entries.length > 0 && html`<table class="cards audit"><caption class="unseen">Entries</caption><thead><tr><th scope="col" class="num">No.</th><th scope="col">Time</th><th scope="col">Verdict</th><th scope="col">Tool</th><th scope="col">Session</th><th scope="col">Reason</th></tr></thead><tbody>${entries.map((e) => html`<${Entry} key=${e.seq} e=${e} />`)}</tbody></table>`}
    ${(older.entries.length ? older.more : first.data?.more) && html`<p><button type="button" class="quiet" disabled=${state.busy} onClick=${() => load()}>Show older ones</button></p>`}
  <//>`;
}

/** Facts shows what the bridge says of itself, whatever it is. */
function Facts({ value }) {
  if (value === null || value === undefined || value === '') return html`<span class="dim">–</span>`;
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value !== 'object') return plain(value, 600);
  if (Array.isArray(value)) return html`<ul class="plain">${value.map((v) => html`<li><${Facts} value=${v} /></li>`)}</ul>`;
  return html`<dl class="inner">${Object.entries(value).map(([k, v]) => html`<div><dt>${plain(k, 60).replaceAll('_', ' ')}</dt><dd><${Facts} value=${v} /></dd></div>`)}</dl>`;
}

const lists = [['runtimes', 'Runtimes'], ['agents', 'Ways to reach Copilot'], ['doors', 'Doors'], ['processes', 'Processes of the bridge']];

export function Health() {
  const { data: h, error, loading, reload } = useLoad('/health', { every: 5000 });
  return html`<${Page} title="Health" side=${h && html`<span class=${h.ok ? 'good' : 'bad'}>${h.ok ? 'Ready' : 'Not ready'}</span>`}>
    <${Failure} error=${error} retry=${reload} /><${Loading} when=${loading} />
    ${h && html`<dl class="facts">
        <div><dt>Version</dt><dd>${plain(h.version, 80)}</dd></div>
        <div><dt>Copilot</dt><dd>${plain(h.copilot?.state, 60)}${h.copilot?.reason && html` <span class="dim">${plain(h.copilot.reason, 400)}</span>`}</dd></div>
        <div><dt>Answers</dt><dd><${Facts} value=${h.answers} /></dd></div>
        <div><dt>Memory</dt><dd>${typeof h.memory === 'number' ? size(h.memory) : html`<${Facts} value=${h.memory} />`}</dd></div>
        <div><dt>Goroutines</dt><dd>${h.goroutines}</dd></div>
        <div><dt>Up for</dt><dd>${typeof h.uptime === 'number' ? span(h.uptime * 1000) : plain(h.uptime, 60)}</dd></div></dl>
      ${lists.map(([k, name]) => html`<section><h2>${name}</h2>${h[k]?.length > 0 ? html`<div class="grid-cards">${h[k].map((x) => html`<div class="panel"><${Facts} value=${x} /></div>`)}</div>` : html`<${Empty}>None.<//>`}</section>`)}
      ${h.sandbox && html`<section><h2>Sandbox</h2><div class="panel"><${Facts} value=${h.sandbox} /></div></section>`}
      <p><a href="/metrics">Metrics</a> · <a href="/healthz">healthz</a></p>`}
  <//>`;
}
