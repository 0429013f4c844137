// Finds the program: the setting, the one that came with the extension, PATH.
import { execFile } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, readFile, readdir, rename, rm, stat } from 'node:fs/promises';
import * as path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createBrotliDecompress } from 'node:zlib';
import { Fault, textOf } from './faults';

const versionMs = 10_000;

export interface Binary {
	path: string;
	version: string;
	/** Where it was found, for people. */
	source: string;
}

/** What bin/program.json says of the program beside it, which is packed. */
interface Packed {
	platform: string;
	sha256: string;
}

/**
 * Looks in this order; the setting, if there is one, is the only place.
 * The program of the extension is unpacked into storage.
 */
export async function findBinary(setting: string, extension: string, storage: string): Promise<Binary> {
	if (setting) {
		return await check(setting, 'the setting bridge.binaryPath');
	}
	const name = process.platform === 'win32' ? 'copilot-bridge.exe' : 'copilot-bridge';
	const packed = await bundled(extension);
	if (typeof packed !== 'string') {
		return await check(await unpack(extension, storage, name, packed), 'the extension');
	}
	for (const dir of (process.env['PATH'] ?? '').split(path.delimiter)) {
		const found = path.join(dir, name);
		if (path.isAbsolute(dir) && (await isFile(found))) {
			return await check(found, 'PATH');
		}
	}
	throw new Fault('not_found', `The copilot-bridge program was not found: ${packed}, and it is not on PATH.`);
}

/** The program that came with the extension, or why it cannot be used. */
async function bundled(extension: string): Promise<Packed | string> {
	let p: Packed;
	try {
		p = JSON.parse(await readFile(path.join(extension, 'bin', 'program.json'), 'utf8')) as Packed;
	} catch {
		return 'none came with the extension';
	}
	const own = `${process.platform}-${process.arch}`;
	return p.platform === own ? p : `the extension that is installed is for ${p.platform}, and this is ${own}`;
}

/**
 * Unpacks the program, unless that was done before. Several windows may do so
 * at once: each writes a file of its own and moves it into place whole.
 */
async function unpack(extension: string, storage: string, name: string, packed: Packed): Promise<string> {
	const dir = path.join(storage, 'bin', packed.sha256);
	const file = path.join(dir, name);
	if ((await isFile(file)) && (await sha256(file)) === packed.sha256) {
		return file;
	}
	await mkdir(dir, { recursive: true });
	const fresh = path.join(dir, `${randomBytes(6).toString('hex')}.part`);
	try {
		await pipeline(createReadStream(path.join(extension, 'bin', 'program.br')), createBrotliDecompress(), createWriteStream(fresh, { mode: 0o755, flags: 'wx' }));
		if ((await sha256(fresh)) !== packed.sha256) {
			throw new Error('it is damaged; install the extension again');
		}
		await rename(fresh, file);
	} catch (e) {
		await rm(fresh, { force: true });
		throw new Fault('not_found', `The program of the extension could not be unpacked into ${dir}: ${textOf(e)}`);
	}
	await forget(path.dirname(dir), packed.sha256);
	return file;
}

/** Removes the programs of other versions; one that still runs may refuse. */
async function forget(dir: string, keep: string): Promise<void> {
	for (const other of await readdir(dir)) {
		if (other !== keep) {
			await rm(path.join(dir, other), { recursive: true, force: true }).catch(() => undefined);
		}
	}
}

async function sha256(file: string): Promise<string> {
	const hash = createHash('sha256');
	await pipeline(createReadStream(file), hash);
	return hash.digest('hex');
}

async function isFile(file: string): Promise<boolean> {
	try {
		return (await stat(file)).isFile();
	} catch {
		return false;
	}
}

async function check(file: string, source: string): Promise<Binary> {
	const out = await new Promise<string>((resolve, reject) => {
		execFile(file, ['version'], { timeout: versionMs, windowsHide: true }, (e, stdout) => {
			if (e) {
				reject(new Fault('not_found', `${file} (from ${source}) cannot be run: ${textOf(e)}`));
			} else {
				resolve(stdout);
			}
		});
	});
	const version = /^copilot-bridge (\S+)/.exec(out)?.[1];
	if (!version) {
		throw new Fault('not_found', `${file} (from ${source}) is not Copilot Bridge`);
	}
	return { path: file, version, source };
}
