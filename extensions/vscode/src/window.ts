// Notices that the window has gone while the extension host lives on: what was
// asked of it then is never answered.
import * as vscode from 'vscode';
import { bounded } from './bounded';

const everyMs = 5_000;
const withinMs = 5_000;

/** So often in a row; a computer that wakes up may miss one. */
const misses = 2;

/**
 * WindowWatch asks the window for a sign of life, but only while somebody waits
 * for it.
 */
export class WindowWatch {
	private readonly watchers = new Set<() => void>();
	private timer: NodeJS.Timeout | undefined;
	private missed = 0;

	/** Calls gone, once, if the window does not answer; until the result is called. */
	watch(gone: () => void): () => void {
		const watcher = () => gone();
		this.watchers.add(watcher);
		if (this.watchers.size === 1) {
			this.missed = 0;
			this.plan();
		}
		return () => {
			this.watchers.delete(watcher);
			if (this.watchers.size === 0) {
				clearTimeout(this.timer);
				this.timer = undefined;
			}
		};
	}

	private plan(): void {
		clearTimeout(this.timer);
		this.timer = setTimeout(() => void this.look(), everyMs);
	}

	private async look(): Promise<void> {
		try {
			// The cheapest call that goes to the window and back.
			await bounded('a sign of life', withinMs, vscode.commands.executeCommand('setContext', 'bridge.watched', true));
			this.missed = 0;
		} catch {
			this.missed++;
		}
		if (this.missed >= misses) {
			for (const w of [...this.watchers]) {
				this.watchers.delete(w);
				w();
			}
		}
		if (this.watchers.size > 0) {
			this.plan();
		}
	}
}
