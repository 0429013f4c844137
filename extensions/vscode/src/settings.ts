// The settings, and what of them the bridge's process gets to see.
import * as vscode from 'vscode';

export const section = 'bridge';

export interface Settings {
	enabled: boolean;
	readOnly: boolean;
	model: string;
	historyTurns: number;
	bindAddress: string;
	port: number;
	rpcPort: number;
	token: string;
	binaryPath: string;
}

/** Reads the settings. All of them are the user's own: a workspace cannot set them. */
export function settings(): Settings {
	const c = vscode.workspace.getConfiguration(section);
	return {
		enabled: c.get('enabled', false),
		readOnly: c.get('readOnly', true),
		model: c.get('model', '').trim(),
		historyTurns: c.get('historyTurns', 3),
		bindAddress: c.get('bindAddress', '').trim() || '127.0.0.1',
		port: c.get('openai.port', 0),
		rpcPort: c.get('rpc.port', 0),
		token: c.get('token', '').trim(),
		binaryPath: c.get('binaryPath', '').trim(),
	};
}

/** The folders on this machine's disk. */
export function folders(): { name: string; path: string }[] {
	return (vscode.workspace.workspaceFolders ?? []).filter((f) => f.uri.scheme === 'file').map((f) => ({ name: f.name, path: f.uri.fsPath }));
}

export function commandLine(s: Settings): string[] {
	const args = ['serve', '--host', 'vscode', '--addr', s.bindAddress, '--port', String(s.port), '--rpc-port', String(s.rpcPort)];
	if (!s.readOnly && vscode.workspace.isTrusted) {
		args.push('--read-write');
	}
	if (s.model) {
		args.push('--model', s.model);
	}
	for (const f of folders()) {
		args.push('--workspace', f.path);
	}
	return args;
}

/** The token goes by the environment: a command line is visible to everybody. */
export function environment(s: Settings, token: string): NodeJS.ProcessEnv {
	return {
		...process.env,
		COPILOT_BRIDGE_TOKEN: token,
		COPILOT_BRIDGE_HISTORY_TURNS: String(s.historyTurns),
	};
}
