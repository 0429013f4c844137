// lm.models and lm.chat: Copilot's models, as VS Code lends them to extensions.
import * as vscode from 'vscode';
import { bounded, pause } from './bounded';
import type { Consent } from './consent';
import { Fault, classify } from './faults';
import { isObject } from './rpc';
import type { WindowWatch } from './window';

const vendor = 'copilot';

const listMs = 10_000;

/** VS Code refuses more. */
const maxTools = 128;

export interface Part {
	type: string;
	text?: string;
	callId?: string;
	name?: string;
	input?: unknown;
	failed?: boolean;
	mime?: string;
	base64?: string;
	inputTokens?: number;
	outputTokens?: number;
}

interface ChatParams {
	timeoutMs: number;
	model: string;
	messages: { role: string; parts?: Part[] }[];
	tools?: { name: string; description: string; schema?: object }[];
	toolMode?: string;
	options?: Record<string, unknown>;
	justification?: string;
}

// What newer versions of VS Code have and the oldest that we run in has not.
interface Newer {
	LanguageModelDataPart?: new (data: Uint8Array, mimeType: string) => object;
}
interface Capable {
	capabilities?: { supportsToolCalling?: boolean | number; supportsImageToText?: boolean };
}
const newer = vscode as unknown as Newer;

export class Chat {
	constructor(
		private readonly consent: Consent,
		private readonly window: WindowWatch,
	) {}

	async models(timeoutMs: number, signal: AbortSignal): Promise<object> {
		const models = await select(timeoutMs, signal);
		return {
			models: models.map((m) => {
				const can = (m as Capable).capabilities;
				return {
					id: m.id,
					name: m.name,
					vendor: m.vendor,
					family: m.family,
					version: m.version,
					maxInputTokens: m.maxInputTokens,
					vision: newer.LanguageModelDataPart !== undefined && can?.supportsImageToText !== false,
					tools: can?.supportsToolCalling !== false,
				};
			}),
		};
	}

	/**
	 * Streams an answer. timeoutMs bounds the wait for the first part and for
	 * each one after it. Nothing is asked before the user has agreed: VS Code
	 * would put up a dialog, and whoever called by HTTP is not in front of it.
	 */
	async answer(p: ChatParams, signal: AbortSignal, part: (p: Part) => void): Promise<object> {
		if (!this.consent.given) {
			throw new Fault('consent_required', 'the user has not yet allowed this extension to use Copilot; run “Bridge: Enable” in VS Code');
		}
		const messages = p.messages.map(message);
		const options = requestOptions(p);
		const source = new vscode.CancellationTokenSource();
		const stop = new AbortController();
		const give = (why: unknown) => stop.abort(why instanceof Fault ? why : new Fault('canceled', 'canceled'));
		const canceled = () => give(signal.reason);
		signal.addEventListener('abort', canceled);
		if (signal.aborted) {
			canceled();
		}
		const unwatch = this.window.watch(() => give(new Fault('unavailable', 'the window does not answer any more')));
		try {
			const model = await find(p.model, p.timeoutMs, stop.signal);
			const response = await bounded('the model', p.timeoutMs, model.sendRequest(messages, options, source.token), stop.signal);
			const stream = response.stream[Symbol.asyncIterator]();
			for (;;) {
				const next = await bounded('the model', p.timeoutMs, stream.next(), stop.signal);
				if (next.done) {
					break;
				}
				const known = read(next.value);
				if (known) {
					part(known);
				}
			}
			if (stop.signal.aborted) {
				throw stop.signal.reason;
			}
			return {};
		} catch (e) {
			const fault = classify(e);
			if (fault.kind === 'consent_required') {
				await this.consent.reset();
			}
			throw fault;
		} finally {
			// Leaving the loop does not end the request; the token does.
			source.cancel();
			source.dispose();
			signal.removeEventListener('abort', canceled);
			unwatch();
		}
	}
}

/** How often and how soon an empty list is doubted. */
const doubts = 3;
const doubtMs = 150;

let selecting: Promise<vscode.LanguageModelChat[]> | undefined;

/**
 * Copilot's models, and nobody else's. While VS Code asks the vendor anew the
 * list is empty, and every call makes it do so: so there is one at a time, and
 * an empty list is looked at again.
 */
export async function select(timeoutMs: number, signal?: AbortSignal): Promise<vscode.LanguageModelChat[]> {
	selecting ??= list().finally(() => (selecting = undefined));
	try {
		return await bounded('listing the models', timeoutMs, selecting, signal);
	} catch (e) {
		throw classify(e);
	}
}

