import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { Fault } from '../src/faults';
import { type Handlers, Peer, maxLine } from '../src/rpc';

function pair(handlers: Partial<Handlers> = {}) {
	const input = new PassThrough();
	const output = new PassThrough();
	const broken: Fault[] = [];
	const peer = new Peer(
		input,
		output,
		{ request: async () => ({}), notification: () => undefined, ...handlers },
		(why) => broken.push(why),
	);
	const lines = output[Symbol.asyncIterator]();
	let rest = '';
	const line = async () => {
		while (!rest.includes('\n')) {
			rest += String((await lines.next()).value);
		}
		const at = rest.indexOf('\n');
		const out = JSON.parse(rest.slice(0, at));
		rest = rest.slice(at + 1);
		return out;
	};
	return { input, peer, broken, line };
}

test('a request in pieces is answered', async () => {
	const p = pair({ request: async (method, params) => ({ method, params }) });
	const bytes = Buffer.from('{"jsonrpc":"2.0","id":7,"method":"m","params":{"ü":1}}\n');
	for (const b of bytes) {
		p.input.write(Buffer.of(b)); // also in the middle of a character
	}
	assert.deepEqual(await p.line(), { jsonrpc: '2.0', id: 7, result: { method: 'm', params: { ü: 1 } } });
});

test('a fault keeps its kind, anything else is internal', async () => {
	const faults: Error[] = [new Fault('blocked', 'wait', { name: 'N', code: 'C' }), new Error('oh')];
	const p = pair({ request: () => Promise.reject(faults.shift()) });
	p.input.write('{"jsonrpc":"2.0","id":1,"method":"m"}\n');
	assert.deepEqual((await p.line()).error, { code: -32000, message: 'wait', data: { kind: 'blocked', name: 'N', code: 'C' } });
	p.input.write('{"jsonrpc":"2.0","id":2,"method":"m"}\n');
	assert.deepEqual((await p.line()).error, { code: -32000, message: 'oh', data: { kind: 'internal' } });
});

test('a cancelled request is still answered', async () => {
	const p = pair({
		request: (_m, _p, call) => new Promise((_, reject) => call.signal.addEventListener('abort', () => reject(call.signal.reason))),
	});
	p.input.write('{"jsonrpc":"2.0","id":3,"method":"m"}\n{"jsonrpc":"2.0","method":"$/cancel","params":{"id":3}}\n');
	assert.equal((await p.line()).error.data.kind, 'canceled');
});

test('our request: answer, error, time-out with a cancellation', async () => {
	const p = pair();
	const good = p.peer.request('a', { x: 1 }, 10_000);
	assert.deepEqual(await p.line(), { jsonrpc: '2.0', id: 1, method: 'a', params: { x: 1 } });
	p.input.write('{"jsonrpc":"2.0","id":1,"result":{"y":2}}\n');
	assert.deepEqual(await good, { y: 2 });
	const bad = p.peer.request('b', {}, 10_000);
	await p.line();
	p.input.write('{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"no","data":{"kind":"denied"}}}\n');
	await assert.rejects(bad, (e: Fault) => e.kind === 'denied' && e.message === 'no');
	await assert.rejects(p.peer.request('c', {}, 5), (e: Fault) => e.kind === 'timeout');
	await p.line();
	assert.deepEqual(await p.line(), { jsonrpc: '2.0', method: '$/cancel', params: { id: 3 } });
});

test('the end fails what waits and cancels what is being answered', async () => {
	let served: AbortSignal | undefined;
	const p = pair({ request: (_m, _p, call) => ((served = call.signal), new Promise(() => undefined)) });
	const waits = p.peer.request('a', {}, 10_000);
	p.input.write('{"jsonrpc":"2.0","id":1,"method":"m"}\n');
	p.input.end();
	await assert.rejects(waits, (e: Fault) => e.kind === 'unavailable');
	assert.equal(served?.aborted, true);
	assert.equal(p.broken.length, 1);
	await assert.rejects(p.peer.request('b', {}, 10_000));
});

for (const [name, junk] of Object.entries({
	'no JSON': 'hello\n',
	'no object': '[1]\n',
	'no JSON-RPC': '{"id":1}\n',
	'too long': 'x'.repeat(maxLine + 1),
})) {
	test(`${name} ends the connection`, async () => {
		const p = pair();
		p.input.end(junk);
		await new Promise((resolve) => p.input.on('end', resolve));
		assert.equal(p.broken.length, 1);
		assert.equal(p.broken[0]?.kind, 'internal');
	});
}
