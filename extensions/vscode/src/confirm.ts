// ui.confirm: a question to the person at the editor.
import * as vscode from 'vscode';
import { bounded } from './bounded';
import { fitsDialog, folded } from './question';

interface ConfirmParams {
	timeoutMs: number;
	title: string;
	message: string;
	detail?: string;
	actions: { id: string; label: string }[];
}

/**
 * Asks the person, who sees all of the question: in a modal dialog, or, if it
 * is too long for one, in an editor of its own with the choices above it. To
 * close the choice is to choose the action “no”, if there is one.
 */
export async function confirm(p: ConfirmParams, signal: AbortSignal): Promise<object> {
	// The question comes when it comes: whoever is typing then and hits Enter
	// has taken the first choice, so that one must be the harmless one.
	const actions = [...p.actions].sort((a, b) => Number(b.id === 'no') - Number(a.id === 'no'));
	const text = [p.message, p.detail].filter((s) => s).join('\n\n');
	if (!fitsDialog(text)) {
		return { choice: await read(p, text, actions, signal) };
	}
	// VS Code has no way to take a dialog back: when the time is up or the
	// question is withdrawn the answer is given without it, and what is chosen
	// there later counts for nothing.
	const items = actions.map((a) => ({ title: a.label, id: a.id, isCloseAffordance: a.id === 'no' }));
	const asked = vscode.window.showWarningMessage(p.title, { modal: true, detail: text }, ...items);
	const chosen = await bounded('the question', p.timeoutMs, asked, signal);
	return { choice: chosen?.id ?? null };
}

/** The scheme of documents that hold a question. Nobody can edit or save them. */
const scheme = 'copilot-bridge-question';

const closeMs = 5_000;

let questions = 0;

/** Shows a long question in an editor, and the choices in a list that stays. */
async function read(p: ConfirmParams, text: string, actions: ConfirmParams['actions'], signal: AbortSignal): Promise<string | null> {
	const uri = vscode.Uri.from({ scheme, path: `/Consent ${++questions}` });
	const provider = vscode.workspace.registerTextDocumentContentProvider(scheme, {
		provideTextDocumentContent: (asked) => (asked.toString() === uri.toString() ? folded(text) : ''),
	});
	const pick = vscode.window.createQuickPick<vscode.QuickPickItem & { id: string }>();
	try {
		const document = await bounded('the question', p.timeoutMs, vscode.workspace.openTextDocument(uri), signal);
		await bounded('the question', p.timeoutMs, vscode.window.showTextDocument(document, { preview: false }), signal);
		pick.items = actions.map((a) => ({ label: a.label, id: a.id }));
		pick.title = `${p.title}: read the document below to its end (lines: ${document.lineCount})`;
		pick.placeholder = p.message;
		pick.ignoreFocusOut = true; // to scroll the document is no answer
		const chosen = new Promise<string | null>((resolve) => {
			pick.onDidAccept(() => resolve(pick.selectedItems[0]?.id ?? null));
			pick.onDidHide(() => resolve(null));
		});
		pick.show();
		return await bounded('the question', p.timeoutMs, chosen, signal);
	} finally {
		pick.dispose();
		provider.dispose();
		const open = vscode.window.tabGroups.all.flatMap((g) => g.tabs);
		const ours = open.filter((t) => t.input instanceof vscode.TabInputText && t.input.uri.toString() === uri.toString());
		// It has gone before the next question comes, whose list would otherwise
		// lose the focus. A tab that stays does no harm.
		await bounded('closing the question', closeMs, vscode.window.tabGroups.close(ours)).catch(() => false);
	}
}

export type { ConfirmParams };
