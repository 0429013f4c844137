// Every call into VS Code has a bound: when the window goes away while the
// extension host lives on, such calls are never answered.
import { Fault } from './faults';

/**
 * Waits for a call into VS Code, at most that long, and no longer than the
 * signal lets it. The call itself goes on if it likes; nobody hears of it.
 */
export function bounded<T>(what: string, withinMs: number, call: Thenable<T>, signal?: AbortSignal): Promise<T> {
	return new Promise<T>((resolve, reject) => {
		const done = (settle: () => void) => {
			clearTimeout(timer);
			signal?.removeEventListener('abort', aborted);
			settle();
		};
		const aborted = () => done(() => reject(asReason(signal)));
		const timer = setTimeout(() => done(() => reject(new Fault('timeout', `${what} took longer than ${withinMs} ms`))), withinMs);
		signal?.addEventListener('abort', aborted);
		if (signal?.aborted) {
			aborted();
		}
		call.then(
			(v) => done(() => resolve(v)),
			(e) => done(() => reject(e)),
		);
	});
}

function asReason(signal: AbortSignal | undefined): Fault {
	return signal?.reason instanceof Fault ? signal.reason : new Fault('canceled', 'canceled');
}

/** What is left of a time that several calls share. */
export class Deadline {
	private readonly end: number;

	constructor(ms: number) {
		this.end = performance.now() + ms;
	}

	get left(): number {
		return Math.max(1, this.end - performance.now());
	}
}

/** Waits, unless the signal is given first. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
	return new Promise((resolve, reject) => {
		if (signal?.aborted) {
			reject(asReason(signal));
			return;
		}
		const stop = () => {
			clearTimeout(timer);
			reject(asReason(signal));
		};
		const timer = setTimeout(() => {
			signal?.removeEventListener('abort', stop);
			resolve();
		}, ms);
		signal?.addEventListener('abort', stop, { once: true });
	});
}
