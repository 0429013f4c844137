// editor.format, editor.organizeImports and editor.symbols: what the editor's
// language extensions can do.
import * as vscode from 'vscode';
import { Deadline, bounded, pause } from './bounded';
import { open, save, sha256 } from './documents';
import { Fault } from './faults';

interface PathParams {
	timeoutMs: number;
	path: string;
}

interface Symbol {
	name: string;
	kind: number;
	detail: string;
	start: vscode.Position;
	end: vscode.Position;
	selectionStart: vscode.Position;
	selectionEnd: vscode.Position;
	children: Symbol[];
}

/**
 * A language's extension that has just been started has nothing to say for some
 * seconds, and VS Code does not tell that from "nobody can" or from "nothing to
 * do". So the first time that a language gets no answer is waited for long, and
 * then never again.
 */
const startMs = 8_000;
const againMs = 250;

type Feature = 'format' | 'imports' | 'symbols';

/** The languages of which it is known by now. */
const settled: Record<Feature, Set<string>> = { format: new Set(), imports: new Set(), symbols: new Set() };

// These languages have a formatter that comes with VS Code; others are
// remembered once one has shown.
const formatters = new Set(['css', 'handlebars', 'html', 'javascript', 'javascriptreact', 'json', 'jsonc', 'less', 'scss', 'typescript', 'typescriptreact']);

/** Asks until there is an answer, or none is to be expected; undefined then. */
async function ask<T>(feature: Feature, doc: vscode.TextDocument, time: Deadline, signal: AbortSignal, call: () => Thenable<T | undefined>): Promise<T | undefined> {
	const patience = new Deadline(Math.min(startMs, time.left));
	for (;;) {
		const answer = await bounded('the language’s extension', time.left, call(), signal);
		if (answer !== undefined) {
			settled[feature].add(doc.languageId);
			return answer;
		}
		if (patience.left <= againMs || settled[feature].has(doc.languageId) || doc.languageId === 'plaintext') {
			settled[feature].add(doc.languageId);
			return undefined;
		}
		await pause(againMs, signal);
	}
}

/** A list that is empty is no answer. */
function some<T>(list: T[] | undefined): T[] | undefined {
	return list && list.length > 0 ? list : undefined;
}

export async function format(p: PathParams, signal: AbortSignal): Promise<object> {
	const time = new Deadline(p.timeoutMs);
	const doc = await open(p.path, time.left, signal);
	const editor = vscode.workspace.getConfiguration('editor', doc);
	const options = { tabSize: editor.get<number>('tabSize', 4), insertSpaces: editor.get<boolean>('insertSpaces', true) };
	const before = doc.getText();
	const edits =
		(await ask('format', doc, time, signal, async () =>
			some(await vscode.commands.executeCommand<vscode.TextEdit[] | undefined>('vscode.executeFormatDocumentProvider', doc.uri, options)),
		)) ?? [];
	if (edits.length > 0) {
		formatters.add(doc.languageId);
	} else if (!formatters.has(doc.languageId) && !editor.get<string | null>('defaultFormatter')) {
		throw new Fault('no_provider', `no extension of the editor formats ${doc.languageId}`);
	}
	const edit = new vscode.WorkspaceEdit();
	edit.set(doc.uri, edits);
	return await rewrite(doc, before, edits.length > 0 ? edit : undefined, time, signal);
}

export async function organizeImports(p: PathParams, signal: AbortSignal): Promise<object> {
	const time = new Deadline(p.timeoutMs);
	const doc = await open(p.path, time.left, signal);
	const before = doc.getText();
	const kind = vscode.CodeActionKind.SourceOrganizeImports;
	const action = await ask('imports', doc, time, signal, async () => {
		const actions = await vscode.commands.executeCommand<vscode.CodeAction[] | undefined>('vscode.executeCodeActionProvider', doc.uri, everything(doc), kind.value, 1);
		return actions?.find((a) => a.kind && kind.contains(a.kind));
	});
	if (!action) {
		throw new Fault('no_provider', `no extension of the editor organises the imports of ${doc.languageId}`);
	}
	const result = await rewrite(doc, before, action.edit, time, signal);
	if (!action.command) {
		return result;
	}
	// Some do their work in the edit, some in a command, some in both.
	await bounded('the code action', time.left, vscode.commands.executeCommand(action.command.command, ...(action.command.arguments ?? [])), signal);
	return await rewrite(doc, before, undefined, time, signal);
}

async function rewrite(doc: vscode.TextDocument, before: string, edit: vscode.WorkspaceEdit | undefined, time: Deadline, signal: AbortSignal): Promise<object> {
	if (edit && !(await bounded('the edit', time.left, vscode.workspace.applyEdit(edit), signal))) {
		throw new Fault('conflict', `${doc.uri.fsPath} has changed in the editor in the meantime`);
	}
	const text = doc.getText();
	if (text !== before) {
		await save(doc, time.left, signal);
	}
	return { changed: doc.getText() !== before, sha256: sha256(doc.getText()) };
}

export async function symbols(p: PathParams, signal: AbortSignal): Promise<object> {
	const time = new Deadline(p.timeoutMs);
	const doc = await open(p.path, time.left, signal);
	const found = await ask('symbols', doc, time, signal, async () =>
		some(await vscode.commands.executeCommand<(vscode.DocumentSymbol | vscode.SymbolInformation)[] | undefined>('vscode.executeDocumentSymbolProvider', doc.uri)),
	);
	if (!found) {
		throw new Fault('no_provider', `no extension of the editor has symbols for ${p.path}`);
	}
	return { symbols: found.map(symbol) };
}

function symbol(s: vscode.DocumentSymbol | vscode.SymbolInformation): Symbol {
	const whole = 'location' in s && !('range' in s) ? s.location.range : (s as vscode.DocumentSymbol).range;
	const name = 'selectionRange' in s ? s.selectionRange : whole;
	return {
		name: s.name,
		kind: s.kind + 1, // VS Code counts from 0, the protocol from 1
		detail: 'detail' in s ? s.detail : s.containerName,
		start: whole.start,
		end: whole.end,
		selectionStart: name.start,
		selectionEnd: name.end,
		children: 'children' in s ? s.children.map(symbol) : [],
	};
}

function everything(doc: vscode.TextDocument): vscode.Range {
	return doc.validateRange(new vscode.Range(0, 0, doc.lineCount, 0));
}

export type { PathParams };
