// What all views share: requests, times and numbers, and small elements.
import { html, useState, useEffect, useRef, useCallback } from './preact.js';

export * from './preact.js';
export * from './chars.js';

export const docs = 'https://github.com/copilot-bridge/copilot-bridge/blob/main/docs/';

/** What the bridge refused: its code, message and remedy. */
export class Refused extends Error {
  constructor(status, { code, message, remedy } = {}) {
    super(message || `The bridge answered ${status}.`);
    Object.assign(this, { status, code, remedy });
  }
}

const loginWatchers = new Set();
/** onLoginNeeded calls f when the bridge no longer knows this browser. */
export const onLoginNeeded = (f) => { loginWatchers.add(f); return () => loginWatchers.delete(f); };
export const loginNeeded = () => loginWatchers.forEach((f) => f());

/**
 * The proof goes with every change: it shows that the page has logged in, which a cookie
 * alone, sent to all ports of a machine, does not.
 */
const proofName = 'copilot-bridge-proof';
let proof = '';
try { proof = localStorage.getItem(proofName) ?? ''; } catch { /* kept in this page only */ }
function keepProof(value) {
  proof = value;
  try { localStorage.setItem(proofName, value); } catch { /* kept in this page only */ }
}
window.addEventListener('storage', (e) => { if (e.key === proofName) proof = e.newValue ?? ''; }); // another tab has logged in

