// The policy, the audit log, and how the bridge is.
import { html, useState, useEffect, useRef, api, query, useLoad, useAction, Page, Ago, When, Failure, Empty, Loading, plain, plural, size, span, say, clip } from './lib.js';
import { visible, Folded, T, pretty } from './text.js';
import { doorName } from './sessions.js';

export const Verdict = ({ verdict }) => html`<span class=${`verdict-mark v-${String(verdict).replace(/[^a-z]/g, '')}`}>${plain(verdict, 40)}</span>`;

const origin = (s) => s && html`${s.kind}${s.file && html` <code class="t">${plain(s.file, 300)}${s.line > 0 && ':' + s.line}</code>`}`;

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
      body.call = given;
    } else body.call = `${kind}: ${text}`;
    const r = await api('/policy/test', body);
    setResult(r);
    say(`${r.verdict}: ${plain(r.reason, 200)}`);
  });
  return html`<form class="panel test" onSubmit=${(e) => { e.preventDefault(); setResult(null); test(call.current.value.trim()); }}>
    <h2>What would happen if</h2>
    <div class="row"><label>Tool <select value=${kind} onChange=${(e) => setKind(e.target.value)}><option value="bash">run a command</option><option value="view">read a file</option><option value="edit">change a file</option><option value="web_fetch">fetch an address</option><option value="json">a tool, as JSON</option></select></label>
    <label class="grow">${{ bash: 'Command', web_fetch: 'Address', json: 'Tool and arguments' }[kind] ?? 'File'} <input ref=${call} required autocomplete="off" spellcheck="false" placeholder=${{ bash: 'rm -rf build', web_fetch: 'https://example.com', json: '{"tool": "view", "args": {"path": "a.txt"}}' }[kind] ?? 'src/main.go'} /></label>
    <button disabled=${state.busy}>Test</button></div>
    <${Failure} error=${state.error} />
    ${result && html`<div class="result" role="status"><${Verdict} verdict=${result.verdict} /> <${T} text=${result.reason} limit=${2000} />${result.rule && html` <span class="dim">· rule</span> <code class="t">${visible(clip([result.rule, result.pattern].filter(Boolean).join(': '), 400))}</code>`}${result.confined && html` <span class="dim">· sandboxed</span>`}${result.source?.kind && html` <span class="dim">· from</span> ${origin(result.source)}`}${result.always?.length > 0 && html`<p class="small dim">Always allowed with ${result.always.map((r, n) => [n > 0 && ' and ', html`<code class="t">${visible(clip(r, 300))}</code>`])}</p>`}</div>`}
  </form>`;
}

const Rules = ({ rules, name }) => html`<table class="cards"><caption>${name}</caption><thead><tr><th scope="col">Rule</th><th scope="col">Verdict</th><th scope="col">List</th><th scope="col">From</th></tr></thead>
  <tbody>${rules.map((r) => html`<tr><th scope="row"><code class="t">${visible(clip(r.rule, 400))}</code></th><td><${Verdict} verdict=${r.verdict} /></td><td data-label="List">${plain(r.list, 80)}</td><td data-label="From">${origin(r.source)}${r.ignored && html` <span class="bad">not in force: the file is not trusted</span>`}</td></tr>`)}</tbody></table>`;

export function Policy() {
  const [dir, setDir] = useState('');
  const { data, error, loading, reload } = useLoad('/policy' + query({ dir }));
  const rules = (data?.rules ?? []).filter((r) => r.list !== 'default'), own = rules.filter((r) => r.source.kind !== 'default'), defaults = Object.entries(data?.defaults ?? {});
  return html`<${Page} title="Policy" side=${html`<form class="filters" onSubmit=${(e) => { e.preventDefault(); setDir(new FormData(e.target).get('dir').trim()); }}><label>Directory <input name="dir" placeholder="that of the server" autocomplete="off" spellcheck="false" /></label><button class="quiet">Show</button></form>`}>
    <${Failure} error=${error} retry=${reload} /><${Loading} when=${loading} />
    ${data?.error && html`<div class="failure" role="alert"><p><${T} text=${data.error} limit=${2000} /></p></div>`}
    <${Test} dir=${dir} />
    ${data && html`
      <dl class="facts"><div><dt>In</dt><dd>${plain(data.dir, 400)}</dd></div>${data.read_only && html`<div><dt>Clients</dt><dd>may not write</dd></div>`}${defaults.map(([k, v]) => html`<div><dt>${plain(k, 60)}</dt><dd><${Verdict} verdict=${v} /></dd></div>`)}</dl>
      ${own.length === 0 ? html`<${Empty}>There are no rules of your own: what is built in decides.<//>` : html`<${Rules} rules=${own} name="Your rules" />`}
      ${rules.length > own.length && html`<details><summary>Built in: ${plural(rules.length - own.length, 'rule')}</summary><${Rules} rules=${rules.filter((r) => !own.includes(r))} name="Built in" /></details>`}
      ${data.files?.length > 0 && html`<h2>Files</h2><ul class="plain">${data.files.map((f) => html`<li><code class="t">${plain(f.path, 400)}</code> <span class="dim">${[f.kind, f.exists ? plural(f.rules ?? 0, 'rule') : 'not there', f.exists && !f.trusted && 'not trusted'].filter(Boolean).join(', ')}</span>${f.error && html` <span class="bad">${plain(f.error, 600)}</span>`}</li>`)}</ul>`}`}
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
    <td data-label="Session">${e.session && html`<a href=${'#/sessions/' + encodeURIComponent(e.session)}>${plain(e.session.slice(0, 8))}</a>`} <span class="dim">${doorName(e.door)}</span></td>
    <td class="wide"><${T} text=${e.reason} limit=${400} />${Object.keys(details).length > 0 && html`<details><summary>Entry</summary><${Folded} text=${pretty(details)} lines=${40} label=${`Entry ${e.seq}`} /></details>`}</td></tr>`;
}

