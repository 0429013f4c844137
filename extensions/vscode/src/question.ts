// How a question of consent is shown so that all of it can be read. It knows
// nothing of VS Code.

/** What a modal dialog shows for certain: it may have no scroll bar. */
const dialogLines = 20;
const dialogColumns = 200;

/** The width that every editor has. Longer lines would have to be scrolled sideways. */
const editorColumns = 100;
const goesOn = '  ↪ ';

/** Says whether a modal dialog can show a text whole. */
export function fitsDialog(text: string): boolean {
	const lines = text.split('\n');
	return lines.length <= dialogLines && lines.every((l) => l.length <= dialogColumns);
}

/** A text as an editor shows it whole: long lines go on in the next. */
export function folded(text: string): string {
	return text
		.split('\n')
		.map((line) => {
			const all = Array.from(line); // by characters, not halves of them
			const parts: string[] = [];
			for (let i = 0; i === 0 || i < all.length; i += editorColumns) {
				parts.push(all.slice(i, i + editorColumns).join(''));
			}
			return parts.join(`\n${goesOn}`);
		})
		.join('\n');
}
