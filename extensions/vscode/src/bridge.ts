// The bridge of this window: on or off, restarted when it dies.
import { randomBytes } from 'node:crypto';
import * as vscode from 'vscode';
import { type Binary, findBinary } from './binary';
import { Chat, type ChatParams } from './chat';
import { type ConfirmParams, confirm } from './confirm';
import type { Consent } from './consent';
import { Documents } from './documents';
import { type ApplyParams, applyEdit } from './edits';
import { Fault, asFault, textOf } from './faults';
import { type PathParams, format, organizeImports, symbols } from './language';
import { BridgeProcess, type Exit } from './process';
import type { Call } from './rpc';
import { type Settings, commandLine, environment, folders, settings } from './settings';
import { WindowWatch } from './window';

export const protocol = 1;

/** Waits before a restart; after the last one it is given up. */
const backOffMs = [500, 1_000, 2_000, 5_000, 10_000, 30_000];

/** Whoever has run that long did not die at once. */
const stableMs = 60_000;

const settleMs = 300;
const readyMs = 30_000;
const askMs = 10_000;

/** The exit code of a wrong flag or setting: starting again does not help. */
const exitUsage = 2;

export type Copilot = 'ok' | 'unavailable' | 'consent_required' | 'unknown';

export interface Status {
	phase: 'off' | 'starting' | 'on' | 'restarting' | 'failed';
	/** Why it failed or is restarted. */
	why?: string;
	url?: string;
	rpc?: string;
	mcp?: string;
	pid?: number;
	readOnly?: boolean;
	copilot: Copilot;
	reason: string;
	requests: number;
	policy: string[];
}

const off: Status = { phase: 'off', copilot: 'unknown', reason: '', requests: 0, policy: [] };

/**
 * Bridge runs at most one process. start and stop may be called at any time;
 * they are done one after another.
 */
export class Bridge {
	private readonly changes = new vscode.EventEmitter<Status>();
	readonly onDidChange = this.changes.event;
	private readonly documents = new Documents();
	private readonly chat: Chat;
	private readonly subscriptions: vscode.Disposable[];
	private now: Status = off;
	private wanted = false;
	private turn: Promise<void> = Promise.resolve();
	private process: BridgeProcess | undefined;
	private again: NodeJS.Timeout | undefined;
	private settling: NodeJS.Timeout | undefined;
	private deaths = 0;
	private readonly own = randomBytes(24).toString('base64url');

	constructor(
		private readonly extension: vscode.ExtensionContext,
		private readonly consent: Consent,
		private readonly log: vscode.LogOutputChannel,
	) {
		this.chat = new Chat(consent, new WindowWatch());
		this.subscriptions = [
			this.changes,
			this.documents,
			vscode.lm.onDidChangeChatModels(() => this.modelsChanged()),
			new vscode.Disposable(() => clearTimeout(this.settling)),
			consent.onDidChange(() => void this.consentChanged()),
			vscode.workspace.onDidChangeWorkspaceFolders(() => this.tell('editor.folders', { folders: folders() })),
		];
	}

	get status(): Status {
		return this.now;
	}

	get token(): string {
		return settings().token || this.own;
	}

	/** Starts it if it does not run; returns when it answers, or throws why not. */
	start(): Promise<void> {
		this.wanted = true;
		this.deaths = 0;
		return this.next(async () => {
			if (this.wanted && !this.process) {
				await this.launch();
			}
		});
	}

	/** Ends it; returns when nothing of it is left. */
	stop(): Promise<void> {
		this.wanted = false;
		clearTimeout(this.again);
		// What is being started need not be waited for to be ended.
		void this.process?.end();
		return this.next(async () => {
			await this.process?.end();
			this.process = undefined;
			if (!this.wanted) {
				this.set(off);
			}
		});
	}

	/** What the process says of itself, asked anew. */
	async refresh(): Promise<Status> {
		if (this.process && this.now.phase === 'on') {
			const s = (await this.process.peer.request('bridge.status', {}, askMs)) as Partial<Status>;
			this.set({ ...this.now, ...s, phase: 'on' });
		}
		return this.now;
	}

	async dispose(): Promise<void> {
		for (const s of this.subscriptions) {
			s.dispose();
		}
		await this.stop();
	}

	private next(work: () => Promise<void>): Promise<void> {
		const result = this.turn.then(work);
		this.turn = result.catch(() => undefined);
		return result;
	}

	private async launch(): Promise<void> {
		clearTimeout(this.again);
		if (this.now.phase !== 'restarting') {
			this.set({ ...off, phase: 'starting' });
		}
		try {
			const s = settings();
			const binary = await findBinary(s.binaryPath, this.extension.extensionPath, this.extension.globalStorageUri.fsPath);
			if (!this.wanted) {
				return;
			}
			await this.run(binary, s);
		} catch (e) {
			if (this.wanted && this.now.phase !== 'restarting') {
				this.set({ ...off, phase: 'failed', why: textOf(e) });
			}
			this.log.error(textOf(e));
			throw e;
		}
	}

