// editor.applyEdit: a patch as one edit of the workspace, which one undo takes
// back.
import * as vscode from 'vscode';
import { Deadline, bounded } from './bounded';
import { exists, inside, open, save, sha256 } from './documents';
import { Fault } from './faults';

interface Place {
	line: number;
	character: number;
}

interface FileChange {
	path: string;
	kind: 'change' | 'create' | 'delete' | 'rename';
	to?: string;
	sha256?: string;
	edits?: { start: Place; end: Place; text: string }[];
	text?: string;
}

interface ApplyParams {
	timeoutMs: number;
	label: string;
	files: FileChange[];
	save: boolean;
}

interface Conflict {
	path: string;
	reason: string;
}

const utf8 = ['utf8', 'utf8bom'];
const meanwhile = 'it has changed in the editor in the meantime';

/** A document as it was when it was looked at. */
interface Seen {
	path: string;
	doc: vscode.TextDocument;
	version: number;
}

/**
 * Applies the changes if every file is as the bridge believes it to be, and
 * none of them otherwise. Nothing can slip in between: what has changed here
 * since it was looked at is found just before the edit, and the edit takes the
 * versions of that moment with it, of which the window refuses older ones.
 */
export async function applyEdit(p: ApplyParams, signal: AbortSignal): Promise<object> {
	const time = new Deadline(p.timeoutMs);
	const conflicts: Conflict[] = [];
	const seen: Seen[] = [];
	const edit = new vscode.WorkspaceEdit();
	for (const f of p.files) {
		const reason = await add(edit, f, seen, time, signal);
		if (reason) {
			conflicts.push({ path: f.path, reason });
		}
	}
	for (const s of seen) {
		if (s.doc.version !== s.version || s.doc.isClosed) {
			conflicts.push({ path: s.path, reason: meanwhile });
		}
	}
	if (conflicts.length > 0) {
		return { applied: false, conflicts, files: [] };
	}
	// From the look at the versions to here nothing else can have run.
	if (!(await bounded('the edit', time.left, vscode.workspace.applyEdit(edit), signal))) {
		return { applied: false, conflicts: p.files.map((f) => ({ path: f.path, reason: `${meanwhile}, or the editor refused the edit` })), files: [] };
	}
	// What is done is done: from here on a cancellation only ends the waiting.
	const files = [];
	for (const f of p.files) {
		if (f.kind === 'delete') {
			continue;
		}
		const doc = await open(f.to ?? f.path, time.left, signal);
		if (p.save) {
			await save(doc, time.left, signal);
		}
		files.push({ path: f.to ?? f.path, sha256: sha256(doc.getText()) });
	}
	return { applied: true, conflicts: [], files };
}

/** Adds one file's change; the result says why that cannot be. */
async function add(edit: vscode.WorkspaceEdit, f: FileChange, seen: Seen[], time: Deadline, signal: AbortSignal): Promise<string | undefined> {
	const uri = inside(f.path);
	if (f.kind === 'create') {
		if (await exists(uri, time.left, signal)) {
			return 'it exists already';
		}
		edit.createFile(uri, { overwrite: false, ignoreIfExists: false, contents: Buffer.from(f.text ?? '', 'utf8') });
		return undefined;
	}
	const now = await live(f, time, signal);
	if (typeof now === 'string') {
		return now;
	}
	seen.push(now);
	if (f.kind === 'delete') {
		edit.deleteFile(uri, { ignoreIfNotExists: false });
		return undefined;
	}
	let target = uri;
	if (f.kind === 'rename') {
		target = inside(f.to ?? '');
		if (await exists(target, time.left, signal)) {
			return `${f.to} exists already`;
		}
		edit.renameFile(uri, target, { overwrite: false, ignoreIfExists: false });
	}
	for (const e of f.edits ?? []) {
		edit.replace(target, new vscode.Range(e.start.line, e.start.character, e.end.line, e.end.character), e.text);
	}
	return undefined;
}

/** The live document if it is what the bridge believes it to be, else why not. */
async function live(f: FileChange, time: Deadline, signal: AbortSignal): Promise<Seen | string> {
	let doc: vscode.TextDocument;
	try {
		doc = await open(f.path, time.left, signal);
	} catch (e) {
		if (e instanceof Fault && (e.kind === 'not_found' || e.kind === 'unsupported')) {
			return e.kind === 'not_found' ? 'there is no such file' : e.message;
		}
		throw e;
	}
	if (!utf8.includes(doc.encoding)) {
		return `the editor holds it as ${doc.encoding}, not as UTF-8`;
	}
	const text = doc.getText();
	const version = doc.version;
	// A byte-order mark is not part of the live text, but of the file.
	const whole = doc.encoding === 'utf8bom' ? `\ufeff${text}` : text;
	if (f.sha256 && f.sha256 !== sha256(text) && f.sha256 !== sha256(whole)) {
		return 'its text in the editor is not what the change was made for';
	}
	if (!doc.isDirty) {
		const bytes = await bounded(`reading ${f.path}`, time.left, vscode.workspace.fs.readFile(doc.uri), signal);
		if (sha256(bytes) !== sha256(whole)) {
			return 'the editor would not write its bytes back as they are (mixed line ends, or not UTF-8)';
		}
	}
	return { path: f.path, doc, version };
}

export type { ApplyParams };
