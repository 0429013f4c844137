// A session's timeline: events become blocks, and blocks are shown.
import { html, Component, Clock, span, count, money, plural, plain, clip } from './lib.js';
import { visible, Markdown, Folded, Diff, T, pretty } from './text.js';
import { Approval } from './approvals.js';

/** most is how many events a page keeps. Older ones are asked for again when they are wanted. */
export const most = 2000;
const kept = 1500;
const joinedText = 64 << 10;

const argsOf = (v) => {
  if (v && typeof v === 'object') return v;
  try { const o = JSON.parse(v); return o && typeof o === 'object' ? o : { value: o }; } catch { return v ? { text: v } : {}; }
};
const agentOf = (e) => (Array.isArray(e.agent) ? e.agent.join('/') : e.agent ?? '');

/** Model turns events into blocks. A block has a version that grows when it changes. */
export class Model {
  constructor() { this.reset([]); }

  reset(events) {
    this.events = [];
    this.blocks = [];
    this.calls = new Map();
    this.messages = new Map();
    this.questions = new Map();
    this.agents = new Set();
    this.turn = null;
    this.add(events);
  }

  add(events) { for (const e of events) this.#one(e); }

  /** end is the offset behind the last event. */
  get end() { const e = this.events.at(-1); return e.end ?? e.id; }

  /** dropOldest keeps the number of events bounded. It returns where the first one that is left begins, or null if none went. */
  dropOldest() {
    if (this.events.length <= most) return null;
    const gone = this.events[this.events.length - kept - 1];
    this.reset(this.events.slice(-kept));
    return gone.end ?? gone.id;
  }

  /** dropNewest does so at the other end, and reports whether any went. */
  dropNewest() {
    if (this.events.length <= most) return false;
    this.reset(this.events.slice(0, kept));
    return true;
  }

  #block(e, kind, fields) {
    const b = { key: e.id, kind, at: e.at, agent: agentOf(e), v: 0, ...fields };
    this.blocks.push(b);
    if (b.agent) this.agents.add(b.agent);
    return b;
  }