async function list(): Promise<vscode.LanguageModelChat[]> {
	for (let n = 0; ; n++) {
		const models = await bounded('listing the models', listMs, vscode.lm.selectChatModels({ vendor }));
		if (models.length > 0 || n === doubts) {
			return models;
		}
		await pause(doubtMs);
	}
}

async function find(id: string, timeoutMs: number, signal: AbortSignal): Promise<vscode.LanguageModelChat> {
	const models = await select(timeoutMs, signal);
	if (models.length === 0) {
		throw new Fault('unavailable', 'VS Code has no Copilot models: sign in to GitHub Copilot in this window');
	}
	const model = models.find((m) => m.id === id);
	if (!model) {
		throw new Fault('not_found', `VS Code has no Copilot model “${id}”; it has ${models.map((m) => m.id).join(', ')}`);
	}
	return model;
}

function requestOptions(p: ChatParams): vscode.LanguageModelChatRequestOptions {
	const tools = p.tools ?? [];
	if (tools.length > maxTools) {
		throw new Fault('unsupported', `VS Code takes at most ${maxTools} tools in a request, not ${tools.length}`);
	}
	const required = p.toolMode === 'required';
	if (required && tools.length !== 1) {
		throw new Fault('unsupported', 'VS Code can make a model use a tool only if it is the only one');
	}
	return {
		...(p.justification && { justification: p.justification }),
		...(isObject(p.options) && { modelOptions: p.options }),
		...(tools.length > 0 && {
			tools: tools.map((t) => ({ name: t.name, description: t.description, inputSchema: t.schema })),
			toolMode: required ? vscode.LanguageModelChatToolMode.Required : vscode.LanguageModelChatToolMode.Auto,
		}),
	};
}

function message(m: { role: string; parts?: Part[] }): vscode.LanguageModelChatMessage {
	const role = m.role === 'assistant' ? vscode.LanguageModelChatMessageRole.Assistant : vscode.LanguageModelChatMessageRole.User;
	const content = (m.parts ?? []).map(written).filter((c) => c !== undefined);
	return new vscode.LanguageModelChatMessage(role, content as vscode.LanguageModelInputPart[]);
}

/** A part of the protocol as VS Code's; thinking is not told again. */
function written(p: Part): object | undefined {
	switch (p.type) {
		case 'text':
			return new vscode.LanguageModelTextPart(p.text ?? '');
		case 'toolCall':
			return new vscode.LanguageModelToolCallPart(p.callId ?? '', p.name ?? '', isObject(p.input) ? p.input : {});
		case 'toolResult': {
			const text = p.failed ? `The tool failed.\n${p.text ?? ''}` : (p.text ?? '');
			return new vscode.LanguageModelToolResultPart(p.callId ?? '', [new vscode.LanguageModelTextPart(text)]);
		}
		case 'data':
			if (!newer.LanguageModelDataPart) {
				throw new Fault('unsupported', `VS Code ${vscode.version} cannot send images to a model; update it`);
			}
			return new newer.LanguageModelDataPart(Buffer.from(p.base64 ?? '', 'base64'), p.mime ?? '');
		case 'thinking':
			return undefined;
		default:
			throw new Fault('unsupported', `a part of type “${p.type}” cannot be sent`);
	}
}

/** A part that a model streams. Kinds that are not known are left out. */
function read(v: unknown): Part | undefined {
	if (v instanceof vscode.LanguageModelTextPart) {
		return { type: 'text', text: v.value };
	}
	if (v instanceof vscode.LanguageModelToolCallPart) {
		return { type: 'toolCall', callId: v.callId, name: v.name, input: v.input };
	}
	if (!isObject(v)) {
		return undefined;
	}
	const { data, mimeType, value } = v;
	if (data instanceof Uint8Array && typeof mimeType === 'string') {
		return mimeType === 'usage' ? usage(data) : { type: 'data', mime: mimeType, base64: Buffer.from(data).toString('base64') };
	}
	// A thinking part has no class that is stable, only its shape.
	const text = Array.isArray(value) ? value.join('') : value;
	return typeof text === 'string' ? { type: 'thinking', text } : undefined;
}

function usage(data: Uint8Array): Part | undefined {
	try {
		const u: unknown = JSON.parse(Buffer.from(data).toString('utf8'));
		if (isObject(u)) {
			return { type: 'usage', inputTokens: count(u['prompt_tokens']), outputTokens: count(u['completion_tokens']) };
		}
	} catch {
		// not the form that we know: there is no usage then
	}
	return undefined;
}

function count(v: unknown): number {
	return typeof v === 'number' && Number.isFinite(v) && v > 0 ? Math.floor(v) : 0;
}

export type { ChatParams };
