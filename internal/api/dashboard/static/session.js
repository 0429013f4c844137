// One session: its timeline as it happens, its questions, and what a person can do with it.
import { html, useState, useEffect, useLayoutEffect, useRef, useMemo, api, query, useLoad, useAction, Page, State, Ago, Failure, Loading, Empty, count, money, span, plural, plain, say } from './lib.js';
import { useLive, followTimeline, sessionPath } from './live.js';
import { Model, Blocks } from './timeline.js';
import { doorName, titleOf } from './sessions.js';

const firstPage = 150, pageSize = 400;
const nearEnd = 120; // pixels

/** Timeline shows the newest events of a session and follows them; older ones come as the reader scrolls. */
export function Timeline({ id, running, approvals, onEvents, fromEnd = true }) {
  const [, redraw] = useState({});
  const [error, setError] = useState(null);
  const s = useRef(null);
  s.current ??= { model: new Model(), first: 0, next: 0, ready: false, atEnd: false, following: fromEnd, loading: false, connection: 'open', stop: () => {}, anchor: null };
  const t = s.current, list = useRef(null);

  const frame = useRef(0), waiting = useRef([]);
  const apply = () => {
    frame.current = 0;
    const events = waiting.current.filter((e) => e.id > t.next);
    waiting.current = [];
    if (!t.atEnd || events.length === 0) return;
    t.model.add(events);
    t.next = events.at(-1).id;
    onEvents?.(events);
    if (t.following) {
      t.first = t.model.dropOldest() ?? t.first;
    } else if (t.model.dropNewest()) detach();
    redraw({});
  };
  const detach = () => { t.atEnd = false; t.stop(); t.stop = () => {}; t.next = t.model.end; };
  const follow = () => {
    t.stop();
    t.stop = followTimeline(id, t.next, (events) => {
      waiting.current.push(...events);
      frame.current ||= requestAnimationFrame(apply);
    }, (connection) => { if (t.connection !== connection) { t.connection = connection; if (connection === 'lost') say('Reconnecting'); redraw({}); } });
  };
  // load asks for events and gives them to a function, one request at a time.
  const load = async (params, take) => {
    if (t.loading) return;
    t.loading = true;
    redraw({});
    try {
      const page = await api(sessionPath(id, '/events') + query(params));
      if (t.gone) return;
      take(page);
      setError(null);
    } catch (e) { setError(e); }
    t.loading = false;
    redraw({});
  };
  // begin shows one end of the timeline: the latest events, or the first ones.
  const begin = (atStart) => load(atStart ? { from: 0, limit: pageSize } : { last: firstPage }, (page) => {
    t.model.reset(page.events);
    Object.assign(t, { first: atStart ? 0 : page.first, next: page.next, ready: true, atEnd: !atStart || page.next >= page.size, following: !atStart });
    onEvents?.(page.events);
    if (t.atEnd) follow(); else t.stop();
  });
  // hold keeps what is read where it is, across the next change of the list.
  const hold = () => {
    const nodes = [...list.current.children], i = nodes.findIndex((n) => n.getBoundingClientRect().bottom > 100);
    t.anchor = i < 0 ? null : { key: t.model.blocks[i].key, top: nodes[i].getBoundingClientRect().top };
  };
  const older = () => t.ready && t.first > 0 && load({ before: t.first, limit: pageSize }, (page) => {
    t.first = page.events.length ? page.first : 0;
    hold();
    t.following = false;
    t.model.reset([...page.events, ...t.model.events]);
    if (t.model.dropNewest()) detach();
  });
  const newer = () => t.ready && !t.atEnd && load({ from: t.next, limit: pageSize }, (page) => {
    hold();
    t.model.add(page.events);
    t.next = page.next;
    t.first = t.model.dropOldest() ?? t.first;
    if (page.next >= page.size) { t.atEnd = true; follow(); }
  });

  useEffect(() => {
    begin(!fromEnd);
    return () => { t.gone = true; t.stop(); cancelAnimationFrame(frame.current); };
  }, [id]);

  // Older events must not move what is being read; new ones show if the reader is at the end.
  useLayoutEffect(() => {
    const root = document.documentElement;
    if (t.anchor) {
      const i = t.model.blocks.findIndex((b) => b.key === t.anchor.key);
      const node = list.current.children[i];
      root.style.overflowAnchor = 'none';
      if (node) window.scrollBy(0, node.getBoundingClientRect().top - t.anchor.top);
      requestAnimationFrame(() => { root.style.overflowAnchor = ''; });
      t.anchor = null;
      if (!t.atEnd && !error && root.scrollHeight - innerHeight - window.scrollY < 900) newer();
    } else if (!t.following && t.ready && t.atEnd && root.scrollHeight - innerHeight - window.scrollY < 4) {
      t.following = true; // all of it can be seen
      redraw({});
    } else if (t.following && t.ready) window.scrollTo(0, root.scrollHeight);
    if (!t.following && !t.loading && !error && window.scrollY < 300) older(); // at the very top nothing scrolls any more
  });
  useEffect(() => {
    const resize = new ResizeObserver(() => { if (t.following && t.ready) window.scrollTo(0, document.documentElement.scrollHeight); });
    resize.observe(list.current);
    let before = window.scrollY;
    const scroll = () => {
      const root = document.documentElement, left = root.scrollHeight - innerHeight - window.scrollY, up = window.scrollY < before - 2;
      before = window.scrollY;
      const following = left < nearEnd && t.atEnd ? !up || left < 4 : t.following && !up;
      if (following !== t.following) { t.following = following; redraw({}); }
      if (window.scrollY < 900 && up) older();
      if (left < 900 && !up) newer();
    };
    window.addEventListener('scroll', scroll, { passive: true });
    const keys = (e) => {
      if (e.altKey || e.ctrlKey || e.metaKey || /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName) || (e.key !== 'j' && e.key !== 'k')) return;
      const blocks = [...list.current.querySelectorAll('.block')];
      const here = blocks.indexOf(document.activeElement.closest?.('.block'));
      const seen = here >= 0 ? here + (e.key === 'j' ? 1 : -1) : blocks.findIndex((b) => b.getBoundingClientRect().bottom > 100);
      if (e.key === 'k') t.following = false;
      blocks[seen]?.focus();
    };
    document.addEventListener('keydown', keys);
    return () => { resize.disconnect(); window.removeEventListener('scroll', scroll); document.removeEventListener('keydown', keys); };
  }, []);

  const context = useMemo(() => ({ running, approvals }), [running, approvals]);
  return html`
    <${Failure} error=${error} retry=${t.ready ? null : () => begin(!fromEnd)} />
    ${t.connection === 'lost' && html`<p class="lost" role="status">Reconnecting…</p>`}
    <div class="older">${t.first > 0 ? html`<button type="button" class="small quiet" onClick=${older} disabled=${t.loading}>Show earlier events</button>` : t.ready && t.model.blocks.length > 0 && html`<span class="dim small">The session begins here.</span>`}</div>
    <div class="timeline" role="feed" aria-label="Timeline" aria-busy=${!t.ready} ref=${list}><${Blocks} blocks=${t.model.blocks} context=${context} /></div>
    ${t.ready && t.model.blocks.length === 0 && html`<${Empty}>Nothing has happened yet.<//>`}
    <${Loading} when=${!t.ready && !error} />
    ${t.ready && (!t.following || !t.atEnd) && html`<button type="button" class="latest" onClick=${() => { if (t.atEnd) { t.following = true; redraw({}); } else begin(false); }}>Latest ↓</button>`}`;
}

/** Composer sends a message to the session: into the turn, after it, or to resume it. */
function Composer({ id, can, working }) {
  const [mode, setMode] = useState('steer');
  const field = useRef(null);
  const [send, state] = useAction(async (text) => {
    if (can.send) {
      await api(sessionPath(id, '/messages'), { text, mode: working ? mode : 'queue' });
      say('Sent');
    } else {
      const answer = await api(sessionPath(id, '/resume'), { text });
      location.hash = '#/sessions/' + encodeURIComponent(answer.session?.id ?? answer.session ?? id);
      say('Resumed');
    }
  });
  const submit = async (e) => {
    e.preventDefault();
    const text = field.current.value.trim();
    if (!text || state.busy) return;
    if (await send(text)) { field.current.value = ''; }
  };
  if (!can.send && !can.resume) return null;
  return html`<form class="composer" onSubmit=${submit}>
    <${Failure} error=${state.error} />
    <label for="message" class="unseen">${can.send ? 'Message to the agent' : 'Message that resumes the session'}</label>
    <textarea id="message" ref=${field} rows="2" placeholder=${can.send ? (working ? 'Steer the agent…' : 'Send a message…') : 'Resume the session with a message…'} onKeyDown=${(e) => { if (e.key === 'Enter' && (e.ctrlKey || e.metaKey)) submit(e); }}></textarea>
    <div class="row">
      ${can.send && working && html`<fieldset class="modes"><legend class="unseen">When</legend>
        <label><input type="radio" name="mode" value="steer" checked=${mode === 'steer'} onChange=${() => setMode('steer')} /> Steer now</label>
        <label><input type="radio" name="mode" value="queue" checked=${mode === 'queue'} onChange=${() => setMode('queue')} /> After this turn</label>
      </fieldset>`}
      <span class="dim small hint">Ctrl+Enter</span>
      <button disabled=${state.busy}>${can.send ? 'Send' : 'Resume'}</button>
    </div>
  </form>`;
}

export function Session({ id }) {
  const live = useLive();
  const summary = live.sessions.find((x) => x.id === id);
  const details = useLoad(sessionPath(id), { marks: [summary?.state, summary?.turns] });
  const s = summary ?? details.data?.session;
  const can = details.data?.can ?? {};
  const working = s?.state === 'running' || s?.state === 'waiting';
  const approvals = useMemo(() => live.approvals.filter((q) => q.session === id), [live.approvals, id]);
  const [stop, stopping] = useAction(async () => { await api(sessionPath(id, '/stop'), {}); say('Stopped'); });
  const tell = (events) => {
    const last = events.findLast((e) => e.type === 'end' || e.type === 'error' || e.type === 'question');
    if (last?.type === 'end') say(`Turn ended: ${plain(last.reason, 60)}`);
    if (last?.type === 'error') say(`Error: ${plain(last.message, 200)}`);
    if (last?.type === 'question') say(plain(last.lead, 200));
  };
  if (details.error && !s) return html`<${Page} title="Session" name=${id}><${Failure} error=${details.error} retry=${details.reload} /><p><a href="#/sessions">All sessions</a></p><//>`;
  const facts = s && [
    ['Door', doorName(s.door)], ['Client', s.client], ['Model', s.model && (s.profile === 'agent' ? 'agent/' : '') + s.model], ['Directory', s.dir],
    ['Tokens', s.usage && `${count(s.usage.input_tokens)} in, ${count(s.usage.output_tokens)} out`], ['Cost', s.usage?.cost > 0 && money(s.usage.cost)],
    ['First word', s.first_word_ms > 0 && span(s.first_word_ms)], ['Turns', s.turns], ['Answers', s.answers && (s.answers.name ?? s.answers.who ?? s.answers)],
    ['Session', s.id],
  ].filter(([, v]) => v);
  return html`<${Page} kind="session" name=${id} title=${s ? titleOf(s) : 'Session'} side=${s && html`<div class="side">
      <${State} state=${s.state} />
      ${can.stop && working && html`<button type="button" class="danger" onClick=${stop} disabled=${stopping.busy}>${stopping.busy ? 'Stopping…' : 'Stop'}</button>`}
    </div>`}>
    <${Failure} error=${stopping.error} />
    ${s && html`<dl class="facts">${facts.map(([k, v]) => html`<div><dt>${k}</dt><dd>${plain(v, 300)}</dd></div>`)}<div><dt>Started</dt><dd><${Ago} at=${s.started} /></dd></div>${s.run && html`<div><dt>Part of</dt><dd><a href=${'#/runs/' + encodeURIComponent(s.run)}>orchestration ${plain(s.task || s.run, 60)}</a></dd></div>`}</dl>`}
    <${Timeline} id=${id} running=${working} approvals=${approvals} onEvents=${tell} />
    <div class="dock">${approvals.length > 0 && html`<p class="dock-note"><a href="#/approvals">${plural(approvals.length, 'question')} ${approvals.length === 1 ? 'waits' : 'wait'}</a></p>`}<${Composer} id=${id} can=${can} working=${working} /></div>
  <//>`;
}
