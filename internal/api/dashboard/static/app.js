// The dashboard: the login, the frame around the views, and which view is shown.
import { html, render, useState, useEffect, useRef, onLoginNeeded, api, logIn, logOut, Failure, Page, say, plain, plural } from './lib.js';
import { useLive, watch, dismiss } from './live.js';
import { Sessions } from './sessions.js';
import { Session } from './session.js';
import { Approvals } from './approvals.js';
import { Runs, Run, RunTask } from './runs.js';
import { Usage } from './usage.js';
import { Policy, Audit, Health } from './records.js';
import { Connect } from './connect.js';

const views = [
  ['sessions', 'Sessions', (id) => (id ? html`<${Session} key=${id} id=${id} />` : html`<${Sessions} />`)],
  ['approvals', 'Approvals', () => html`<${Approvals} />`],
  ['runs', 'Orchestrations', (id, task) => (task ? html`<${RunTask} key=${id + '/' + task} id=${id} task=${task} />` : id ? html`<${Run} key=${id} id=${id} />` : html`<${Runs} />`)],
  ['usage', 'Usage', () => html`<${Usage} />`],
  ['policy', 'Policy', () => html`<${Policy} />`],
  ['audit', 'Audit', () => html`<${Audit} />`],
  ['health', 'Health', () => html`<${Health} />`],
  ['connect', 'Connect', () => html`<${Connect} />`],
];

