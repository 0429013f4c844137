// Orchestrations: the list, the graph of one, and one task.
import { html, useState, useLoad, Page, State, Ago, When, Failure, Empty, Loading, plain, plural, span, timeOf, useNow } from './lib.js';
import { useLive } from './live.js';
import { Diff, T } from './text.js';
import { Timeline } from './session.js';
import { shortDir } from './sessions.js';

const runPath = (id, rest = '') => `/runs/${encodeURIComponent(id)}${rest}`;
const address = (id, task) => `#/runs/${encodeURIComponent(id)}${task ? '/' + encodeURIComponent(task) : ''}`;

export function Runs() {
  const live = useLive();
  const mark = live.runs.map((r) => r.id + r.state + r.tasks?.done).join();
  const { data, error, loading, reload } = useLoad('/runs', { marks: [mark] });
  const runs = data?.runs ?? [];
  return html`<${Page} title="Orchestrations"><${Failure} error=${error} retry=${reload} /><${Loading} when=${loading} />
    ${data && runs.length === 0 && html`<${Empty}>Nothing yet. A large task is split and worked on in parts with <code>copilot-bridge orchestrate</code>.<//>`}
    ${runs.length > 0 && html`<table class="cards"><caption class="unseen">Orchestrations</caption><thead><tr><th scope="col">Task</th><th scope="col">State</th><th scope="col">Tasks</th><th scope="col">Directory</th><th scope="col" class="num">Started</th></tr></thead>
      <tbody>${runs.map((r) => html`<tr key=${r.id}><th scope="row"><a href=${address(r.id)}>${plain(r.task, 160).split('\n')[0] || r.id}</a></th><td><${State} state=${stateOf(r)} /></td>
        <td data-label="Tasks">${r.tasks?.done ?? 0} of ${r.tasks?.total ?? 0} done${r.tasks?.failed > 0 && `, ${r.tasks.failed} failed`}</td><td data-label="Directory" class="dir">${plain(shortDir(r.dir), 80)}</td><td data-label="Started" class="num"><${Ago} at=${r.started} /></td></tr>`)}</tbody></table>`}
  <//>`;
}

const none = [];

/** stateOf says of a finished run whether it has succeeded. */
const stateOf = (r) => (r.state === 'finished' ? (r.success ? 'done' : 'failed') : r.state);

/** layers puts each task one layer behind the last that it needs. Needs that go in circles are ignored. */
function layers(tasks) {
  const byID = new Map(tasks.map((t) => [t.id, t])), depth = new Map();
  const depthOf = (t, seen) => {
    if (depth.has(t.id)) return depth.get(t.id);
    if (seen.has(t.id)) return 0;
    seen.add(t.id);
    const d = Math.max(0, ...(t.needs ?? []).filter((n) => byID.has(n)).map((n) => depthOf(byID.get(n), seen) + 1));
    depth.set(t.id, d);
    return d;
  };
  const out = [];
  for (const t of tasks) (out[depthOf(t, new Set())] ??= []).push(t);
  return out.filter(Boolean);
}

const box = { w: 190, h: 52, x: 60, y: 16 };