/** logIn sends {code} or {token}; the bridge answers with a cookie and the proof. */
export async function logIn(body) {
  const response = await fetch('/login', { method: 'POST', headers: { Accept: 'application/json', 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(response.status, answer.error);
  keepProof(answer.proof ?? '');
}
export async function logOut() {
  await fetch('/logout', { method: 'POST' }).catch(() => {});
  keepProof('');
  location.reload();
}

/** api asks /api/v1; with a body it is a POST. */
export async function api(path, body, signal) {
  const init = { signal, headers: { Accept: 'application/json' } };
  if (body !== undefined) Object.assign(init, { method: 'POST', body: JSON.stringify(body) }).headers = { ...init.headers, 'Content-Type': 'application/json', 'X-Dashboard-Proof': proof };
  let response;
  try {
    response = await fetch('/api/v1' + path, init);
  } catch (e) {
    if (e.name === 'AbortError') throw e;
    throw new Refused(0, { code: 'unreachable', message: 'The bridge cannot be reached.', remedy: 'Is copilot-bridge serve still running?' });
  }
  const answer = await response.json().catch(() => ({}));
  if (response.status === 401 || answer.error?.code === 'proof_required') loginNeeded();
  if (!response.ok) throw new Refused(response.status, answer.error);
  return answer;
}

/** query makes ?a=b from what is set. */
export const query = (params) => {
  const set = Object.entries(params).filter(([, v]) => v !== undefined && v !== null && v !== '');
  return set.length ? '?' + new URLSearchParams(set) : '';
};

/** useLoad asks for a path, again when it or one of the marks changes, and every so many ms. */
export function useLoad(path, { every = 0, marks = [] } = {}) {
  const [state, set] = useState({});
  const [again, repeat] = useState(0);
  const shown = useRef(null);
  useEffect(() => {
    if (path === null) return undefined;
    const end = new AbortController();
    let timer = 0;
    if (shown.current !== path) { shown.current = path; set({ loading: true }); }
    const load = async () => {
      try {
        const data = await api(path, undefined, end.signal);
        set({ data });
      } catch (error) {
        if (error.name === 'AbortError') return;
        set((before) => ({ data: before.data, error }));
      }
      if (every && !end.signal.aborted) timer = setTimeout(load, every);
    };
    load();
    return () => { end.abort(); clearTimeout(timer); };
  }, [path, again, ...marks]);
  return { ...state, reload: useCallback(() => repeat((n) => n + 1), []) };
}

let sayTimer = 0;
/** say tells people who listen instead of looking. Calls in quick succession are joined to the last one. */
export const say = (text) => {
  clearTimeout(sayTimer);
  sayTimer = setTimeout(() => { document.getElementById('say').textContent = text; }, 250);
};

const clock = { watchers: new Set(), timer: 0 };
/** useNow is the time, every second. */
export function useNow() {
  const [now, set] = useState(Date.now());
  useEffect(() => {
    clock.watchers.add(set);
    if (!clock.timer) clock.timer = setInterval(() => { const t = Date.now(); clock.watchers.forEach((f) => f(t)); }, 1000);
    return () => {
      clock.watchers.delete(set);
      if (clock.watchers.size === 0) { clearInterval(clock.timer); clock.timer = 0; }
    };
  }, []);
  return now;
}

export const span = (ms) => {
  if (!(ms >= 0)) return '';
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 60) return `${s < 10 ? s.toFixed(1) : Math.round(s)} s`;
  const m = Math.floor(s / 60);
  if (m < 60) return `${m} min${m < 10 && Math.round(s % 60) ? ` ${Math.floor(s % 60)} s` : ''}`;
  const h = Math.floor(m / 60);
  if (h < 48) return `${h} h${h < 10 && m % 60 ? ` ${m % 60} min` : ''}`;
  return `${Math.floor(h / 24)} days`;
};
const ago = (t, now) => {
  const s = Math.max(0, Math.floor((now - t) / 1000));
  if (s < 5) return 'now';
  if (s < 60) return `${s} s ago`;
  if (s < 3600) return `${Math.floor(s / 60)} min ago`;
  if (s < 48 * 3600) return `${Math.floor(s / 3600)} h ago`;
  return `${Math.floor(s / 86400)} days ago`;
};
const valid = (t) => t && !t.startsWith('0001-');
export const timeOf = (t) => (valid(t) ? new Date(t) : null);

/** Ago is an age that grows. */
export function Ago({ at }) {
  const now = useNow(), t = timeOf(at);
  return t && html`<time datetime=${at} title=${t.toLocaleString()}>${ago(t, now)}</time>`;
}
export const When = ({ at }) => { const t = timeOf(at); return t && html`<time datetime=${at} title=${at}>${t.toLocaleString([], { dateStyle: 'medium', timeStyle: 'medium' })}</time>`; };
export const Clock = ({ at }) => { const t = timeOf(at); return t && html`<time class="clock" datetime=${at} title=${t.toLocaleString()}>${t.toLocaleTimeString()}</time>`; };

export const count = (n) => {
  if (!n) return '0';
  if (n < 10000) return n.toLocaleString('en');
  return n < 1e6 ? `${(n / 1000).toFixed(n < 1e5 ? 1 : 0)}k` : `${(n / 1e6).toFixed(1)}M`;
};
export const money = (n) => (n ? n.toLocaleString('en', { maximumFractionDigits: n < 1 ? 4 : 2 }) : '0');
export const size = (n) => (n < 1024 ? `${n} bytes` : n < 1 << 20 ? `${Math.round(n / 1024)} KiB` : `${(n / (1 << 20)).toFixed(1)} MiB`);
export const plural = (n, one, many = one + 's') => `${n} ${n === 1 ? one : many}`;

const states = { running: 'running', waiting: 'waits for you', idle: 'idle', ended: 'ended', interrupted: 'interrupted', done: 'done', failed: 'failed', pending: 'not started', skipped: 'skipped', canceled: 'cancelled' };
/** State is a state in words, with a colour beside it. */
export const State = ({ state }) => html`<span class=${`state s-${String(state).replace(/[^a-z]/g, '')}`}>${states[state] ?? state ?? ''}</span>`;

export const Failure = ({ error, retry }) => error && html`<div class="failure" role="alert"><p><strong>${error.message}</strong> ${error.remedy}</p>${retry && html`<button type="button" onClick=${retry}>Try again</button>`}</div>`;
export const Empty = ({ children }) => html`<p class="empty">${children}</p>`;
export const Loading = ({ when }) => when && html`<p class="empty" aria-busy="true">Loading…</p>`;

/** copy puts text on the clipboard, or says that it could not. */
export async function copy(text) {
  try { await navigator.clipboard.writeText(text); return true; } catch { return false; }
}
export function Copy({ text, label = 'Copy' }) {
  const [done, set] = useState('');
  const press = async () => {
    set(await copy(typeof text === 'function' ? text() : text) ? 'Copied' : 'Select it and press Ctrl-C');
    setTimeout(() => set(''), 2000);
  };
  return html`<button type="button" class="small quiet copy" onClick=${press}>${done || label}</button>`;
}

/** useAction is an asynchronous action of a button: whether it is under way, and how it failed. */
export function useAction(f) {
  const [state, set] = useState({});
  const run = async (...args) => {
    set({ busy: true });
    try { await f(...args); set({}); return true; } catch (error) { set({ error }); return false; }
  };
  return [run, state];
}

/** Page is a view with its heading. */
export function Page({ title, name, side, kind = '', children }) {
  const heading = useRef(null);
  useEffect(() => { heading.current?.focus({ preventScroll: true }); }, [name ?? title]);
  useEffect(() => { setTitle(title); }, [title]);
  return html`<div class=${`page ${kind}`}><header class="head"><h1 tabindex="-1" ref=${heading}>${title}</h1>${side}</header>${children}</div>`;
}

let titleText = 'Copilot Bridge', waiting = 0;
const showTitle = () => { document.title = `${waiting ? `(${waiting}) ` : ''}${titleText}`; };
function setTitle(t) { titleText = `${t} · Copilot Bridge`; showTitle(); }
const icon = (dot) => 'data:image/svg+xml,' + encodeURIComponent(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><path d="M3 22c0-9 5-14 13-14s13 5 13 14M3 22h26M10 22v-9M22 22v-9M16 22V8" fill="none" stroke="#3b82f6" stroke-width="3" stroke-linecap="round"/>${dot ? '<circle cx="25" cy="7" r="6.5" fill="#d1242f"/>' : ''}</svg>`);
/** setWaiting shows in the tab how many questions wait. */
export function setWaiting(n) {
  if (n === waiting && document.getElementById('icon').href !== 'data:,') return;
  waiting = n;
  showTitle();
  document.getElementById('icon').href = icon(n > 0);
}
/** Dialog is a modal dialog; closing it gives the focus back. */
export function Dialog({ title, onClose, children }) {
  const ref = useRef(null);
  useEffect(() => {
    const before = document.activeElement;
    ref.current.showModal();
    return () => before?.focus();
  }, []);
  return html`<dialog ref=${ref} aria-labelledby="dialog-title" onClose=${onClose}><h2 id="dialog-title">${title}</h2>${children}</dialog>`;
}
