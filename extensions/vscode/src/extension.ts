// The extension: commands, and following the setting bridge.enabled. All the
// work is in the copilot-bridge program; see docs/guides/vscode.md.
import * as vscode from 'vscode';
import { bounded } from './bounded';
import { Bridge } from './bridge';
import { Consent } from './consent';
import { asFault, textOf } from './faults';
import { offerTools } from './mcp';
import { section, settings } from './settings';
import { StatusBar, barText, lines } from './statusbar';

const uiMs = 10_000;

/** For a click on a notification; it stays where it is. */
const clickMs = 10 * 60_000;

let running: Extension | undefined;

/** Registers, and starts the bridge if the user has it enabled; waits for nothing. */
export function activate(context: vscode.ExtensionContext): void {
	running = new Extension(context);
}

export async function deactivate(): Promise<void> {
	const e = running;
	running = undefined;
	await e?.dispose();
}

class Extension {
	private readonly log = vscode.window.createOutputChannel('Copilot Bridge', { log: true });
	private readonly consent: Consent;
	private readonly bridge: Bridge;
	private readonly subscriptions: vscode.Disposable[];

	constructor(context: vscode.ExtensionContext) {
		this.consent = new Consent(context.globalState);
		this.bridge = new Bridge(context, this.consent, this.log);
		const bar = new StatusBar();
		const command = (name: string, run: () => Promise<void>) =>
			vscode.commands.registerCommand(`bridge.${name}`, async () => {
				try {
					await run();
				} catch (e) {
					this.complain(textOf(e), asFault(e).kind);
				}
			});
		this.subscriptions = [
			bar,
			this.bridge.onDidChange((s) => bar.show(s)),
			offerTools(this.bridge, String(context.extension.packageJSON.version)),
			command('enable', () => this.enable()),
			command('disable', () => this.disable()),
			command('restart', () => this.restart()),
			command('status', () => this.status()),
			command('copyUrl', () => this.copyUrl()),
			command('showLog', async () => this.log.show()),
			vscode.workspace.onDidChangeConfiguration((e) => this.configured(e)),
			vscode.workspace.onDidGrantWorkspaceTrust(() => this.followQuietly(true)),
			this.consent,
			this.log,
		];
		this.followQuietly(false);
	}

	async dispose(): Promise<void> {
		await this.bridge.dispose();
		for (const s of this.subscriptions) {
			s.dispose();
		}
	}

	/** On, with the user there: so this is the moment to ask for consent. */
	private async enable(): Promise<void> {
		await this.setEnabled(true);
		await this.bridge.start();
		if (this.consent.given) {
			return;
		}
		try {
			await this.consent.ask();
			this.log.info('Copilot may be used');
		} catch (e) {
			const fault = asFault(e);
			this.log.warn(`the first request failed: ${fault.message}`);
			const hint = this.consent.given ? '' : ' Run “Bridge: Enable” to be asked again.';
			void vscode.window.showWarningMessage(`The bridge is on, but Copilot cannot be used: ${fault.message}.${hint}`);
		}
	}

	private async disable(): Promise<void> {
		await this.setEnabled(false);
		await this.bridge.stop();
	}

	private async restart(): Promise<void> {
		if (!settings().enabled) {
			throw new Error('The bridge is off. Run “Bridge: Enable”.');
		}
		await this.bridge.stop();
		await this.bridge.start();
	}

	private async status(): Promise<void> {
		const s = await this.bridge.refresh();
		const all = lines(s);
		for (const l of all) {
			this.log.info(l);
		}
		const on = s.phase === 'on';
		const buttons = on ? ['Copy URL', 'Show Log', 'Disable'] : ['Enable', 'Show Log'];
		const text = on ? `${barText(s)} · ${all.join(' · ')}` : s.phase === 'off' ? 'Bridge: OFF' : all.join(' · ');
		const commands: Record<string, string> = { 'Copy URL': 'copyUrl', 'Show Log': 'showLog', Disable: 'disable', Enable: 'enable' };
		this.offer(vscode.window.showInformationMessage(text, ...buttons), (chosen) => {
			void vscode.commands.executeCommand(`bridge.${commands[chosen]}`);
		});
	}

	private async copyUrl(): Promise<void> {
		const { url } = this.bridge.status;
		if (!url) {
			throw new Error('The bridge is off. Run “Bridge: Enable”.');
		}
		await bounded('the clipboard', uiMs, vscode.env.clipboard.writeText(`${url}/v1`));
		const copyToken = 'Copy Token';
		this.offer(vscode.window.showInformationMessage(`Copied ${url}/v1. Clients also need this window’s token as their API key.`, copyToken), () => {
			void vscode.env.clipboard.writeText(this.bridge.token);
		});
	}

	/** Does what the setting says, without anybody there to be told but the log. */
	private followQuietly(again: boolean): void {
		const follow = async () => {
			if (again || !settings().enabled) {
				await this.bridge.stop();
			}
			if (settings().enabled) {
				await this.bridge.start();
			}
		};
		follow().catch((e) => {
			this.log.error(textOf(e));
			this.complain(textOf(e), asFault(e).kind);
		});
	}

	private configured(e: vscode.ConfigurationChangeEvent): void {
		if (!e.affectsConfiguration(section)) {
			return;
		}
		const onlySwitched = e.affectsConfiguration(`${section}.enabled`);
		this.followQuietly(!onlySwitched);
	}

	private async setEnabled(on: boolean): Promise<void> {
		if (settings().enabled !== on) {
			const update = vscode.workspace.getConfiguration(section).update('enabled', on, vscode.ConfigurationTarget.Global);
			await bounded('the setting', uiMs, update);
		}
	}

	private complain(text: string, kind: string): void {
		const open = 'Open Settings';
		const buttons = kind === 'not_found' ? [open, 'Show Log'] : ['Show Log'];
		this.offer(vscode.window.showErrorMessage(text, ...buttons), (chosen) => {
			if (chosen === open) {
				void vscode.commands.executeCommand('workbench.action.openSettings', `${section}.binaryPath`);
			} else {
				this.log.show();
			}
		});
	}

	/** Waits for a click without holding anybody up. */
	private offer(message: Thenable<string | undefined>, chosen: (button: string) => void): void {
		bounded('a click', clickMs, message).then(
			(button) => {
				if (button) {
					chosen(button);
				}
			},
			() => undefined, // nobody has clicked
		);
	}
}
