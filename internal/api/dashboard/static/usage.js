// Usage over time, as bars and as a table.
import { html, useState, useLoad, query, Page, Failure, Empty, Loading, count, money, span, plain } from './lib.js';
import { doorName } from './sessions.js';

const ranges = [['24h', '24 hours'], ['7d', '7 days'], ['30d', '30 days']];
const total = (b) => (b.input_tokens ?? 0) + (b.output_tokens ?? 0);
const measures = {
  tokens: ['Tokens', total, count], turns: ['Turns', (b) => b.turns ?? 0, count], cost: ['Cost', (b) => b.cost ?? 0, money],
  premium: ['Premium requests', (b) => b.premium_requests ?? 0, money], credits: ['AI credits', (b) => b.ai_credits ?? 0, money],
  first: ['First word', (b) => b.first_word_ms ?? 0, span],
};
const size = { w: 900, h: 220, left: 56, bottom: 24, top: 10 };

/** Bars are stacked by model or door; times to the first word do not add up, so they stand side by side. */
function Bars({ buckets, measure, by, since, hourly }) {
  const [, value, show] = measures[measure];
  const keys = [...new Set(buckets.map((b) => b[by] || 'other'))].sort();
  const times = [...new Set(buckets.map((b) => b.at))].sort();
  const cell = (at, key) => {
    const these = buckets.filter((b) => b.at === at && (b[by] || 'other') === key);
    if (measure !== 'first') return these.reduce((n, b) => n + value(b), 0);
    const turns = these.reduce((n, b) => n + (value(b) ? b.turns || 1 : 0), 0);
    return turns ? these.reduce((n, b) => n + value(b) * (b.turns || 1), 0) / turns : 0;
  };
  const step = hourly ? 3600e3 : 86400e3;
  const begin = Math.floor(Date.parse(since) / step) * step, slots = Math.floor((Date.now() - begin) / step) + 1; // in UTC, as the buckets are
  const top = Math.max(...times.map((at) => (measure === 'first' ? Math.max(...keys.map((k) => cell(at, k))) : keys.reduce((n, k) => n + cell(at, k), 0))), 0);
  if (!top) return html`<${Empty}>Nothing was measured in this time.<//>`;
  const inner = size.h - size.top - size.bottom, w = (size.w - size.left) / slots;
  const x = (at) => size.left + Math.floor((Date.parse(at) - begin) / step) * w;
  const label = (at) => new Date(at).toLocaleString([], hourly ? { hour: '2-digit', minute: '2-digit' } : { day: 'numeric', month: 'short', timeZone: 'UTC' });
  const every = Math.ceil(slots / 8);
  return html`<figure><div class="scroll" tabindex="0" role="group" aria-label="Chart"><svg class="bars" viewBox=${`0 0 ${size.w} ${size.h}`} role="img" aria-label=${`${measures[measure][0]} over time, by ${by}. The table below has the numbers.`}>
    ${[0, 0.5, 1].map((f) => html`<g><line x1=${size.left} x2=${size.w} y1=${size.top + inner * (1 - f)} y2=${size.top + inner * (1 - f)} class="grid" /><text x=${size.left - 8} y=${size.top + inner * (1 - f) + 4} class="axis end">${show(top * f)}</text></g>`)}
    ${Array.from({ length: slots }, (_, i) => i).filter((i) => i % every === 0).map((i) => html`<text x=${size.left + i * w} y=${size.h - 6} class="axis">${label(begin + i * step)}</text>`)}
    ${times.map((at) => {
      let y = size.top + inner;
      const many = measure === 'first' ? keys.filter((k) => cell(at, k)) : keys;
      return many.map((k, i) => {
        const v = cell(at, k), h = (v / top) * inner, wide = Math.max(2, w - 3);
        if (!v) return null;
        if (measure !== 'first') y -= h;
        return html`<rect class=${`c${keys.indexOf(k) % 8}`} x=${measure === 'first' ? x(at) + (i * wide) / many.length : x(at)} y=${measure === 'first' ? y - h : y} width=${measure === 'first' ? wide / many.length : wide} height=${h}><title>${`${label(at)}, ${plain(k, 60)}: ${show(v)}`}</title></rect>`;
      });
    })}
  </svg></div><figcaption class="legend">${keys.map((k, i) => html`<span><i class=${`c${i % 8}`}></i>${by === 'door' ? doorName(k) : plain(k, 60)}</span>`)}</figcaption></figure>`;
}

const Rows = ({ rows, by, name }) => html`<table class="cards"><caption>${name}</caption><thead><tr><th scope="col">${by === 'door' ? 'Door' : 'Model'}</th><th scope="col" class="num">Turns</th><th scope="col" class="num">Input</th><th scope="col" class="num">Output</th><th scope="col" class="num">Cost</th><th scope="col" class="num">Premium</th><th scope="col" class="num">First word</th></tr></thead>
  <tbody>${rows.map((r) => html`<tr><th scope="row">${by === 'door' ? doorName(r[by] ?? r.name) : plain(r[by] ?? r.name ?? 'other', 80)}</th><td data-label="Turns" class="num">${count(r.turns)}</td><td data-label="Input" class="num">${count(r.input_tokens)}</td><td data-label="Output" class="num">${count(r.output_tokens)}</td><td data-label="Cost" class="num">${money(r.cost)}</td><td data-label="Premium" class="num">${money(r.premium_requests)}</td><td data-label="First word" class="num">${r.first_word_ms > 0 ? span(r.first_word_ms) : '–'}</td></tr>`)}</tbody></table>`;

export function Usage() {
  const [since, setSince] = useState('7d');
  const [measure, setMeasure] = useState('tokens');
  const [by, setBy] = useState('model');
  const { data, error, loading, reload } = useLoad('/usage' + query({ since }), { every: 15000 });
  const t = data?.totals;
  return html`<${Page} title="Usage" side=${html`<div class="filters">
      <label>Time <select value=${since} onChange=${(e) => setSince(e.target.value)}>${ranges.map(([v, n]) => html`<option value=${v}>${n}</option>`)}</select></label>
      <label>Show <select value=${measure} onChange=${(e) => setMeasure(e.target.value)}>${Object.entries(measures).map(([v, [n]]) => html`<option value=${v}>${n}</option>`)}</select></label>
      <label>By <select value=${by} onChange=${(e) => setBy(e.target.value)}><option value="model">model</option><option value="door">door</option></select></label></div>`}>
    <${Failure} error=${error} retry=${reload} /><${Loading} when=${loading} />
    ${t && html`<dl class="figures">${Object.entries(measures).map(([, [name, value, show]]) => html`<div><dt>${name}</dt><dd>${value(t) ? show(value(t)) : '–'}</dd></div>`)}</dl>`}
    ${data && ((data.buckets ?? []).length === 0 ? html`<${Empty}>Nothing was used in this time.<//>` : html`<${Bars} buckets=${data.buckets} measure=${measure} by=${by} since=${data.since} hourly=${data.step === 'hour'} />`)}
    ${data?.rows_by?.model?.length > 0 && html`<${Rows} rows=${data.rows_by.model} by="model" name="By model" />`}
    ${data?.rows_by?.door?.length > 0 && html`<${Rows} rows=${data.rows_by.door} by="door" name="By door" />`}
  <//>`;
}
