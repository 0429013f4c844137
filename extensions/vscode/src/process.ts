// The bridge's process: started, spoken to, ended, and nothing left of it.
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { homedir } from 'node:os';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { Fault } from './faults';
import { type Handlers, Peer } from './rpc';

/** How long it may take to end by itself once its input is closed. */
const endMs = 4_000;

/** The last lines of its log, for a message. */
const tailLines = 5;

export interface Launch {
	path: string;
	args: string[];
	env: NodeJS.ProcessEnv;
	/** A line of its log. */
	log(line: string): void;
	handlers: Handlers;
}

export interface Exit {
	code: number | null;
	signal: NodeJS.Signals | null;
	/** What it said last. */
	tail: string[];
}

/** BridgeProcess is one run of the program. */
export class BridgeProcess {
	readonly peer: Peer;
	readonly exited: Promise<Exit>;
	private readonly child: ChildProcessByStdio<Writable, Readable, Readable>;
	private readonly tail: string[] = [];
	private gone = false;

	constructor(launch: Launch) {
		// Not in a folder of the workspace: what lies there is not to be trusted.
		this.child = spawn(launch.path, launch.args, { env: launch.env, cwd: homedir(), stdio: ['pipe', 'pipe', 'pipe'], windowsHide: true });
		const lines = createInterface({ input: this.child.stderr, crlfDelay: Infinity });
		lines.on('line', (line) => {
			this.tail.push(line);
			this.tail.splice(0, this.tail.length - tailLines);
			launch.log(line);
		});
		this.exited = new Promise((resolve) => {
			const ended = (code: number | null, signal: NodeJS.Signals | null) => {
				this.gone = true;
				this.peer.end(new Fault('unavailable', 'the bridge has ended'));
				resolve({ code, signal, tail: this.tail });
			};
			this.child.on('error', (e) => {
				this.tail.push(e.message);
				if (this.child.pid === undefined) {
					ended(null, null); // it was never started
				}
			});
			this.child.on('close', ended);
		});
		// A connection that is broken is of no use to anybody.
		this.peer = new Peer(this.child.stdout, this.child.stdin, launch.handlers, (why) => {
			launch.log(why.message);
			void this.end();
		});
	}

	get pid(): number | undefined {
		return this.child.pid;
	}

	/** Ends it: the end of its input first, then, if it does not go, by force. */
	async end(): Promise<void> {
		if (this.gone) {
			return;
		}
		this.peer.end(new Fault('canceled', 'the bridge is being stopped'));
		this.child.stdin.end();
		const timer = setTimeout(() => this.child.kill('SIGKILL'), endMs);
		await this.exited;
		clearTimeout(timer);
	}
}
