// Packages the extension with the program of each platform:
//   node package.mjs [--out DIR] [--quick] [TARGET…]
// Without targets: all of them. --quick takes seconds instead of a minute each
// to compress, and leaves them a tenth larger. Fails if a package is larger than the budget.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { brotliCompressSync, constants } from 'node:zlib';

const budget = 20 * 1000 * 1000;
const here = import.meta.dirname;
const root = process.env.BRIDGE_SOURCE ?? path.join(here, '..', '..');

const targets = {
	'linux-x64': ['linux', 'amd64'],
	'linux-arm64': ['linux', 'arm64'],
	'darwin-x64': ['darwin', 'amd64'],
	'darwin-arm64': ['darwin', 'arm64'],
	'win32-x64': ['windows', 'amd64'],
	'win32-arm64': ['windows', 'arm64'],
};

const { values, positionals } = parseArgs({ options: { quick: { type: 'boolean', default: false }, out: { type: 'string', default: path.join(root, 'build', 'vsix') } }, allowPositionals: true });
const brotli = { [constants.BROTLI_PARAM_QUALITY]: values.quick ? 6 : 11, [constants.BROTLI_PARAM_LGWIN]: constants.BROTLI_MAX_WINDOW_BITS };
const run = (program, args, env = {}) => execFileSync(program, args, { cwd: here, env: { ...process.env, ...env }, stdio: ['ignore', 'inherit', 'inherit'] });
const node = (script, ...args) => run(process.execPath, [path.join('node_modules', script), ...args]);

const version = process.env.BRIDGE_VERSION ?? 'dev';
const ldflags = `-s -w -X github.com/copilot-bridge/copilot-bridge/internal/cli.version=${version}`;
const bin = path.join(here, 'bin');

node('typescript/bin/tsc', '--noEmit');
run(process.execPath, ['build.mjs']);
copyFileSync(path.join(root, 'LICENSE'), path.join(here, 'LICENSE'));
mkdirSync(values.out, { recursive: true });
let over = false;
for (const target of positionals.length > 0 ? positionals : Object.keys(targets)) {
	const [goos, goarch] = targets[target] ?? [];
	if (!goos) {
		throw new Error(`${target}: must be one of ${Object.keys(targets).join(', ')}`);
	}
	rmSync(bin, { recursive: true, force: true });
	mkdirSync(bin);
	const program = path.join(bin, 'program');
	execFileSync('go', ['build', '-trimpath', '-ldflags', ldflags, '-o', program, './cmd/copilot-bridge'], {
		cwd: root,
		env: { ...process.env, GOOS: goos, GOARCH: goarch, CGO_ENABLED: '0' },
		stdio: ['ignore', 'inherit', 'inherit'],
	});
	// A package is a zip, whose deflate leaves it a fifth larger than Brotli.
	const data = readFileSync(program);
	rmSync(program);
	writeFileSync(path.join(bin, 'program.br'), brotliCompressSync(data, { params: { ...brotli, [constants.BROTLI_PARAM_SIZE_HINT]: data.length } }));
	writeFileSync(path.join(bin, 'program.json'), JSON.stringify({ platform: target, sha256: createHash('sha256').update(data).digest('hex') }));
	const file = path.join(values.out, `copilot-bridge-${target}.vsix`);
	node('@vscode/vsce/vsce', 'package', '--target', target, '--no-dependencies', '--out', file);
	const size = statSync(file).size;
	const verdict = size > budget ? `over the budget of ${budget / 1e6} MB` : 'fits';
	console.log(`${path.basename(file)}: ${(size / 1e6).toFixed(2)} MB (program ${(data.length / 1e6).toFixed(2)} MB), ${verdict}`);
	over ||= size > budget;
}
rmSync(bin, { recursive: true, force: true });
process.exitCode = over ? 1 : 0;
