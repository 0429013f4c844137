import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fitsDialog, folded } from '../src/question';

test('a dialog shows what is short', () => {
	assert.ok(fitsDialog('Copilot wants to run: npm test\n\nin /work'));
	assert.ok(!fitsDialog('x\n'.repeat(20)));
	assert.ok(!fitsDialog(`echo ${' '.repeat(200)}; rm -rf ~`));
});

test('no character is lost when lines are folded', () => {
	const text = `a\n\n${'x'.repeat(250)}😀; rm -rf ~\nend`;
	const lines = folded(text).split('\n');
	assert.ok(lines.every((l) => Array.from(l).length <= 104));
	assert.equal(lines.join('\n').replaceAll('\n  ↪ ', ''), text);
});
