// Text of models, tools and files, shown as what it is: nothing is ever parsed as
// HTML, characters that hide or reorder text are shown by their codes, and what is
// very long is cut with a note that says so.
import { html, useState, useMemo, Component, Copy, plural, size, hidden, allHidden, codeOf, clip, plain } from './lib.js';

// eslint-disable-next-line no-control-regex
const colours = /\u001b\[[0-9;:]*m/g;

/** visible returns text as children of an element, with what is hidden made visible. */
export function visible(text) {
  let s = String(text ?? '').replaceAll('\r\n', '\n');
  if (!hidden.test(s)) return s;
  const out = [];
  let at = 0, n = 0;
  for (const m of s.matchAll(allHidden)) {
    if (m.index > at) out.push(s.slice(at, m.index));
    at = m.index + m[0].length;
    if (++n > 2000) { out.push(`… (the rest, ${(s.length - at).toLocaleString('en')} characters, holds too many control characters)`); return out; }
    out.push(html`<span class="hidden-char">${codeOf(m[0])}</span>`);
  }
  if (at < s.length) out.push(s.slice(at));
  return out;
}
export const T = ({ text, limit }) => html`<span class="t">${visible(clip(text, limit))}</span>`;

/** Folded is output: its first lines, and the rest on request. */
export function Folded({ text, lines = 12, label, clipped }) {
  const [open, set] = useState(false);
  const s = String(text ?? '').replace(colours, '').replace(/\r+\n?/g, '\n').replace(/\n+$/, ''); // a progress bar's states, one below the other
  const first = useMemo(() => {
    let end = 0;
    for (let i = 0; i < lines; i++) { const n = s.indexOf('\n', end); if (n < 0) { end = s.length; break; } end = n + 1; }
    return s.slice(0, Math.min(end, 2400));
  }, [s, lines]);
  const more = first.length < s.length;
  const total = more ? s.split('\n').length : 0;
  return html`<div class="folded">
    <pre class="t" tabindex="0" role="group" aria-label=${label}>${visible(clip(open ? s : first.replace(/\n$/, '')))}</pre>
    ${more && html`<button type="button" class="small quiet" aria-expanded=${open} onClick=${() => set(!open)}>${open ? 'Show less' : `Show all (${total > lines ? plural(total, 'line') : size(s.length)})`}</button>`}
    ${clipped > 0 && html`<p class="dim small">Only a part was kept, of ${size(clipped)}.</p>`}
  </div>`;
}

/** Diff shows a unified diff. */
export function Diff({ diff, label = 'Changes', clipped, lines = 60 }) {
  const [open, set] = useState(false);
  const all = useMemo(() => String(diff ?? '').replace(/\n$/, '').split('\n'), [diff]);
  const shown = open ? all.slice(0, 4000) : all.slice(0, lines);
  return html`<div class="folded">
    <pre class="diff t" tabindex="0" role="group" aria-label=${label}>${shown.map((line) => {
      const kind = /^(\+\+\+|---|diff |index |new file|deleted file|rename |similarity )/.test(line) ? 'meta' : line[0] === '+' ? 'add' : line[0] === '-' ? 'del' : line.startsWith('@@') ? 'hunk' : '';
      return html`<span class=${kind}>${visible(clip(line))}${'\n'}</span>`;
    })}</pre>
    ${all.length > lines && html`<button type="button" class="small quiet" aria-expanded=${open} onClick=${() => set(!open)}>${open ? 'Show less' : `Show all (${plural(all.length, 'line')})`}</button>`}
    ${open && all.length > 4000 && html`<p class="dim small">Only the first 4000 lines are shown.</p>`}
    ${clipped > 0 && html`<p class="dim small">Only a part was kept, of ${size(clipped)}.</p>`}
  </div>`;
}

/** Link shows the address that it leads to; only http(s) becomes a link. */
export function Link({ label, address }) {
  let url = null;
  if (!hidden.test(address)) {
    try { url = new URL(address); } catch { /* no address: shown as text */ }
  }
  if (!url || (url.protocol !== 'https:' && url.protocol !== 'http:')) return html`<span class="t">${label ? ['[', visible(label), '](', visible(address), ')'] : visible(address)}</span>`;
  const link = html`<a class="t" href=${url.href} target="_blank" rel="noopener noreferrer nofollow">${visible(clip(url.href, 500))}</a>`;
  return label && label !== address ? html`<span class="t">${visible(label)} (${link})</span>` : link;
}

const inlineParts = /(`+)([^`]|[^`][^]*?[^`])\1(?!`)|\*\*(?=\S)([^*]+?)\*\*|(?<![\w*])\*(?=[^\s*])([^*\n]+?)\*(?![\w*])|(?<![\w_])_(?=[^\s_])([^_\n]+?)_(?![\w_])|!?\[([^\]\n]{0,300})\]\(([^()\s]{1,2000})\)|(https?:\/\/[^\s<>"'`)\]]{1,2000})/g;