	private async run(binary: Binary, s: Settings): Promise<void> {
		this.log.info(`starting ${binary.path} ${binary.version} (from ${binary.source})`);
		const began = performance.now();
		let ready: () => void = () => undefined;
		let failed: (why: Fault) => void = () => undefined;
		const answers = new Promise<void>((resolve, reject) => {
			ready = resolve;
			failed = reject;
		});
		const p = new BridgeProcess({
			path: binary.path,
			args: commandLine(s),
			env: environment(s, this.token),
			log: (line) => logLine(this.log, line),
			handlers: {
				request: (method, params, call) => this.answer(method, params, call, p),
				notification: (method, params) => {
					if (method === 'bridge.ready') {
						this.set({ ...off, ...(params as Partial<Status>), phase: 'on' });
						this.log.info(`the bridge answers at ${this.now.url}`);
						ready();
						void this.consentChanged();
					} else if (method === 'bridge.state') {
						this.set({ ...this.now, reason: '', ...(params as Partial<Status>) });
					}
				},
			},
		});
		this.process = p;
		void p.exited.then((exit) => {
			failed(new Fault('unavailable', describe(exit)));
			this.died(p, exit, performance.now() - began);
		});
		const timer = setTimeout(() => {
			failed(new Fault('timeout', `the bridge has not started within ${readyMs / 1000} s`));
			void p.end();
		}, readyMs);
		try {
			await answers;
		} finally {
			clearTimeout(timer);
		}
	}

	/** What the process asks of the editor. */
	private async answer(method: string, params: Record<string, unknown>, call: Call, p: BridgeProcess): Promise<unknown> {
		const timeoutMs = typeof params['timeoutMs'] === 'number' && params['timeoutMs'] > 0 ? params['timeoutMs'] : askMs;
		const with_ = <T>() => ({ ...params, timeoutMs }) as T;
		switch (method) {
			case 'host.hello':
				return this.hello(params);
			case 'lm.models':
				return await this.chat.models(timeoutMs, call.signal);
			case 'lm.chat':
				return await this.chat.answer(with_<ChatParams>(), call.signal, (part) => p.peer.notify('lm.part', { id: call.id, part }));
			case 'editor.documents':
				return this.documents.dirty((params['known'] ?? {}) as Record<string, number>);
			case 'editor.applyEdit':
				return await applyEdit(with_<ApplyParams>(), call.signal);
			case 'editor.format':
				return await format(with_<PathParams>(), call.signal);
			case 'editor.organizeImports':
				return await organizeImports(with_<PathParams>(), call.signal);
			case 'editor.symbols':
				return await symbols(with_<PathParams>(), call.signal);
			case 'ui.confirm':
				return await confirm(with_<ConfirmParams>(), call.signal);
			default:
				throw new Fault('unsupported', `this extension does not know ${method}; update it`);
		}
	}

	private hello(params: Record<string, unknown>): object {
		if (params['protocol'] !== protocol) {
			throw new Fault('unsupported', `the program speaks protocol ${params['protocol']}, this extension protocol ${protocol}: update both`);
		}
		return { protocol, editor: vscode.env.appName, version: vscode.version, folders: folders(), trusted: vscode.workspace.isTrusted };
	}

	private died(p: BridgeProcess, exit: Exit, ranMs: number): void {
		if (this.process !== p) {
			return;
		}
		this.process = undefined;
		if (!this.wanted) {
			this.log.info('the bridge has ended');
			return;
		}
		if (ranMs > stableMs) {
			this.deaths = 0;
		}
		const why = describe(exit);
		const wait = exit.code === exitUsage ? undefined : backOffMs[this.deaths++];
		if (wait === undefined) {
			this.set({ ...off, phase: 'failed', why });
			this.log.error(`${why}; it is not started again`);
			return;
		}
		this.set({ ...off, phase: 'restarting', why });
		this.log.warn(`${why}; it is started again in ${wait} ms`);
		this.again = setTimeout(() => {
			void this.next(async () => {
				if (this.wanted && !this.process) {
					await this.launch();
				}
			}).catch(() => undefined); // died has planned the next attempt, and the log has the reason
		}, wait);
	}

	/** Tells the process where the consent stands: also one of an earlier day. */
	private async consentChanged(): Promise<void> {
		this.set(this.now);
		if (this.consent.given) {
			try {
				await this.process?.peer.request('bridge.consented', {}, askMs);
			} catch (e) {
				this.log.warn(`the bridge could not be told of the consent: ${asFault(e).message}`);
			}
		}
		this.tell('lm.changed', {});
	}

	/** The list is empty for a moment whenever a vendor renews it. */
	private modelsChanged(): void {
		clearTimeout(this.settling);
		this.settling = setTimeout(() => this.tell('lm.changed', {}), settleMs);
	}

	private tell(method: string, params: object): void {
		this.process?.peer.notify(method, params);
	}

	private set(s: Status): void {
		// Before the first request the process does not know; we do.
		const copilot = s.copilot === 'unknown' && !this.consent.given ? 'consent_required' : s.copilot;
		this.now = { ...s, copilot };
		this.changes.fire(this.now);
	}
}

function describe(exit: Exit): string {
	const how = exit.signal ? `was killed (${exit.signal})` : exit.code === null ? 'could not be started' : `has ended with code ${exit.code}`;
	const last = exit.tail.filter((l) => l.trim()).slice(-2).join(' ');
	return `the bridge ${how}${exit.code !== 0 && last ? `: ${last}` : ''}`;
}

function logLine(log: vscode.LogOutputChannel, line: string): void {
	const level = /\blevel=(\w+)/.exec(line)?.[1];
	if (level === 'ERROR') {
		log.error(line);
	} else if (level === 'WARN') {
		log.warn(line);
	} else if (level === 'DEBUG') {
		log.debug(line);
	} else {
		log.info(line);
	}
}