function VerifyAudit() {
  const [report, setReport] = useState(null);
  const [verify, state] = useAction(async () => { const r = await api('/audit/verify', {}); setReport(r); say(r.ok ? 'The audit log is whole' : 'The audit log has problems'); });
  return html`<div class="panel"><div class="row"><button type="button" class="quiet" disabled=${state.busy} onClick=${() => verify()}>${state.busy ? 'Verifying…' : 'Verify the whole log'}</button>
    ${report && html`<span class=${report.ok ? 'good' : 'bad'}>${report.ok ? 'The log is whole' : plural(report.problems?.length ?? 0, 'problem')}: ${plural(report.entries ?? 0, 'entry', 'entries')} in ${plural(report.files ?? 0, 'file')}.</span>`}</div>
    <${Failure} error=${state.error} />
    ${report?.problems?.length > 0 && html`<ul>${report.problems.map((p) => html`<li class="bad"><${T} text=${`${p.file ?? ''}${p.line ? ':' + p.line : ''} ${p.text}`} limit=${600} /></li>`)}</ul>`}</div>`;
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
    ${(older.more ?? first.data?.more) && html`<p><button type="button" class="quiet" disabled=${state.busy} onClick=${() => load()}>Show older ones</button></p>`}
  <//>`;
}

const copilotStates = { ok: 'ready', limited: 'limited', unavailable: 'not available', demo: 'the built-in demo model answers' };

/** Rows is a table of a list: columns are [title, cell, number?]. */
const Rows = ({ name, rows, columns }) => html`<table class="cards"><caption>${name}</caption><thead><tr>${columns.map(([t, , n]) => html`<th scope="col" class=${n ? 'num' : ''}>${t}</th>`)}</tr></thead>
  <tbody>${rows.map((r) => html`<tr>${columns.map(([t, cell, n], i) => (i === 0 ? html`<th scope="row">${cell(r)}</th>` : html`<td data-label=${t} class=${n ? 'num' : ''}>${cell(r)}</td>`))}</tr>`)}</tbody></table>`;

export function Health() {
  const { data: h, error, loading, reload } = useLoad('/health', { every: 5000 });
  const bytes = (n) => (n > 0 ? size(n) : '–');
  return html`<${Page} title="Health" side=${h && html`<span class=${h.ok ? 'good' : 'bad'}>${h.ok ? 'Ready' : 'Not ready'}</span>`}>
    <${Failure} error=${error} retry=${reload} /><${Loading} when=${loading} />
    ${h && html`<dl class="facts">
        <div><dt>Version</dt><dd>${plain(h.version, 80)}</dd></div>
        <div><dt>Copilot</dt><dd>${copilotStates[h.copilot.state] ?? plain(h.copilot.state, 60)}${h.copilot.reason && html` <span class="dim">${plain(h.copilot.reason, 400)}</span>`}</dd></div>
        ${h.copilot.runtime && html`<div><dt>Runtime</dt><dd>${plain(h.copilot.runtime, 60)}</dd></div>`}
        <div><dt>Answers come from</dt><dd>${plain(h.answers, 200)}</dd></div>
        <div><dt>Turns</dt><dd>${h.open_turns} open, ${h.waiting_turns} waiting</dd></div>
        <div><dt>Memory</dt><dd>${bytes(h.memory)}</dd></div>
        <div><dt>Goroutines</dt><dd>${h.goroutines}</dd></div>
        <div><dt>Up for</dt><dd>${span(Math.round(h.uptime) * 1000)}</dd></div>
        <div><dt>Sandbox</dt><dd>${h.sandbox.on ? `on${h.sandbox.with ? `, with ${plain(h.sandbox.with, 80)}` : ''}` : html`<span class="bad">off</span>`} <span class="dim">(${plain(h.sandbox.mode, 40)})</span>${h.sandbox.reason && html` ${plain(h.sandbox.reason, 400)} <span class="dim">${plain(h.sandbox.remedy, 400)}</span>`}</dd></div></dl>
      <${Rows} name="Runtimes" rows=${h.runtimes} columns=${[['For', (r) => r.profile], ['Process', (r) => r.pid || 'not started', true], ['Memory', (r) => bytes(r.memory), true], ['Starts', (r) => r.starts, true], ['Sessions', (r) => r.sessions, true]]} />
      <${Rows} name="Ways to reach Copilot" rows=${h.agents} columns=${[['Agent', (a) => plain(a.name, 60)], ['State', (a) => (a.failed ? html`<span class="bad">${plain(a.failed, 400)}</span>` : a.in_use ? 'in use' : 'not in use')]]} />
      <${Rows} name="Doors" rows=${h.doors} columns=${[['Door', (d) => doorName(d.name)], ['Address', (d) => html`<code class="t">${plain(d.address, 200)}</code>`]]} />
      <${Rows} name="Processes of the bridge" rows=${h.processes} columns=${[['Command', (p) => plain(p.command, 60)], ['Process', (p) => p.pid, true], ['Workspace', (p) => plain(p.workspace, 300)], ['Address', (p) => plain(p.url, 100)], ['Version', (p) => plain(p.version, 60)], ['Since', (p) => html`<${Ago} at=${p.since} />`]]} />
      <p><a href="/metrics">Metrics</a> · <a href="/healthz">healthz</a></p>`}
  <//>`;
}