function Graph({ id, tasks }) {
  const columns = layers(tasks), rows = Math.max(...columns.map((c) => c.length));
  const height = rows * (box.h + box.y) + box.y, width = columns.length * (box.w + box.x) - box.x + 4;
  const at = new Map();
  columns.forEach((c, i) => c.forEach((t, j) => at.set(t.id, { x: 2 + i * (box.w + box.x), y: (height - c.length * (box.h + box.y) + box.y) / 2 + j * (box.h + box.y) })));
  const short = (s) => { const p = plain(s, 200).split('\n')[0]; return p.length > 25 ? p.slice(0, 24) + '…' : p; };
  return html`<div class="graph scroll" tabindex="0" role="group" aria-label="Graph of the tasks"><svg width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`}>
    ${tasks.flatMap((t) => (t.needs ?? []).filter((n) => at.has(n)).map((n) => {
      const a = at.get(n), b = at.get(t.id), x1 = a.x + box.w, y1 = a.y + box.h / 2, y2 = b.y + box.h / 2;
      return html`<path class="edge" d=${`M${x1} ${y1}C${x1 + 30} ${y1} ${b.x - 30} ${y2} ${b.x} ${y2}`} />`;
    }))}
    ${tasks.map((t) => { const p = at.get(t.id); return html`<a key=${t.id} href=${address(id, t.id)}><g class=${`node n-${t.state}`} transform=${`translate(${p.x} ${p.y})`}>
      <rect width=${box.w} height=${box.h} rx="6" /><title>${plain(t.title || t.id, 300)}</title><text x="12" y="21">${short(t.title || t.id)}</text><text x="12" y="40" class="sub">${t.state}${t.attempts > 1 ? `, attempt ${t.attempts}` : ''}</text></g></a>`; })}
  </svg></div>`;
}

const useRun = (id) => {
  const live = useLive();
  const now = live.runs.find((r) => r.id === id);
  return useLoad(runPath(id), { marks: [JSON.stringify(now ?? null)], every: 2000 });
};

function Took({ t }) {
  const now = useNow(), from = timeOf(t.started);
  return from && span((timeOf(t.ended) ?? now) - from);
}

export function Run({ id }) {
  const { data: r, error, loading, reload } = useRun(id);
  return html`<${Page} name=${id} title=${r ? plain(r.task, 160).split('\n')[0] || 'Orchestration' : 'Orchestration'} side=${r && html`<${State} state=${stateOf(r)} />`}>
    <p class="crumbs"><a href="#/runs">All orchestrations</a></p>
    <${Failure} error=${error} retry=${reload} /><${Loading} when=${loading} />
    ${r && html`<dl class="facts"><div><dt>Directory</dt><dd>${plain(r.dir, 300)}</dd></div><div><dt>Started</dt><dd><${When} at=${r.started} /></dd></div>${timeOf(r.ended) && html`<div><dt>Ended</dt><dd><${When} at=${r.ended} /></dd></div>`}${r.branch && html`<div><dt>Branch</dt><dd>${plain(r.branch, 200)}</dd></div>`}${r.kept_branches?.length > 0 && html`<div><dt>Branches with work left</dt><dd>${plain(r.kept_branches.join(', '), 600)}</dd></div>`}</dl>
      ${r.summary && html`<p class="says"><${T} text=${r.summary} limit=${8000} /></p>`}
      ${r.notices?.map((n) => html`<p class="notice warning"><${T} text=${n} limit=${2000} /></p>`)}
      ${r.tasks?.length > 0 ? html`<${Graph} id=${id} tasks=${r.tasks} />
      <table class="cards"><caption class="unseen">Tasks</caption><thead><tr><th scope="col">Task</th><th scope="col">State</th><th scope="col">Now</th><th scope="col">Needs</th><th scope="col" class="num">Attempts</th><th scope="col" class="num">Time</th></tr></thead>
      <tbody>${r.tasks.map((t) => html`<tr key=${t.id}><th scope="row"><a href=${address(id, t.id)}>${plain(t.title || t.id, 160)}</a>${t.error && html`<p class="bad small"><${T} text=${t.error.message} limit=${300} /></p>`}</th><td><${State} state=${t.state} /></td>
        <td data-label="Now">${plain(t.state === 'running' ? t.doing : t.reason, 160)}</td><td data-label="Needs">${plain((t.needs ?? []).join(', '), 200)}</td><td data-label="Attempts" class="num">${t.attempts ?? 0}</td><td data-label="Time" class="num"><${Took} t=${t} /></td></tr>`)}</tbody></table>` : html`<${Empty}>The plan is being made.<//>`}`}
  <//>`;
}

export function RunTask({ id, task }) {
  const { data: r, error, reload } = useRun(id);
  const t = r?.tasks?.find((x) => x.id === task);
  const diff = useLoad(t ? runPath(id, `/tasks/${encodeURIComponent(task)}/diff`) : null, { marks: [t?.state] });
  const [tab, setTab] = useState('log');
  const tabs = [['log', 'Log'], ['diff', `Changes${diff.data?.files?.length ? ` (${plural(diff.data.files.length, 'file')})` : ''}`]];
  return html`<${Page} name=${task} title=${t ? plain(t.title || t.id, 160) : 'Task'} side=${t && html`<${State} state=${t.state} />`}>
    <p class="crumbs"><a href="#/runs">All orchestrations</a> › <a href=${address(id)}>${plain(r?.task ?? id, 80).split('\n')[0]}</a></p>
    <${Failure} error=${error} retry=${reload} />
    ${r && !t && html`<${Empty}>There is no such task in this orchestration.<//>`}
    ${t && html`
      ${t.goal && html`<p><${T} text=${t.goal} limit=${4000} /></p>`}
      ${t.error && html`<div class="failure"><p><strong><${T} text=${t.error.message} limit=${4000} /></strong> <${T} text=${t.error.remedy} limit=${1000} /></p></div>`}
      ${t.reason && html`<p class="dim"><${T} text=${t.reason} limit=${2000} /></p>`}
      ${t.summary && html`<p class="says"><${T} text=${t.summary} limit=${4000} /></p>`}
      <div class="tabs" role="group" aria-label="Show">${tabs.map(([n, name]) => html`<button type="button" class="quiet" aria-pressed=${tab === n} onClick=${() => setTab(n)}>${name}</button>`)}</div>
      ${tab === 'log' ? (t.session ? html`<${Timeline} key=${t.session} id=${t.session} running=${t.state === 'running'} approvals=${none} fromEnd=${t.state === 'running'} />` : html`<${Empty}>It has not started.<//>`)
      : html`<${Failure} error=${diff.error} /><${Loading} when=${diff.loading} />${diff.data && (diff.data.diff ? html`<${Diff} diff=${diff.data.diff} clipped=${diff.data.clipped} lines=${400} />` : html`<${Empty}>It has changed nothing.<//>`)}`}`}
  <//>`;
}
