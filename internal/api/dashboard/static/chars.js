// Characters of others' text: which of them hide something, and how they are shown.

// Control characters, marks that change the direction, invisible characters, tags and
// halves of surrogate pairs. Tab and line feed are left alone.
// eslint-disable-next-line no-control-regex
export const hidden = /[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u00AD\u061C\u115F\u1160\u180E\u200B\u200E\u200F\u2028-\u202E\u2060-\u206F\u3164\uFEFF\uFFA0\uFFF9-\uFFFB]|[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]|\uDB40[\uDC00-\uDFFF]/;
export const allHidden = new RegExp(hidden.source, 'g');

export const codeOf = (c) => {
  const n = c.codePointAt(0);
  if (n === 0x1b) return 'ESC';
  return n < 0x100 ? `\\x${n.toString(16).padStart(2, '0')}` : `\\u{${n.toString(16)}}`;
};

/** longestLine is how much of one line is shown. */
const longestLine = 4000;
const most = 200000;

/** clip cuts long lines and long text. */
export function clip(text, limit = most) {
  let s = String(text ?? '');
  let cut = 0;
  if (s.length > limit) { cut = s.length - limit; s = s.slice(0, limit); }
  if (s.length > longestLine) {
    s = s.split('\n').map((l) => (l.length > longestLine ? `${l.slice(0, longestLine)}… (${(l.length - longestLine).toLocaleString('en')} more characters in this line)` : l)).join('\n');
  }
  return cut ? `${s}\n… (${cut.toLocaleString('en')} more characters)` : s;
}

/** plain is visible for attributes and titles, which hold no elements. */
export const plain = (text, limit = 300) => clip(text, limit).replace(allHidden, (c) => codeOf(c));

