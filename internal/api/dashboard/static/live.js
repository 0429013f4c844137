// What happens now: the overall state, and the timeline of one session.
import { useState, useEffect, api, loginNeeded, setWaiting, say, plain } from './lib.js';

/**
 * follow keeps an EventSource open: after any failure it opens a new one, at where
 * address() then says. It stops when the bridge asks for a login.
 */
function follow(address, events, onState) {
  let source = null, timer = 0, wait = 500, ended = false;
  const open = () => {
    if (ended) return;
    source = new EventSource(address());
    source.onopen = () => { wait = 500; onState('open'); };
    for (const [name, f] of Object.entries(events)) source.addEventListener(name, f);
    source.onerror = async () => {
      source.close();
      if (ended) return;
      onState('lost');
      timer = setTimeout(open, wait);
      wait = Math.min(wait * 2, 5000);
      const status = await fetch('/api/v1/about').then((r) => r.status, () => 0);
      if (status === 401) { clearTimeout(timer); loginNeeded(); }
    };
  };
  open();
  return () => { ended = true; clearTimeout(timer); source?.close(); };
}

/** live is the overall state. Views read it with useLive. */
const live = { sessions: [], approvals: [], runs: [], connection: 'connecting', notes: [], known: false };
const watchers = new Set();
const changed = () => watchers.forEach((f) => f({}));

export function useLive() {
  const [, set] = useState({});
  useEffect(() => { watchers.add(set); return () => watchers.delete(set); }, []);
  return live;
}

/** answeredHere holds the questions that this page has answered. */
export const answeredHere = new Set();

let noteNumber = 0;
export function note(text) {
  const entry = { key: ++noteNumber, text };
  live.notes = [...live.notes, entry].slice(-4);
  say(text);
  changed();
  setTimeout(() => dismiss(entry.key), 8000);
}
export const dismiss = (key) => { live.notes = live.notes.filter((n) => n.key !== key); changed(); };

function take(state) {
  const before = live.approvals;
  live.sessions = state.sessions ?? [];
  live.runs = state.runs ?? [];
  live.approvals = [...(state.approvals ?? [])].sort((a, b) => (a.asked < b.asked ? -1 : 1));
  const now = new Set(live.approvals.map((q) => q.id)), then = new Set(before.map((q) => q.id));
  for (const q of before) {
    if (!now.has(q.id) && !answeredHere.has(q.id)) note(`${Date.parse(q.until) <= Date.now() ? 'Timed out' : 'Answered elsewhere'}: ${plain(q.lead, 120)}`);
  }
  const fresh = live.approvals.filter((q) => !then.has(q.id));
  if (fresh.length && live.known) {
    say(`${plain(fresh[0].lead, 120)}. ${live.approvals.length} waiting in Approvals.`);
    if (leader) fresh.forEach(notify);
  }
  live.known = true;
  setWaiting(live.approvals.length);
  changed();
}

export const canNotify = () => 'Notification' in window;
export const askToNotify = async () => { await Notification.requestPermission(); changed(); };
function notify(q) {
  if (!canNotify() || Notification.permission !== 'granted') return;
  const shown = new Notification(plain(q.lead, 100), { body: plain(q.command || q.body, 200), tag: q.id, requireInteraction: false });
  shown.onclick = () => { window.focus(); location.hash = '#/approvals'; shown.close(); };
}

let leader = false;
/**
 * watch keeps the overall state. A browser keeps six connections to a server at most,
 * so of all tabs one holds the stream and tells the others.
 */
export function watch() {
  const channel = new BroadcastChannel('copilot-bridge');
  const end = new AbortController();
  let last = null, stop = () => {};
  const tell = (message) => channel.postMessage(message);
  channel.onmessage = ({ data }) => {
    if (data.hello) { if (leader && last) tell({ state: last, connection: live.connection }); return; }
    if (leader) return;
    if (data.connection) live.connection = data.connection;
    if (data.state) take(data.state); else changed();
  };
  tell({ hello: true });
  const lead = () => new Promise((resolve) => {
    leader = true;
    stop = follow(() => '/api/v1/stream', {
      state: (e) => { last = JSON.parse(e.data); live.connection = 'open'; tell({ state: last, connection: 'open' }); take(last); },
    }, (connection) => { live.connection = connection; tell({ connection }); changed(); });
    end.signal.addEventListener('abort', () => { stop(); leader = false; resolve(); });
  });
  if (navigator.locks) navigator.locks.request('copilot-bridge-stream', { signal: end.signal }, lead).catch(() => {});
  else lead();
  return () => { end.abort(); channel.close(); live.known = false; };
}

/**
 * followTimeline gives a session's events in batches, from an offset on. While the tab is
 * hidden it is closed; it goes on where it was.
 */
export function followTimeline(session, from, onEvents, onState) {
  let at = from, stop = null;
  const open = () => {
    stop ??= follow(() => `/api/v1/sessions/${encodeURIComponent(session)}/stream?from=${at}`, {
      timeline: (e) => {
        const events = JSON.parse(e.data);
        if (e.lastEventId) at = e.lastEventId;
        else if (events.length) at = events.at(-1).id;
        onEvents(events);
      },
    }, onState);
  };
  const close = () => { stop?.(); stop = null; };
  const show = () => (document.hidden ? close() : open());
  document.addEventListener('visibilitychange', show);
  show();
  return () => { document.removeEventListener('visibilitychange', show); close(); };
}

export const sessionPath = (id, rest = '') => `/sessions/${encodeURIComponent(id)}${rest}`;
