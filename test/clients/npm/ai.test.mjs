// Vercel's ai package, with each of its providers that work with the bridge.
import assert from 'node:assert/strict';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError, generateObject, generateText, Output, stepCountIs, streamObject, streamText, tool } from 'ai';
import { z } from 'zod';
import { answers, bridge, check, fails, hang, model, place, png, reported, say, strict, think, token, told, until, weather } from './check.mjs';

// Each provider package, and how it connects to the bridge.
const ways = {
  'openai, responses': (url, apiKey) => createOpenAI({ baseURL: url + '/v1', apiKey }),
  'openai, chat': (url, apiKey) => createOpenAI({ baseURL: url + '/v1', apiKey }).chat,
  'openai-compatible': (url, apiKey) => createOpenAICompatible({ name: 'bridge', baseURL: url + '/v1', apiKey, includeUsage: true, supportsStructuredOutputs: true }),
  anthropic: (url, apiKey) => createAnthropic({ baseURL: url + '/v1', apiKey }),
};
const thinks = {
  'openai, responses': { openai: { reasoningSummary: 'auto', forceReasoning: true } },
  'openai-compatible': {},
  anthropic: { anthropic: { thinking: { type: 'enabled', budgetTokens: 1024 } } },
};
const schema = z.object({ city: z.string(), people: z.number().int() });
const rome = { city: 'Rome', people: 2750000 };

for (const [way, connect] of Object.entries(ways)) {
  const llm = connect(bridge, 'any')(model);
  const guarded = connect(strict, token)(model);
  // Rome is slower, so the results arrive in a different order than the calls.
  const wait = { Rome: 30, Oslo: 0 };
  const tools = { weather: tool({ description: 'The weather', inputSchema: z.object({ city: z.string() }), execute: async ({ city }) => {
    await new Promise(resolve => setTimeout(resolve, wait[city]));
    return answers[city];
  } }) };

  check(`${way}: whole`, async () => {
    const r = await generateText({ model: llm, system: 'Be brief.', prompt: say('Hello, world.') });
    assert.deepEqual([r.text, r.finishReason], ['Hello, world.', 'stop']);
    assert.ok(r.usage.inputTokens > 0 && r.usage.outputTokens > 0);
  });

  check(`${way}: stream`, async () => {
    const r = streamText({ model: llm, prompt: 'rehearsal: chunks one |two |three' });
    const deltas = [];
    for await (const delta of r.textStream) deltas.push(delta);
    assert.deepEqual(deltas, ['one ', 'two ', 'three']);
    assert.equal(await r.finishReason, 'stop');
    assert.ok((await r.usage).outputTokens > 0);
  });

  check(`${way}: system text and images reach the model`, async () => {
    const r = await generateText({ model: llm, system: 'Speak Latin.', messages: [
      { role: 'user', content: [{ type: 'text', text: told }, { type: 'image', image: png, mediaType: 'image/png' }] }] });
    const got = JSON.parse(r.text);
    assert.match(got.system, /Speak Latin\./);
    assert.equal(got.images, 1);
  });

  if (thinks[way]) {
    check(`${way}: reasoning`, async () => {
      const r = await generateText({ model: llm, prompt: think, providerOptions: thinks[way] });
      assert.deepEqual([r.reasoningText, r.text], ['First I think.', 'Then I speak.']);
    });
  }

  check(`${way}: two parallel calls`, async () => {
    const r = await generateText({ model: llm, prompt: weather, tools, stopWhen: stepCountIs(4) });
    assert.deepEqual(r.steps[0].toolCalls.map(c => c.input.city), ['Rome', 'Oslo']);
    assert.deepEqual([r.steps.length, r.text], [2, reported]);
  });

  check(`${way}: two parallel calls, stream`, async () => {
    const r = streamText({ model: llm, prompt: weather, tools, stopWhen: stepCountIs(4) });
    let text = '';
    for await (const delta of r.textStream) text += delta;
    assert.equal(text, 'Let me look.' + reported);
    assert.equal((await r.steps).length, 2);
    // The conversation continues.
    const next = await generateText({ model: llm, tools, messages: [
      { role: 'user', content: weather }, ...(await r.response).messages, { role: 'user', content: say('Good-bye.') }] });
    assert.equal(next.text, 'Good-bye.');
  });

  // The defaults change the calls in the history, but the turn still works.
  check(`${way}: a schema with defaults`, async () => {
    const tools = { weather: tool({ description: 'The weather', inputSchema: z.object({ city: z.string(), unit: z.enum(['C', 'F']).default('C') }),
      execute: async ({ city }) => answers[city] }) };
    const r = await generateText({ model: llm, prompt: weather, tools, stopWhen: stepCountIs(4) });
    assert.equal(r.steps[0].toolCalls[0].input.unit, 'C');
    assert.deepEqual([r.steps.length, r.text], [2, reported]);
  });

  check(`${way}: structured output`, async () => {
    assert.deepEqual((await generateObject({ model: llm, prompt: place, schema })).object, rome);
    const stream = streamObject({ model: llm, prompt: place, schema });
    for await (const partial of stream.partialObjectStream) assert.ok(typeof partial === 'object');
    assert.deepEqual(await stream.object, rome);
    const r = await generateText({ model: llm, prompt: place, output: Output.object({ schema }) });
    assert.deepEqual(r.output, rome);
  });

  check(`${way}: abort`, async () => {
    const stop = new AbortController();
    const r = streamText({ model: llm, prompt: hang, abortSignal: stop.signal, onError: () => {} });
    let text = '', aborted = false;
    for await (const part of r.fullStream) {
      if (part.type === 'text-delta') text += part.text;
      if (part.type === 'abort') aborted = true;
      if (text === 'one two ' && !stop.signal.aborted) await until(1).then(() => stop.abort());
    }
    assert.ok(aborted);
    await until(0);
  });

  check(`${way}: errors`, async () => {
    for (const [what, llm, status] of [
      ['no token', connect(strict, 'wrong')(model), 401],
      ['unknown model', connect(bridge, 'any')('none'), 404],
    ]) {
      const e = await fails(generateText({ model: llm, prompt: 'x', maxRetries: 0 }), APICallError);
      assert.deepEqual([what, e.statusCode, e.isRetryable], [what, status, false]);
    }
    const e = await fails(generateText({ model: guarded, prompt: 'rehearsal: status 400 too many bananas', maxRetries: 0 }), APICallError);
    assert.equal(e.statusCode, 400);
    assert.match(e.message, /too many bananas/);
  });

  check(`${way}: busy`, async () => {
    const stop = new AbortController();
    const held = streamText({ model: guarded, prompt: hang, abortSignal: stop.signal, onError: () => {} });
    for await (const delta of held.textStream) if (delta === 'two ') break;
    const e = await fails(generateText({ model: guarded, prompt: 'x', maxRetries: 0 }), APICallError);
    assert.deepEqual([e.statusCode, e.isRetryable], [429, true]);
    stop.abort();
    await until(0, strict);
  });

  check(`${way}: error in mid-stream`, async () => {
    const errors = [];
    const r = streamText({ model: guarded, prompt: 'rehearsal: chunks one |two \nrehearsal: delay 300ms\nrehearsal: cut', maxRetries: 0,
      onError: ({ error }) => errors.push(error) });
    let text = '';
    for await (const delta of r.textStream) text += delta;
    assert.equal(text, 'one two ');
    assert.equal(errors.length, 1);
  });
}