/** route is the view and its arguments: #/sessions/ID → ["sessions", "ID"]. */
const route = () => {
  const parts = location.hash.replace(/^#\/?/, '').split('?')[0].split('/').map((p) => { try { return decodeURIComponent(p); } catch { return p; } });
  return views.some(([name]) => name === parts[0]) ? parts : ['sessions'];
};

const themes = ['auto', 'light', 'dark'];
const themeNames = { auto: 'as the system', light: 'light', dark: 'dark' };
const storedTheme = () => { try { return themes.find((t) => t === localStorage.getItem('theme')) ?? 'auto'; } catch { return 'auto'; } };
function setTheme(t) {
  document.documentElement.dataset.theme = t;
  try { localStorage.setItem('theme', t); } catch { /* private windows: for this page only */ }
}
setTheme(storedTheme());

function Theme() {
  const [theme, set] = useState(storedTheme());
  const next = themes[(themes.indexOf(theme) + 1) % themes.length];
  return html`<button type="button" class="small quiet" onClick=${() => { setTheme(next); set(next); say(`Colours: ${themeNames[next]}`); }}>Colours: ${themeNames[theme]}</button>`;
}

function Frame() {
  const live = useLive();
  const [parts, set] = useState(route());
  const [menu, setMenu] = useState(false);
  const main = useRef(null);
  useEffect(() => watch(), []);
  useEffect(() => {
    const go = () => { set(route()); setMenu(false); window.scrollTo(0, 0); };
    window.addEventListener('hashchange', go);
    set(route()); // it may have changed since the first look
    return () => window.removeEventListener('hashchange', go);
  }, []);
  useEffect(() => {
    const skip = document.getElementById('skip');
    const jump = (e) => { e.preventDefault(); main.current.focus(); };
    skip.addEventListener('click', jump);
    return () => skip.removeEventListener('click', jump);
  }, []);
  const [name, , view] = views.find(([n]) => n === parts[0]);
  const running = live.sessions.filter((s) => s.state === 'running' || s.state === 'waiting').length;
  const marks = { approvals: live.approvals.length, sessions: running, runs: live.runs.filter((r) => r.state === 'running').length };
  return html`
    <header class="bar">
      <a class="brand" href="#/sessions">Copilot Bridge</a>
      <button type="button" class="menu quiet" aria-expanded=${menu} aria-controls="nav" onClick=${() => setMenu(!menu)}>Menu${live.approvals.length > 0 && html` <span class="badge">${live.approvals.length}<span class="unseen"> waiting</span></span>`}</button>
      <nav id="nav" class=${menu ? 'open' : ''} aria-label="Views"><ul>${views.map(([n, title]) => html`<li key=${n}><a href=${'#/' + n} aria-current=${n === name ? 'page' : null}>${title}${marks[n] > 0 && html`<span class=${n === 'approvals' ? 'badge' : 'badge calm'}>${marks[n]}<span class="unseen">${n === 'approvals' ? ' waiting' : ' running'}</span></span>`}</a></li>`)}</ul></nav>
      <div class=${menu ? 'tools open' : 'tools'}><${Theme} /><button type="button" class="small quiet" onClick=${logOut}>Log out</button></div>
    </header>
    ${live.connection === 'lost' && html`<p class="lost" role="status">The bridge does not answer. Reconnecting…</p>`}
    ${name !== 'approvals' && live.approvals.some((q) => q.session !== parts[1]) && html`<p class="asks"><a href="#/approvals">${plural(live.approvals.length, 'question')} ${live.approvals.length === 1 ? 'waits' : 'wait'}</a> <span class="t">${plain(live.approvals[0].lead, 120)}</span></p>`}
    <main id="main" tabindex="-1" ref=${main}>${view(...parts.slice(1))}</main>
    <div class="notes">${live.notes.map((n) => html`<p key=${n.key}>${n.text} <button type="button" class="small quiet" aria-label="Dismiss" onClick=${() => dismiss(n.key)}>×</button></p>`)}</div>`;
}

function Login({ failed, onDone }) {
  const [wrong, setWrong] = useState(failed);
  const submit = async (e) => {
    e.preventDefault();
    const value = new FormData(e.target).get('token').trim();
    try { await logIn({ token: value }); onDone(); } catch (error) {
      setWrong(error.status === 401 ? 'That is not the token of this bridge. It is what COPILOT_BRIDGE_TOKEN was when it was started.' : error.message);
    }
  };
  return html`<main id="main" class="login" tabindex="-1"><${Page} title="Log in">
    <p>This page shows what agents do on this machine, and answers their questions. It opens for the person who runs the bridge:</p>
    <pre tabindex="0" role="group" aria-label="Command">copilot-bridge dashboard</pre>
    <p>The command prints and opens an address that logs this browser in once.</p>
    <form onSubmit=${submit} class="panel">
      <label for="token">Or the token that the bridge was started with</label>
      <input id="token" name="token" type="password" autocomplete="current-password" required aria-invalid=${wrong ? 'true' : null} aria-describedby=${wrong ? 'wrong' : null} />
      ${wrong && html`<p id="wrong" class="bad" role="alert">${wrong}</p>`}
      <p><button>Log in</button></p>
    </form>
  <//></main>`;
}

function App() {
  const [state, set] = useState({ name: 'loading' });
  const check = async () => {
    const code = /^#login=(.+)$/.exec(location.hash)?.[1];
    let failed = '';
    if (code) {
      history.replaceState(null, '', '/');
      await logIn({ code: decodeURIComponent(code) }).catch((e) => { failed = e.status === 401 ? 'This address has been used already, or is too old. Run copilot-bridge dashboard again.' : e.message; });
    }
    try {
      const about = await api('/about');
      set({ name: 'in', about });
    } catch (error) {
      set(error.status === 401 ? { name: 'out', failed } : { name: 'failed', error });
    }
  };
  useEffect(() => {
    check();
    const coded = () => { if (location.hash.startsWith('#login=')) check(); };
    window.addEventListener('hashchange', coded);
    const off = onLoginNeeded(() => set((s) => (s.name === 'in' ? { name: 'out', failed: '' } : s)));
    return () => { off(); window.removeEventListener('hashchange', coded); };
  }, []);
  if (state.name === 'in') return html`<${Frame} />`;
  if (state.name === 'out') return html`<${Login} failed=${state.failed} onDone=${check} />`;
  if (state.name === 'failed') return html`<main id="main"><${Failure} error=${state.error} retry=${check} /></main>`;
  return html`<main id="main" aria-busy="true"></main>`;
}

render(html`<${App} />`, document.getElementById('app'));
