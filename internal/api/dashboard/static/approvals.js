// Questions that wait for a person: may a tool do this, and what the agent wants to know.
import { html, useState, useRef, useEffect, api, useAction, useNow, Page, Dialog, clip, Failure, Empty, Copy, span, plain, say, timeOf } from './lib.js';
import { useLive, answeredHere, canNotify, askToNotify, note } from './live.js';
import { visible, Diff, Folded, T, Link } from './text.js';
import { doorName, shortDir } from './sessions.js';

const labels = { once: 'Allow once', session: 'Allow for the session', always: 'Always allow', deny: 'Deny' };

/** Left counts down to when the question is answered with no by itself. */
function Left({ until }) {
  const now = useNow(), t = timeOf(until);
  if (!t) return null;
  const ms = t - now;
  return html`<span class=${ms < 30000 ? 'left soon' : 'left'} role="timer" aria-live="off">${ms > 0 ? `${span(Math.ceil(ms / 1000) * 1000)} left` : 'timed out'}</span>`;
}

/** Entry is one field of an agent's form. */
function Entry({ id, f }) {
  const label = html`<label for=${id}>${plain(f.title || f.name, 100)}${f.required && ' (required)'}</label>`;
  const common = { id, name: f.name, 'aria-describedby': f.hint ? `${id}-hint` : null };
  return html`<p>${label}${f.choices?.length ? html`<select ...${common}>${!f.required && html`<option value=""></option>`}${f.choices.map((v) => html`<option value=${v} selected=${v === f.default}>${plain(v, 200)}</option>`)}</select>`
    : f.type === 'boolean' ? html`<input ...${common} type="checkbox" value="true" defaultChecked=${f.default === 'true'} />`
    : html`<input ...${common} type=${f.type === 'number' || f.type === 'integer' ? 'number' : 'text'} step="any" defaultValue=${f.default ?? ''} required=${f.required} />`}
    ${f.hint && html`<span class="dim small" id=${`${id}-hint`}>${plain(f.hint, 300)}</span>`}</p>`;
}

/** Ask is a question of the agent: choices, free text, or a form. */
function Ask({ q, answer, busy }) {
  const { choices = [], freeform, fields = [], url } = q.form ?? {};
  const field = useRef(null);
  const submit = (e) => {
    e.preventDefault();
    if (fields.length === 0) { answer({ answer: 'text', text: field.current?.value ?? '' }); return; }
    const data = new FormData(e.target), given = {};
    for (const f of fields) {
      const v = f.type === 'boolean' ? String(data.has(f.name)) : data.get(f.name);
      if (v) given[f.name] = v;
    }
    answer({ answer: 'text', fields: given });
  };
  const id = (name) => `ask-${q.id}-${name}`;
  const writes = fields.length === 0 && (freeform || (choices.length === 0 && !url));
  return html`
    ${url && html`<p>Open this first: <${Link} address=${url} /></p>`}
    ${choices.length > 0 && html`<div class="answers">${choices.map((c) => html`<button type="button" class="quiet" disabled=${busy} onClick=${() => answer({ answer: 'text', text: c })}>${visible(clip(c, 300))}</button>`)}</div>`}
    <form onSubmit=${submit}>
      ${fields.map((f) => html`<${Entry} key=${f.name} id=${id(f.name)} f=${f} />`)}
      ${writes && html`<label for=${id('text')} class="unseen">Your answer</label><textarea id=${id('text')} ref=${field} rows="2" placeholder="Your answer…" required></textarea>`}
      <div class="answers">${(writes || fields.length > 0 || url) && html`<button disabled=${busy}>${url ? 'Done' : 'Answer'}</button>`}<button type="button" class="quiet" disabled=${busy} onClick=${() => answer({ answer: 'decline' })}>Decline</button></div>
    </form>`;
}

/** Permission is a question of the guard. */
function Permission({ q, answer, busy }) {
  const [denying, setDenying] = useState(false);
  const reason = useRef(null);
  useEffect(() => { if (denying) reason.current.focus(); }, [denying]);
  const allowed = (q.answers?.length ? q.answers : ['once', 'deny']).filter((a) => labels[a]);
  return html`
    ${allowed.includes('always') && q.always?.length > 0 && html`<p class="small dim">“Always” writes ${q.always.length === 1 ? 'this rule' : 'these rules'} into your policy: ${q.always.map((r, i) => [i > 0 && ', ', html`<code class="t">${visible(clip(r, 500))}</code>`])}</p>`}
    ${!denying && html`<div class="answers">${allowed.filter((a) => a !== 'deny').map((a) => html`<button type="button" class=${a === 'once' ? '' : 'quiet'} disabled=${busy} onClick=${() => answer({ answer: a })}>${labels[a]}</button>`)}
      <button type="button" class="danger" disabled=${busy} onClick=${() => setDenying(true)}>Deny…</button></div>`}
    ${denying && html`<form class="deny" onSubmit=${(e) => { e.preventDefault(); answer({ answer: 'deny', reason: reason.current.value.trim() || undefined }); }} onKeyDown=${(e) => { if (e.key === 'Escape') setDenying(false); }}>
      <label for=${`why-${q.id}`}>Why (the agent is told; may be empty)</label><input id=${`why-${q.id}`} ref=${reason} maxlength="1000" autocomplete="off" />
      <div class="answers"><button class="danger" disabled=${busy}>Deny</button><button type="button" class="quiet" onClick=${() => setDenying(false)}>Back</button></div></form>`}`;
}