  #one(e) {
    // A message goes on where it began, even if its last piece comes behind something else.
    const before = this.events.at(-1), last = (e.type === 'text' && this.messages.get(e.message)) || this.blocks.at(-1);
    const joins = (e.type === 'text' || e.type === 'reasoning') && last?.kind === e.type && last.agent === agentOf(e) && (e.type === 'reasoning' || last.message === e.message);
    if (joins && before?.type === e.type && before.message === e.message && agentOf(before) === agentOf(e) && before.text.length + e.text.length < joinedText) this.events[this.events.length - 1] = { ...before, end: e.id, text: before.text + e.text };
    else this.events.push(e);
    if (joins) {
      last.text += e.text;
      last.clipped = e.clipped;
      last.v++;
      return;
    }
    switch (e.type) {
      case 'text': this.messages.set(e.message, this.#block(e, 'text', { message: e.message, text: e.text ?? '', clipped: e.clipped })); break;
      case 'reasoning': this.#block(e, 'reasoning', { text: e.text ?? '' }); break;
      case 'retract': this.messages.delete(e.message); this.blocks = this.blocks.filter((b) => b.kind !== 'text' || b.message !== e.message); break;
      case 'tool': {
        const b = this.calls.get(e.call) ?? this.#block(e, 'tool', {});
        Object.assign(b, { call: e.call, name: e.name, args: argsOf(e.args), server: e.server, agent: agentOf(e), at: e.at });
        if (b.agent) this.agents.add(b.agent);
        b.v++;
        this.calls.set(e.call, b);
        break;
      }
      case 'progress': {
        const b = this.calls.get(e.call);
        if (b) { b.output = ((b.output ?? '') + (e.text ?? '')).slice(-joinedText); b.v++; }
        break;
      }
      case 'result': {
        const b = this.calls.get(e.call) ?? this.#block(e, 'tool', { call: e.call, name: e.name ?? 'a tool', args: {} });
        this.calls.set(e.call, b);
        Object.assign(b, { result: e });
        b.v++;
        break;
      }
      case 'verdict': {
        let b = e.call && this.calls.get(e.call);
        if (!b) {
          b = this.#block(e, 'tool', { call: e.call, name: e.tool, args: {} });
          if (e.call) this.calls.set(e.call, b);
        }
        b.verdicts = [...(b.verdicts ?? []), e];
        b.v++;
        break;
      }
      case 'question': this.questions.set(e.question, this.#block(e, 'question', { question: e })); break;
      case 'answered': {
        const b = this.questions.get(e.question);
        if (b) { b.answered = e; b.v++; } else this.#block(e, 'answered', { answered: e });
        break;
      }
      case 'turn':
      case 'prompt': case 'diff': case 'usage': case 'plan': case 'mode': case 'notice': case 'error': case 'end': case 'closed': case 'gap': case 'full':
        this.#block(e, e.type, { event: e });
        break;
      default: // of a newer bridge
    }
  }
}

const verdictWords = (v) => {
  const who = { policy: 'the policy', person: 'a person', session: 'an answer for this session', nobody: '' }[v.by] ?? v.by;
  return [`${v.verdict === 'deny' ? 'Denied' : 'Allowed'}${who ? ` by ${who}` : ''}${v.who ? ` (${v.who})` : ''}`, v.rule && `rule ${v.rule}`, v.reason, v.confined && v.verdict !== 'deny' && 'sandboxed', v.grant && `also ${v.grant}`].filter(Boolean).join(' · ');
};

/** gist is the one argument that says most about a call. */
const gist = (a) => {
  for (const k of ['command', 'path', 'file_path', 'filePath', 'url', 'pattern', 'query', 'description', 'intent']) if (typeof a?.[k] === 'string') return a[k];
  return '';
};

function Tool({ b, running }) {
  const r = b.result, args = b.args ?? {}, command = typeof args.command === 'string' ? args.command : '';
  const rest = Object.entries(args).filter(([k]) => k !== 'command');
  const denied = b.verdicts?.some((v) => v.verdict === 'deny');
  const output = r ? r.text || '' : b.output;
  const status = r ? (r.ok ? 'ok' : denied ? 'denied' : 'failed') : running ? (b.verdicts?.length ? 'runs' : 'waits') : '';
  return html`<div class=${`tool ${status}`}>
    <div class="tool-head"><span class="tool-name">${b.server && html`<span class="dim">${visible(plain(b.server, 60))} / </span>`}${visible(plain(b.name, 80))}</span>
      ${!command && html`<span class="gist t">${plain(gist(args), 160)}</span>`}
      <span class="tool-state">${status}${r?.ms > 0 && ` · ${span(r.ms)}`}</span></div>
    ${command && html`<pre class="command t" tabindex="0" role="group" aria-label="Command">${visible(clip(command, 20000))}</pre>`}
    ${b.verdicts?.map((v) => html`<p class=${v.verdict === 'deny' ? 'verdict deny' : 'verdict'}><${T} text=${verdictWords(v)} limit=${1000} /></p>`)}
    ${rest.length > 0 && html`<details class="args"><summary>Arguments</summary><${Folded} text=${pretty(Object.fromEntries(rest))} label="Arguments" lines=${30} /></details>`}
    ${r?.error && !b.verdicts?.some((v) => v.reason && r.error.includes(v.reason)) && html`<p class="bad"><${T} text=${(r.code ? `${r.code}: ` : '') + r.error} limit=${4000} /></p>`}
    ${output && html`<${Folded} text=${output} label="Output" clipped=${r?.clipped} />`}
  </div>`;
}

const usageWords = (u) => u && [u.model, `${count(u.input_tokens)} in`, `${count(u.output_tokens)} out`, u.cost > 0 && `cost ${money(u.cost)}`, u.premium_requests > 0 && `${money(u.premium_requests)} premium`, u.first_word_ms > 0 && `first word ${span(u.first_word_ms)}`].filter(Boolean).join(' · ');
const endWords = { done: 'Turn done', aborted: 'Turn stopped', failed: 'Turn failed', partial: 'Turn done in part', tool_calls: 'Waits for the client’s tools' };
const planMarks = { completed: '✓', in_progress: '▸', pending: '·' };

function content(b, context) {
  const e = b.event;
  switch (b.kind) {
    case 'prompt': return html`<div class="prompt"><h2 class="label">${e.by && e.by !== 'client' ? `Prompt from ${plain(e.by, 60)}` : 'Prompt'}</h2><${Folded} text=${e.text} lines=${30} label="Prompt" clipped=${e.clipped} /></div>`;
    case 'text': return html`<${Markdown} text=${b.text} />${b.clipped > 0 && html`<p class="dim small">Only a part was kept.</p>`}`;
    case 'reasoning': return html`<details class="reasoning"><summary>Reasoning <span class="dim">${plain(b.text, 400).trim().split('\n').at(-1).slice(0, 90)}</span></summary><${Markdown} text=${b.text} /></details>`;
    case 'tool': return html`<${Tool} b=${b} running=${context.running} />`;
    case 'question': {
      const open = context.approvals.find((q) => q.id === b.question.question || q.request === b.question.question);
      if (open && !b.answered) return html`<${Approval} q=${open} inline />`;
      return html`<p class="asked"><strong>Asked:</strong> <${T} text=${b.question.lead} limit=${1000} />${b.answered ? html` <span class="answer">${answerWords(b.answered)}</span>` : html` <span class="dim">no longer open</span>`}</p>`;
    }
    case 'answered': return html`<p class="asked">Answered: ${answerWords(b.answered)}</p>`;
    case 'diff': return html`<div class="change"><p><span class="label">${{ add: 'New file', delete: 'Deleted', edit: 'Changed' }[e.change] ?? 'Changed'}</span> <code class="t">${visible(plain(e.path, 400))}</code></p>${e.diff && html`<${Diff} diff=${e.diff} clipped=${e.clipped} label=${`Changes of ${plain(e.path, 100)}`} />`}</div>`;
    case 'usage': return html`<p class="meta">${plain(usageWords(e))}</p>`;
    case 'plan': return html`<div class="plan"><h2 class="label">Plan</h2>${e.entries?.length ? html`<ul>${e.entries.map((p) => html`<li class=${p.status}><span aria-hidden="true">${planMarks[p.status] ?? '·'}</span> <${T} text=${p.text} limit=${2000} /><span class="unseen"> (${p.status})</span></li>`)}</ul>` : html`<${Markdown} text=${e.text ?? ''} />`}</div>`;
    case 'mode': return html`<p class="meta">Mode: ${plain(e.mode, 60)}</p>`;
    case 'notice': return html`<p class=${`notice ${e.level === 'warning' || e.level === 'error' ? e.level : ''}`}><${T} text=${e.text} limit=${8000} /></p>`;
    case 'error': return html`<div class="failure"><p><strong><${T} text=${e.message} limit=${8000} /></strong> <${T} text=${e.remedy} limit=${2000} /> ${e.code && html`<span class="dim">(${plain(e.code, 60)})</span>`}</p></div>`;
    case 'turn': return html`<p class="turn"><span>Turn ${e.n}</span></p>`;
    case 'end': return html`<p class=${e.reason === 'failed' ? 'end bad' : 'end'}>${endWords[e.reason] ?? `Turn ended: ${plain(e.reason, 60)}`}${e.ms > 0 && ` after ${span(e.ms)}`}${e.usage && html` <span class="dim">· ${plain(usageWords(e.usage))}</span>`}</p>`;
    case 'closed': return html`<p class="meta">The session was closed.</p>`;
    case 'gap': return html`<p class="notice warning">${plural(e.count ?? 0, 'event')} could not be recorded.</p>`;
    case 'full': return html`<p class="notice warning">The record of this session is full; what came later is not in it.</p>`;
    default: return null;
  }
}

const answers = { allow: 'allowed', once: 'allowed once', session: 'allowed for the session', always: 'allowed always', deny: 'denied', text: 'answered', decline: 'declined', cancel: 'cancelled' };
/** answerWords says how a question was answered. The reason of a permission says how far it goes: "allowed once". */
const answerWords = (a) => {
  const allowed = a.answer === 'allow', said = allowed ? plain(a.reason || 'allowed', 300) : answers[a.answer] ?? plain(a.answer, 300);
  return `${said}${a.by ? ` (${plain(a.by, 60)})` : ''}${a.reason && !allowed ? `: ${plain(a.reason, 300)}` : ''}`;
};

/** Block is shown again only when it changed, or what it looks at did. */
class Block extends Component {
  shouldComponentUpdate(next) {
    const now = this.props;
    return next.b !== now.b || next.b.v !== this.shown || next.first !== now.first || (next.b.kind === 'question' && next.context.approvals !== now.context.approvals) || (next.b.kind === 'tool' && !next.b.result && next.context.running !== now.context.running);
  }
  render({ b, first, context }) {
    this.shown = b.v;
    const depth = b.agent ? Math.min(4, b.agent.split('/').length) : 0;
    return html`<article class=${`block k-${b.kind}${depth ? ` agent depth-${depth}` : ''}`} tabindex="-1">
      ${depth > 0 && first && html`<p class="agent-name">Sub-agent ${plain(b.agent, 100)}</p>`}
      ${content(b, context)}
      <${Clock} at=${b.at} />
    </article>`;
  }
}

/** Blocks are all blocks. context has the open questions, and whether the session works. */
export const Blocks = ({ blocks, context }) => blocks.map((b, i) => html`<${Block} key=${b.key} b=${b} first=${b.agent !== (blocks[i - 1]?.agent ?? '')} context=${context} />`);
