import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fault, classify } from '../src/faults';

function error(name: string, code: string, message: string, cause?: unknown): Error {
	return Object.assign(new Error(message, { cause }), { name, ...(code && { code }) });
}

const cases: [string, unknown, string][] = [
	['no consent', error('Error', 'NoPermissions', 'x'), 'consent_required'],
	['throttled', error('Error', 'Blocked', 'x'), 'blocked'],
	['a model that has gone', error('Error', 'NotFound', 'x'), 'not_found'],
	['quota: a name and an empty code', error('ChatQuotaExceeded', '', 'x'), 'quota_exceeded'],
	['rate limit: a plain error with a name', error('ChatRateLimited', '', 'x'), 'rate_limited'],
	['too long: only the message says so', error('Error', '', 'Message exceeds token limit.'), 'too_long'],
	['a listed model that refuses', error('Error', 'Unknown', 'Request Failed: 400 {"code":"model_not_supported"}'), 'not_found'],
	['inside another error', error('Error', 'Unknown', 'x', error('ChatRateLimited', '', 'y')), 'rate_limited'],
	['cancelled', error('Canceled', '', 'Canceled'), 'canceled'],
	['anything else', error('Error', '', 'socket hang up'), 'unavailable'],
	['no error at all', 'odd', 'unavailable'],
	['nothing', undefined, 'unavailable'],
	['a fault', new Fault('timeout', 'x'), 'timeout'],
];

for (const [name, thrown, kind] of cases) {
	test(name, () => {
		const f = classify(thrown);
		assert.equal(f.kind, kind);
		assert.notEqual(f.message, '');
	});
}

test('the original name and code are kept', () => {
	assert.deepEqual(classify(error('N', 'Blocked', 'x')).origin, { name: 'N', code: 'Blocked' });
});

test('an endless chain of causes ends', () => {
	const e = error('Error', '', '');
	e.cause = e;
	assert.equal(classify(e).kind, 'unavailable');
});
