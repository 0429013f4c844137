// ui.confirm: a question to the person at the editor.
import * as vscode from 'vscode';
import { bounded } from './bounded';

interface ConfirmParams {
	timeoutMs: number;
	title: string;
	message: string;
	detail?: string;
	actions: { id: string; label: string }[];
}

/**
 * Asks with a modal dialog. VS Code has no way to take a dialog back: when the
 * time is up or the question is withdrawn the answer is given without it, and
 * what is chosen there later counts for nothing. To close the dialog is to
 * choose the action “no”, if there is one.
 */
export async function confirm(p: ConfirmParams, signal: AbortSignal): Promise<object> {
	// The dialog comes when it comes: whoever is typing then and hits Enter has
	// pressed the first button, so that one must be the harmless one.
	const actions = [...p.actions].sort((a, b) => Number(b.id === 'no') - Number(a.id === 'no'));
	const items = actions.map((a) => ({ title: a.label, id: a.id, isCloseAffordance: a.id === 'no' }));
	const detail = [p.message, p.detail].filter((s) => s).join('\n\n');
	const asked = vscode.window.showWarningMessage(p.title, { modal: true, detail }, ...items);
	const chosen = await bounded('the question', p.timeoutMs, asked, signal);
	return { choice: chosen?.id ?? null };
}

export type { ConfirmParams };
