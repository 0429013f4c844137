// Bundles the extension into dist/extension.js, or with --test the unit tests
// into build/.
import { readdirSync } from 'node:fs';
import { build } from 'esbuild';

const test = process.argv.includes('--test');
await build({
	entryPoints: test ? readdirSync('test').map((f) => `test/${f}`) : ['src/extension.ts'],
	outdir: test ? 'build' : 'dist',
	outExtension: { '.js': test ? '.cjs' : '.js' },
	bundle: true,
	platform: 'node',
	target: 'node20',
	format: 'cjs',
	external: ['vscode'],
	minify: !test,
	legalComments: 'none',
	logLevel: 'warning',
});
