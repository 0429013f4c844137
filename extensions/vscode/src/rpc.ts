// The JSON-RPC peer: one JSON object a line, requests both ways, ids per
// direction. It knows nothing of VS Code.
import type { Readable, Writable } from 'node:stream';
import { Fault, asFault } from './faults';

/** The longest line that is read; a longer one ends the connection. */
export const maxLine = 64 << 20;

export interface Call {
	readonly id: number | string;
	/** Aborted by the other side's `$/cancel` and by the end of the connection. */
	readonly signal: AbortSignal;
}

export interface Handlers {
	/** Answers a request of the other side. What it throws becomes the error. */
	request(method: string, params: Record<string, unknown>, call: Call): Promise<unknown>;
	/** Hears a notification; must not throw. */
	notification(method: string, params: Record<string, unknown>): void;
}

interface Waiting {
	resolve(result: unknown): void;
	reject(fault: Fault): void;
}

/**
 * Peer owns neither stream: whoever made them closes them. After `end` nothing
 * is written any more, and whatever waits fails.
 */
export class Peer {
	private readonly waiting = new Map<number, Waiting>();
	private readonly serving = new Map<number | string, AbortController>();
	private lastID = 0;
	private pieces: Buffer[] = [];
	private size = 0;
	private ended: Fault | undefined;

	constructor(
		input: Readable,
		private readonly output: Writable,
		private readonly handlers: Handlers,
		private readonly broken: (why: Fault) => void,
	) {
		input.on('data', (chunk: Buffer) => this.read(chunk));
		input.on('end', () => this.fail(new Fault('unavailable', 'the bridge has closed the connection')));
		input.on('error', (e) => this.fail(new Fault('unavailable', `reading from the bridge: ${e.message}`)));
		output.on('error', (e) => this.fail(new Fault('unavailable', `writing to the bridge: ${e.message}`)));
	}

	/** Sends a request and waits for its answer, not longer than that. */
	request(method: string, params: object, withinMs: number): Promise<unknown> {
		if (this.ended) {
			return Promise.reject(this.ended);
		}
		const id = ++this.lastID;
		return new Promise((resolve, reject) => {
			const timer = setTimeout(() => {
				this.waiting.delete(id);
				this.notify('$/cancel', { id });
				reject(new Fault('timeout', `the bridge has not answered ${method} within ${withinMs} ms`));
			}, withinMs);
			const done = (settle: () => void) => {
				clearTimeout(timer);
				this.waiting.delete(id);
				settle();
			};
			this.waiting.set(id, {
				resolve: (result) => done(() => resolve(result)),
				reject: (fault) => done(() => reject(fault)),
			});
			this.write({ id, method, params });
		});
	}

	notify(method: string, params: object): void {
		this.write({ method, params });
	}

	/** Fails what waits and cancels what is being answered. */
	end(why: Fault): void {
		if (this.ended) {
			return;
		}
		this.ended = why;
		this.pieces = [];
		for (const w of [...this.waiting.values()]) {
			w.reject(why);
		}
		for (const c of this.serving.values()) {
			c.abort(why);
		}
	}

	private fail(why: Fault): void {
		if (!this.ended) {
			this.end(why);
			this.broken(why);
		}
	}

	private write(message: object): void {
		if (!this.ended && this.output.writable) {
			this.output.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\n');
		}
	}

	private read(chunk: Buffer): void {
		for (let rest = chunk; !this.ended; ) {
			const at = rest.indexOf(10);
			const piece = at < 0 ? rest : rest.subarray(0, at);
			this.size += piece.length;
			if (this.size > maxLine) {
				this.fail(new Fault('internal', `the bridge has sent a line of more than ${maxLine >> 20} MiB`));
				return;
			}
			this.pieces.push(piece);
			if (at < 0) {
				return;
			}
			const line = Buffer.concat(this.pieces).toString('utf8');
			this.pieces = [];
			this.size = 0;
			this.message(line);
			rest = rest.subarray(at + 1);
		}
	}

	private message(line: string): void {
		let m: unknown;
		try {
			m = JSON.parse(line);
		} catch {
			m = undefined;
		}
		if (!isObject(m) || m['jsonrpc'] !== '2.0') {
			this.fail(new Fault('internal', 'the bridge has sent something that is no message'));
			return;
		}
		const { id, method } = m;
		const params = isObject(m['params']) ? m['params'] : {};
		if (typeof method !== 'string') {
			this.answer(m);
		} else if (method === '$/cancel') {
			this.serving.get(params['id'] as number | string)?.abort(new Fault('canceled', 'canceled'));
		} else if (typeof id === 'number' || typeof id === 'string') {
			void this.serve(id, method, params);
		} else {
			this.handlers.notification(method, params);
		}
	}

	private answer(m: Record<string, unknown>): void {
		const w = typeof m['id'] === 'number' ? this.waiting.get(m['id']) : undefined;
		if (!w) {
			return; // its time was up
		}
		const error = m['error'];
		if (!isObject(error)) {
			w.resolve(m['result']);
			return;
		}
		const data = isObject(error['data']) ? error['data'] : {};
		w.reject(new Fault(typeof data['kind'] === 'string' ? data['kind'] : 'internal', String(error['message'])));
	}

	private async serve(id: number | string, method: string, params: Record<string, unknown>): Promise<void> {
		const stop = new AbortController();
		this.serving.set(id, stop);
		try {
			const result = await this.handlers.request(method, params, { id, signal: stop.signal });
			this.write({ id, result: result ?? {} });
		} catch (e) {
			this.write({ id, error: asFault(e).onTheWire() });
		} finally {
			this.serving.delete(id);
		}
	}
}

export function isObject(v: unknown): v is Record<string, unknown> {
	return typeof v === 'object' && v !== null && !Array.isArray(v);
}
