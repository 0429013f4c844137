import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import * as path from 'node:path';
import { type TestContext, test } from 'node:test';
import { brotliCompressSync } from 'node:zlib';
import { findBinary } from '../src/binary';

// Programs are scripts here, which Windows does not run.
const skip = process.platform === 'win32';
const own = `${process.platform}-${process.arch}`;

function program(text: string): Buffer {
	return Buffer.from(`#!/bin/sh\necho "${text}"\n`);
}

async function place(t: TestContext): Promise<{ extension: string; storage: string; onPath: string }> {
	const dir = await mkdtemp(path.join(tmpdir(), 'bridge-'));
	const before = process.env['PATH'];
	t.after(async () => {
		process.env['PATH'] = before;
		await rm(dir, { recursive: true });
	});
	const onPath = path.join(dir, 'path');
	process.env['PATH'] = [onPath, before].join(path.delimiter);
	const at = { extension: path.join(dir, 'extension'), storage: path.join(dir, 'storage'), onPath };
	await mkdir(path.join(at.extension, 'bin'), { recursive: true });
	await mkdir(onPath);
	return at;
}

async function pack(extension: string, data: Buffer, platform: string, sha256 = createHash('sha256').update(data).digest('hex')): Promise<void> {
	await writeFile(path.join(extension, 'bin', 'program.br'), brotliCompressSync(data));
	await writeFile(path.join(extension, 'bin', 'program.json'), JSON.stringify({ platform, sha256 }));
}

test('the program of the extension is unpacked, mended and replaced', { skip }, async (t) => {
	const at = await place(t);
	await pack(at.extension, program('copilot-bridge 1.0'), own);
	const first = await findBinary('', at.extension, at.storage);
	assert.equal(first.version, '1.0');
	await writeFile(first.path, 'broken');
	assert.equal((await findBinary('', at.extension, at.storage)).version, '1.0');
	await pack(at.extension, program('copilot-bridge 2.0'), own);
	assert.equal((await findBinary('', at.extension, at.storage)).version, '2.0');
	assert.equal((await readdir(path.join(at.storage, 'bin'))).length, 1);
});

test('several windows at once', { skip }, async (t) => {
	const at = await place(t);
	await pack(at.extension, program('copilot-bridge 1.0'), own);
	const all = await Promise.all(Array.from({ length: 8 }, () => findBinary('', at.extension, at.storage)));
	assert.equal(new Set(all.map((b) => b.path)).size, 1);
	assert.deepEqual(await readdir(path.dirname(all[0]!.path)), ['copilot-bridge']);
	assert.deepEqual(await readFile(all[0]!.path), program('copilot-bridge 1.0'));
});

test('a damaged package is not run', { skip }, async (t) => {
	const at = await place(t);
	await pack(at.extension, program('copilot-bridge 1.0'), own, '0'.repeat(64));
	await assert.rejects(findBinary('', at.extension, at.storage), /damaged/);
});

test('a package for another platform: PATH, and if that has none a clear word', { skip }, async (t) => {
	const at = await place(t);
	await pack(at.extension, program('copilot-bridge 1.0'), 'plan9-x64');
	process.env['PATH'] = ['/bin', '/usr/bin', at.onPath].join(path.delimiter);
	await assert.rejects(findBinary('', at.extension, at.storage), /is for plan9-x64, and this is .* not on PATH/);
	await writeFile(path.join(at.onPath, 'copilot-bridge'), program('copilot-bridge 3.0'), { mode: 0o755 });
	assert.deepEqual(await findBinary('', at.extension, at.storage), { path: path.join(at.onPath, 'copilot-bridge'), version: '3.0', source: 'PATH' });
});

test('the setting counts before all else, and must be Copilot Bridge', { skip }, async (t) => {
	const at = await place(t);
	await pack(at.extension, program('copilot-bridge 1.0'), own);
	const other = path.join(at.onPath, 'other');
	await writeFile(other, program('copilot-bridge 4.0'), { mode: 0o755 });
	assert.equal((await findBinary(other, at.extension, at.storage)).version, '4.0');
	await writeFile(other, program('something else'), { mode: 0o755 });
	await assert.rejects(findBinary(other, at.extension, at.storage), /is not Copilot Bridge/);
	await assert.rejects(findBinary(path.join(at.onPath, 'none'), at.extension, at.storage), /cannot be run/);
});
