// The tool bus as an MCP server, for VS Code's own agents.
import * as vscode from 'vscode';
import type { Bridge } from './bridge';

/** The id in package.json. */
const id = 'copilot-bridge';

export function offerTools(bridge: Bridge, version: string): vscode.Disposable {
	const changes = new vscode.EventEmitter<void>();
	let last: string | undefined;
	const listener = bridge.onDidChange((s) => {
		const url = s.phase === 'on' ? s.mcp : undefined;
		if (url !== last) {
			last = url;
			changes.fire();
		}
	});
	const provider = vscode.lm.registerMcpServerDefinitionProvider(id, {
		onDidChangeMcpServerDefinitions: changes.event,
		provideMcpServerDefinitions: () => {
			const s = bridge.status;
			if (s.phase !== 'on' || !s.mcp) {
				return [];
			}
			const headers = { Authorization: `Bearer ${bridge.token}` };
			return [new vscode.McpHttpServerDefinition('Copilot Bridge', vscode.Uri.parse(s.mcp), headers, version)];
		},
	});
	return vscode.Disposable.from(provider, listener, changes);
}
