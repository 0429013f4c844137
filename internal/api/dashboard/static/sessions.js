// The list of sessions: live ones as they change, past ones as they are asked for.
import { html, useState, useEffect, useRef, api, query, useLoad, Page, State, Ago, Failure, Empty, Loading, count, money, plural, plain } from './lib.js';
import { useLive } from './live.js';
import { visible } from './text.js';
import { Examples } from './connect.js';

export const doors = { openai: 'OpenAI API', anthropic: 'Anthropic API', mcp: 'MCP', acp: 'ACP', abp: 'ABP', toolbus: 'tool bus', cli: 'terminal', http: 'HTTP API' };
export const doorName = (d) => doors[d] ?? d ?? '';

/** shortDir is the end of a path, which tells directories apart. */
export const shortDir = (dir) => { const parts = String(dir ?? '').split('/'); return parts.length > 3 ? '…/' + parts.slice(-2).join('/') : dir; };
export const tokens = (u) => (u ? (u.input_tokens ?? 0) + (u.output_tokens ?? 0) : 0);
export const titleOf = (s) => plain(s.title, 160).split('\n')[0] || (s.profile === 'chat' ? 'Chat' : 'Session') + ' ' + s.id.slice(0, 8);

const fits = (s, door, q) => (!door || s.door === door) && (!q || [s.id, s.title, s.client, s.model, s.dir, s.door, s.agent].some((v) => String(v ?? '').toLowerCase().includes(q)));

export function SessionTable({ sessions, label }) {
  return html`<table class="cards sessions"><caption class="unseen">${label}</caption>
    <thead><tr><th scope="col">Session</th><th scope="col">State</th><th scope="col">Door</th><th scope="col">Client</th><th scope="col">Model</th><th scope="col">Directory</th><th scope="col" class="num">Turns</th><th scope="col" class="num">Tokens</th><th scope="col" class="num">Cost</th><th scope="col" class="num">Changed</th></tr></thead>
    <tbody>${sessions.map((s) => html`<tr key=${s.id}>
      <th scope="row"><a href=${'#/sessions/' + encodeURIComponent(s.id)}>${titleOf(s)}</a></th>
      <td><${State} state=${s.state} />${s.questions > 0 && html` <a class="badge" href="#/approvals">${plural(s.questions, 'question')}</a>`}</td>
      <td data-label="Door">${doorName(s.door)}</td>
      <td data-label="Client">${visible(plain(s.client, 60))}</td>
      <td data-label="Model">${s.model && (s.profile === 'agent' ? 'agent/' : '') + plain(s.model, 60)}</td>
      <td data-label="Directory" class="dir" title=${plain(s.dir)}>${plain(shortDir(s.dir), 80)}</td>
      <td data-label="Turns" class="num">${s.turns ?? 0}</td>
      <td data-label="Tokens" class="num">${count(tokens(s.usage))}</td>
      <td data-label="Cost" class="num">${money(s.usage?.cost)}</td>
      <td data-label="Changed" class="num"><${Ago} at=${s.changed} /></td>
    </tr>`)}</tbody></table>`;
}

export function Sessions() {
  const live = useLive();
  const [q, setQ] = useState('');
  const [door, setDoor] = useState('');
  const [asked, setAsked] = useState('');
  useEffect(() => { const t = setTimeout(() => setAsked(q.trim()), 250); return () => clearTimeout(t); }, [q]);
  const liveKey = live.sessions.map((s) => s.id).sort().join();
  const first = useLoad('/sessions' + query({ state: 'past', door, q: asked, limit: 50 }), { marks: [liveKey] });
  const [older, setOlder] = useState({ sessions: [], more: null });
  useEffect(() => setOlder({ sessions: [], more: null }), [first.data]);
  const now = live.sessions.filter((s) => fits(s, door, q.trim().toLowerCase()));
  const ids = new Set(live.sessions.map((s) => s.id));
  const past = [...(first.data?.sessions ?? []), ...older.sessions].filter((s) => !ids.has(s.id));
  const more = older.more ?? first.data?.more;
  const [failed, setFailed] = useState(null);
  const load = async () => {
    try {
      const last = [...(first.data?.sessions ?? []), ...older.sessions].at(-1);
      const next = await api('/sessions' + query({ state: 'past', door, q: asked, limit: 50, before: last?.id }));
      setOlder((o) => ({ sessions: [...o.sessions, ...next.sessions], more: next.more }));
      setFailed(null);
    } catch (e) { setFailed(e); }
  };
  const search = useRef(null);
  useEffect(() => {
    const slash = (e) => { if (e.key === '/' && !/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName)) { e.preventDefault(); search.current?.focus(); } };
    document.addEventListener('keydown', slash);
    return () => document.removeEventListener('keydown', slash);
  }, []);
  const none = live.known && first.data && live.sessions.length === 0 && past.length === 0 && !asked && !door;
  if (none) {
    return html`<${Page} title="Sessions"><${Empty}>There are no sessions yet. Connect a client and they appear here as they happen.<//><${Examples} /><//>`;
  }
  return html`<${Page} title="Sessions" side=${html`<form class="filters" role="search" onSubmit=${(e) => e.preventDefault()}>
      <label>Search <input ref=${search} type="search" value=${q} onInput=${(e) => setQ(e.target.value)} aria-keyshortcuts="/" /></label>
      <label>Door <select value=${door} onChange=${(e) => setDoor(e.target.value)}><option value="">all</option>${Object.entries(doors).filter(([d]) => d !== 'http').map(([d, name]) => html`<option value=${d}>${name}</option>`)}</select></label>
    </form>`}>
    <section aria-labelledby="live"><h2 id="live">Live <span class="dim">${now.length || ''}</span></h2>
      ${now.length ? html`<${SessionTable} sessions=${now} label="Live sessions" />` : html`<${Empty}>${live.known ? 'No session is open.' : 'Loading…'}<//>`}
    </section>
    <section aria-labelledby="past"><h2 id="past">Past</h2>
      <${Failure} error=${first.error ?? failed} retry=${first.reload} />
      <${Loading} when=${first.loading} />
      ${past.length > 0 && html`<${SessionTable} sessions=${past} label="Past sessions" />`}
      ${first.data && past.length === 0 && html`<${Empty}>${asked || door ? 'Nothing fits.' : 'Nothing yet.'}<//>`}
      ${more && html`<p><button type="button" class="quiet" onClick=${load}>Show older ones</button></p>`}
    </section>
  <//>`;
}