/** PhoneLink makes an address that answers this one question, once, without a login. */
function PhoneLink({ q }) {
  const [link, setLink] = useState(null);
  const [make, state] = useAction(async () => setLink(await api(`/approvals/${encodeURIComponent(q.id)}/link`, {})));
  return html`<button type="button" class="small quiet" onClick=${() => state.busy || make()}>Link for a phone</button>
    <${Failure} error=${state.error} />
    ${link && html`<${Dialog} title="Link for a phone" onClose=${() => setLink(null)}>
      <p>Who opens this address sees the question and can answer it, once, without a login. It works until ${timeOf(link.expires)?.toLocaleTimeString()}.</p>
      <pre class="t" tabindex="0" role="group" aria-label="Address">${link.url}</pre>
      <p class="small dim">The bridge listens on this machine only. A phone reaches it through a tunnel of yours, such as <code>ssh -L</code>.</p>
      <form method="dialog" class="answers"><${Copy} text=${link.url} label="Copy the address" /><button>Close</button></form><//>`}`;
}

/** without takes out of a text what is shown beside it. */
const without = (text, part) => (part ? text.replace(part, () => '') : text);

/** Approval is one question with its answers. */
export function Approval({ q, inline }) {
  const [answer, state] = useAction(async (reply) => {
    answeredHere.add(q.id);
    try {
      await api(`/approvals/${encodeURIComponent(q.id)}`, reply);
      say(reply.answer === 'deny' ? 'Denied' : 'Answered');
      document.querySelector('main h1')?.focus({ preventScroll: true }); // the button goes away
    } catch (e) {
      if (e.status === 409 || e.status === 410) { note(e.message); return; }
      answeredHere.delete(q.id);
      throw e;
    }
  });
  const asks = Boolean(q.form);
  const path = (q.agents ?? []).map((a) => plain(a, 60));
  const Heading = inline ? 'h3' : 'h2';
  const lead = q.command && q.lead?.endsWith(`: ${q.command}`) ? q.lead.slice(0, -q.command.length - 2) : q.lead;
  const body = without(without(q.body ?? '', q.command), q.diff).trim();
  const untold = (part) => part && !body.includes(part);
  return html`<section class="approval" aria-labelledby=${`q-${q.id}`}>
    <header><${Heading} id=${`q-${q.id}`} class="t">${visible(clip(lead || q.tool || 'A question', 600))}</${Heading}><${Left} until=${q.until} /></header>
    ${!inline && html`<p class="who"><a href=${'#/sessions/' + encodeURIComponent(q.session)}>${plain(q.client || q.who || 'The session', 80)}</a>${[doorName(q.door), ...path].filter(Boolean).map((p) => html` <span aria-hidden="true">›</span> <span class="t">${p}</span>`)}${q.dir && html` <span class="dim">in <span class="t" title=${plain(q.dir)}>${plain(shortDir(q.dir), 100)}</span></span>`}</p>`}
    ${inline && path.length > 0 && html`<p class="who">Sub-agent ${path.join(' › ')}</p>`}
    ${q.command && html`<pre class="command t" tabindex="0" role="group" aria-label="Command">${visible(clip(q.command, 60000))}</pre>`}
    ${q.diff && html`<${Diff} diff=${q.diff} lines=${200} />`}
    ${body && html`<div class="details"><${Folded} text=${body} lines=${20} label="Details" /></div>`}
    ${q.paths?.filter(untold).map((p) => html`<p class="small">Path <code class="t">${visible(clip(p, 500))}</code></p>`)}
    ${q.urls?.filter(untold).map((u) => html`<p class="small">Address <code class="t">${visible(clip(u, 500))}</code></p>`)}
    ${untold(q.says) && html`<p class="says small"><span class="dim">The agent says:</span> <${T} text=${q.says} limit=${4000} /></p>`}
    ${untold(q.reason) && html`<p class="small dim"><${T} text=${q.reason} limit=${2000} /></p>`}
    ${q.rule && html`<p class="small dim">Rule <code class="t">${visible(clip(q.rule, 500))}</code></p>`}
    <${Failure} error=${state.error} />
    ${asks ? html`<${Ask} q=${q} answer=${answer} busy=${state.busy} />` : html`<${Permission} q=${q} answer=${answer} busy=${state.busy} />`}
    <footer>${!asks && html`<${PhoneLink} q=${q} />`}</footer>
  </section>`;
}

export function Approvals() {
  const live = useLive();
  const permission = canNotify() ? Notification.permission : 'denied';
  return html`<${Page} title="Approvals" side=${permission === 'default' && html`<button type="button" class="small quiet" onClick=${askToNotify}>Notify me in this browser</button>`}>
    ${live.approvals.length === 0 ? html`<${Empty}>${live.known ? 'No question waits. What the policy asks a person about appears here, from every session of this machine.' : 'Loading…'}<//>`
    : html`<div class="inbox">${live.approvals.map((q) => html`<${Approval} key=${q.id} q=${q} />`)}</div>`}
  <//>`;
}
