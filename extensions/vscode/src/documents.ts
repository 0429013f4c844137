// editor.documents: what is open and not saved; and documents by path, for
// whoever changes them.
import { createHash } from 'node:crypto';
import * as vscode from 'vscode';
import { bounded } from './bounded';
import { Fault, textOf } from './faults';

/**
 * Documents numbers the texts of documents. VS Code counts versions from 1
 * again when a document is closed and opened, so that the same number may mean
 * two texts; the numbers given out here never do, as long as the window lives.
 */
export class Documents {
	private readonly opened = new Map<string, number>();
	private times = 0;
	private readonly listener = vscode.workspace.onDidOpenTextDocument((d) => {
		if (d.uri.scheme === 'file') {
			this.opened.set(d.uri.fsPath, ++this.times);
		}
	});

	/** All that is not saved in the window's folders; texts that are known are left out. */
	dirty(known: Record<string, number>): object {
		const dirty = vscode.workspace.textDocuments
			.filter((d) => d.isDirty && d.uri.scheme === 'file' && vscode.workspace.getWorkspaceFolder(d.uri))
			.map((d) => {
				const path = d.uri.fsPath;
				const version = (this.opened.get(path) ?? 0) * 1e9 + d.version;
				return {
					path,
					version,
					languageId: d.languageId,
					eol: d.eol === vscode.EndOfLine.CRLF ? '\r\n' : '\n',
					...(known[path] !== version && { text: d.getText() }),
				};
			});
		return { dirty };
	}

	dispose(): void {
		this.listener.dispose();
	}
}

/** Opens a document without showing it. A path outside the folders is refused. */
export async function open(path: string, withinMs: number, signal: AbortSignal): Promise<vscode.TextDocument> {
	const uri = inside(path);
	try {
		return await bounded(`opening ${path}`, withinMs, vscode.workspace.openTextDocument(uri), signal);
	} catch (e) {
		if (e instanceof Fault) {
			throw e;
		}
		throw new Fault((await exists(uri, withinMs, signal)) ? 'unsupported' : 'not_found', `${path} cannot be opened as text: ${textOf(e)}`);
	}
}

/** The bridge checks paths itself; this holds even if it did not. */
export function inside(path: string): vscode.Uri {
	const uri = vscode.Uri.file(path);
	if (!vscode.workspace.getWorkspaceFolder(uri)) {
		throw new Fault('denied', `${path} is outside the folders of this window`);
	}
	return uri;
}

export async function exists(uri: vscode.Uri, withinMs: number, signal: AbortSignal): Promise<boolean> {
	try {
		await bounded('looking at a file', withinMs, vscode.workspace.fs.stat(uri), signal);
		return true;
	} catch (e) {
		if (e instanceof Fault) {
			throw e;
		}
		return false;
	}
}

export async function save(doc: vscode.TextDocument, withinMs: number, signal: AbortSignal): Promise<void> {
	if (doc.isDirty && !(await bounded(`saving ${doc.uri.fsPath}`, withinMs, doc.save(), signal))) {
		throw new Fault('conflict', `${doc.uri.fsPath} was changed but could not be saved`);
	}
}

export function sha256(text: string | Uint8Array): string {
	return createHash('sha256').update(text).digest('hex');
}
