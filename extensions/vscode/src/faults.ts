// What goes wrong, by kind, as the protocol names it. Nothing here needs VS
// Code: errors are told apart by name, code and message, because few of those
// that reach an extension are of a class of their own.

export class Fault extends Error {
	constructor(
		readonly kind: string,
		message: string,
		readonly origin?: { name?: string; code?: string },
	) {
		super(message);
		this.name = 'Fault';
	}

	/** As an error of the protocol. */
	onTheWire(): object {
		return { code: -32000, message: this.message, data: { kind: this.kind, ...this.origin } };
	}
}

/** Whatever was thrown, as a Fault. */
export function asFault(e: unknown): Fault {
	return e instanceof Fault ? e : new Fault('internal', textOf(e));
}

export function textOf(e: unknown): string {
	return e instanceof Error ? e.message || e.name : String(e);
}

// Providers put their own errors inside, sometimes several deep.
const maxDepth = 5;

const byCode: Record<string, string> = { NoPermissions: 'consent_required', Blocked: 'blocked', NotFound: 'not_found' };

const byName: Record<string, string> = {
	ChatQuotaExceeded: 'quota_exceeded',
	ChatRateLimited: 'rate_limited',
	Canceled: 'canceled',
	CancellationError: 'canceled',
};

const byMessage: [RegExp, string][] = [
	[/exceeds? (the )?token limit|context.length|too many tokens|prompt is too long/i, 'too_long'],
	[/model_not_supported|model is not (supported|available)|requested model/i, 'not_found'],
	[/quota/i, 'quota_exceeded'],
	[/rate.?limit|too many requests|\b429\b/i, 'rate_limited'],
	[/no ?permissions?\b|user (has )?(denied|declined|rejected)/i, 'consent_required'],
	[/sign(ed)? ?(in|out)|not logged in|not authenticated|unauthorized|no access to/i, 'unavailable'],
	[/off ?topic|content.?filter|responsible ai/i, 'denied'],
];

/** An error of a language model, by what is known of it. */
export function classify(e: unknown): Fault {
	if (e instanceof Fault) {
		return e;
	}
	const chain: { name: string; code: string; message: string }[] = [];
	for (let at: unknown = e; at !== undefined && at !== null && chain.length < maxDepth; ) {
		const o = (typeof at === 'object' ? at : { message: String(at) }) as Record<string, unknown>;
		chain.push({ name: str(o['name']), code: str(o['code']), message: str(o['message']) });
		at = o['cause'];
	}
	const outer = chain[0] ?? { name: '', code: '', message: '' };
	const kind =
		first(chain, (c) => byCode[c.code]) ??
		first(chain, (c) => byName[c.name]) ??
		first(chain, (c) => byMessage.find(([re]) => re.test(c.message))?.[1]) ??
		'unavailable';
	const origin = { ...(outer.name && { name: outer.name }), ...(outer.code && { code: outer.code }) };
	return new Fault(kind, chain.find((c) => c.message)?.message ?? (outer.name || 'the model failed'), origin);
}

function first<T, R>(list: T[], f: (t: T) => R | undefined): R | undefined {
	for (const t of list) {
		const r = f(t);
		if (r !== undefined) {
			return r;
		}
	}
	return undefined;
}

function str(v: unknown): string {
	return typeof v === 'string' || typeof v === 'number' ? String(v) : '';
}