/** inline marks code, bold, italic and links in a text. Very long paragraphs stay plain: the search is quadratic at worst. */
function inline(s) {
  if (s.length > 5000) return visible(s);
  const out = [];
  let at = 0;
  for (const m of s.matchAll(inlineParts)) {
    if (m.index > at) out.push(visible(s.slice(at, m.index)));
    at = m.index + m[0].length;
    if (m[2] !== undefined) out.push(html`<code class="t">${visible(m[2])}</code>`);
    else if (m[3] !== undefined) out.push(html`<strong class="t">${visible(m[3])}</strong>`);
    else if (m[4] !== undefined || m[5] !== undefined) out.push(html`<em class="t">${visible(m[4] ?? m[5])}</em>`);
    else if (m[7] !== undefined) out.push(html`<${Link} label=${m[6]} address=${m[7]} />`);
    else {
      const address = m[8].replace(/[.,;:!?*]+$/, '');
      out.push(html`<${Link} address=${address} />`, m[8].slice(address.length));
    }
  }
  if (at < s.length) out.push(visible(s.slice(at)));
  return out;
}

/** segments cuts markdown at blank lines, but not within code. */
export function segments(text) {
  const out = [];
  let now = [], fence = '';
  const end = () => { if (now.length) out.push(now.join('\n')); now = []; };
  for (const line of text.split('\n')) {
    const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1];
    if (fence) {
      now.push(line);
      if (mark && mark[0] === fence[0] && mark.length >= fence.length && line.trim() === mark) { fence = ''; end(); }
    } else if (mark) {
      end();
      fence = mark;
      now.push(line);
    } else if (line.trim() === '') end();
    else {
      if (/^#{1,6} /.test(line)) end();
      now.push(line);
      if (/^#{1,6} /.test(line)) end();
    }
  }
  end();
  return out;
}

const item = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;

function block(s) {
  const lines = s.split('\n');
  const fence = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]{0,30})/.exec(lines[0]);
  if (fence) {
    const closed = lines.length > 1 && lines.at(-1).trim() === fence[1];
    const code = lines.slice(1, closed ? -1 : undefined).join('\n');
    if (fence[2] === 'diff' || fence[2] === 'patch') return html`<${Diff} diff=${code} label="Code: diff" />`;
    return html`<div class="code"><pre class="t" tabindex="0" role="group" aria-label=${fence[2] ? `Code: ${fence[2]}` : 'Code'}>${visible(clip(code, 60000))}</pre><${Copy} text=${code} /></div>`;
  }
  const heading = /^(#{1,6}) (.*)$/.exec(lines[0]);
  if (heading) return html`<p class="t md-h${heading[1].length < 3 ? ' md-h1' : ''}">${inline(heading[2])}</p>`;
  if (lines.length === 1 && /^ {0,3}([-*_])( *\1){2,} *$/.test(s)) return html`<hr />`;
  if (lines.every((l) => l.startsWith('>'))) return html`<blockquote class="t">${inline(lines.map((l) => l.replace(/^> ?/, '')).join('\n'))}</blockquote>`;
  if (lines.length > 1 && lines[0].includes('|') && /^[\s|:-]+$/.test(lines[1]) && lines[1].includes('-')) {
    const cells = (l) => l.trim().replace(/^\||\|$/g, '').split('|');
    return html`<div class="scroll" tabindex="0" role="group" aria-label="Table"><table><thead><tr>${cells(lines[0]).map((c) => html`<th scope="col">${inline(c.trim())}</th>`)}</tr></thead><tbody>${lines.slice(2, 300).map((l) => html`<tr>${cells(l).map((c) => html`<td>${inline(c.trim())}</td>`)}</tr>`)}</tbody></table></div>`;
  }
  if (item.test(lines[0])) {
    const items = [];
    for (const l of lines) {
      const m = item.exec(l);
      if (m) items.push({ depth: Math.min(4, Math.floor(m[1].length / 2)), mark: /\d/.test(m[2]) ? m[2] : '•', text: m[3] });
      else items.at(-1).text += '\n' + l.trim();
    }
    return html`<ul class="md-list">${items.map((i) => html`<li class=${`d${i.depth}`}><span class="mark">${i.mark}</span><span class="t">${inline(i.text)}</span></li>`)}</ul>`;
  }
  return html`<p class="t">${inline(s)}</p>`;
}

/** Segment is made again only when its text changes: a growing answer changes its last one. */
class Segment extends Component {
  shouldComponentUpdate(next) { return next.text !== this.props.text; }
  render({ text }) { return block(text); }
}
export const Markdown = ({ text }) => html`<div class="md">${segments(clip(text)).map((s, i) => html`<${Segment} key=${i} text=${s} />`)}</div>`;

/** pretty shows arguments of tools. */
export const pretty = (value) => {
  if (typeof value !== 'string') return JSON.stringify(value, null, 2);
  try { return JSON.stringify(JSON.parse(value), null, 2); } catch { return value; }
};
