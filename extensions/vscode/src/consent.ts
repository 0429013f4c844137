// The user's consent to the use of Copilot. VS Code asks for it with a modal
// dialog at the first request; that request is made here, while the user is
// there, and never for somebody who called by HTTP.
import * as vscode from 'vscode';
import { bounded } from './bounded';
import { select } from './chat';
import { Fault, classify } from './faults';

const key = 'consent';

/** Long, because a person reads a dialog meanwhile. */
const patienceMs = 5 * 60_000;
const answerMs = 60_000;
const listMs = 10_000;

export class Consent {
	private readonly changes = new vscode.EventEmitter<void>();
	readonly onDidChange = this.changes.event;

	constructor(private readonly memory: vscode.Memento) {}

	get given(): boolean {
		return this.memory.get<boolean>(key, false);
	}

	async reset(): Promise<void> {
		if (this.given) {
			await this.put(false);
		}
	}

	/**
	 * Makes a first tiny request, for which VS Code asks the user. With no
	 * models there is nothing to ask about: that is the fault `unavailable`.
	 * Other faults may be the model's own.
	 */
	async ask(): Promise<void> {
		const models = await select(listMs);
		const model = models[0];
		if (!model) {
			throw new Fault('unavailable', 'VS Code has no Copilot models: sign in to GitHub Copilot in this window');
		}
		const source = new vscode.CancellationTokenSource();
		try {
			const hello = vscode.LanguageModelChatMessage.User('Answer with the word OK.');
			const justification = 'Programs on this machine that have the bridge’s token can then use Copilot through this window.';
			const response = await bounded('consent', patienceMs, model.sendRequest([hello], { justification }, source.token));
			await this.put(true); // the answer would not have begun without it
			await bounded('the first answer', answerMs, response.stream[Symbol.asyncIterator]().next());
		} catch (e) {
			const fault = classify(e);
			if (fault.kind === 'consent_required') {
				await this.reset();
			}
			throw fault;
		} finally {
			source.cancel();
			source.dispose();
		}
	}

	dispose(): void {
		this.changes.dispose();
	}

	private async put(given: boolean): Promise<void> {
		await bounded('remembering', listMs, this.memory.update(key, given));
		this.changes.fire();
	}
}
