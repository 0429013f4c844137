// The status bar: whether the bridge is on, where, and whether Copilot answers.
import * as vscode from 'vscode';
import type { Copilot, Status } from './bridge';

const chatWords: Record<Copilot, string> = { ok: 'OK', unavailable: 'Unavailable', consent_required: 'Consent needed', unknown: '…' };

export class StatusBar {
	private readonly item = vscode.window.createStatusBarItem('bridge', vscode.StatusBarAlignment.Right, 100);

	constructor() {
		this.item.name = 'Copilot Bridge';
		this.item.command = 'bridge.status';
	}

	show(s: Status): void {
		this.item.text = barText(s);
		this.item.tooltip = tooltip(s);
		const warn = s.phase === 'failed' || (s.phase === 'on' && (s.copilot === 'unavailable' || s.copilot === 'consent_required'));
		this.item.backgroundColor = warn ? new vscode.ThemeColor('statusBarItem.warningBackground') : undefined;
		if (s.phase === 'off') {
			this.item.hide();
		} else {
			this.item.show();
		}
	}

	dispose(): void {
		this.item.dispose();
	}
}

export function barText(s: Status): string {
	switch (s.phase) {
		case 'on':
			return `Bridge: ON (${s.url ? new URL(s.url).host : ''}) · Chat: ${chatWords[s.copilot]}`;
		case 'starting':
			return 'Bridge: starting';
		case 'restarting':
			return 'Bridge: restarting';
		case 'failed':
		case 'off':
			return 'Bridge: OFF';
	}
}

/** What there is to know, line by line. */
export function lines(s: Status): string[] {
	if (s.phase !== 'on') {
		return [barText(s), ...(s.why ? [s.why] : [])];
	}
	const policy = s.policy.length > 0 ? `; ${s.policy.join(', ')}` : '';
	return [
		`Copilot: ${s.copilot}${s.reason ? ` (${s.reason})` : ''}`,
		`OpenAI: ${s.url}/v1`,
		`Tool bus: ${s.rpc}`,
		`MCP: ${s.mcp}`,
		`Policy: ${s.readOnly ? 'read-only, writes are asked about' : 'writable'}${policy}`,
		`Requests: ${s.requests}`,
	];
}

function tooltip(s: Status): vscode.MarkdownString {
	const text = new vscode.MarkdownString();
	text.appendMarkdown('**Copilot Bridge**\n\n');
	for (const l of lines(s)) {
		text.appendText(l);
		text.appendMarkdown('\n\n');
	}
	return text;
}
