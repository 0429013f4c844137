// The openai package on responses.
import assert from 'node:assert/strict';
import OpenAI from 'openai';
import { zodTextFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { answers, bridge, check, cityOnly, fails, hang, model, place, png, reported, say, schema, strict, think, token, told, until, weather } from './check.mjs';

const client = new OpenAI({ baseURL: bridge + '/v1', apiKey: 'any', maxRetries: 0 });
const guarded = new OpenAI({ baseURL: strict + '/v1', apiKey: token, maxRetries: 0 });
const tools = [{ type: 'function', name: 'weather', description: 'The weather', parameters: cityOnly, strict: true }];
const outputs = calls => calls.map(c => ({ type: 'function_call_output', call_id: c.call_id, output: answers[JSON.parse(c.arguments).city] }));

check('whole', async () => {
  const r = await client.responses.create({ model, instructions: 'Be brief.', input: say('Hello, world.') });
  assert.deepEqual([r.object, r.status, r.output_text], ['response', 'completed', 'Hello, world.']);
  assert.ok(r.usage.input_tokens > 0 && r.usage.output_tokens > 0);
});

check('stream', async () => {
  const types = [], deltas = [];
  let last;
  for await (const e of await client.responses.create({ model, input: 'rehearsal: chunks one |two |three', stream: true })) {
    assert.equal(e.sequence_number, types.length);
    types.push(e.type);
    if (e.type === 'response.output_text.delta') deltas.push(e.delta);
    last = e;
  }
  assert.deepEqual(deltas, ['one ', 'two ', 'three']);
  assert.deepEqual(types.slice(0, 4), ['response.created', 'response.in_progress', 'response.output_item.added', 'response.content_part.added']);
  assert.equal(last.type, 'response.completed');
  assert.equal(last.response.output[0].content[0].text, 'one two three');
});

check('system text and images reach the model', async () => {
  const r = await client.responses.create({
    model, instructions: 'Speak Latin.',
    input: [{ role: 'user', content: [{ type: 'input_text', text: told }, { type: 'input_image', detail: 'auto', image_url: 'data:image/png;base64,' + png }] }],
  });
  const got = JSON.parse(r.output_text);
  assert.match(got.system, /Speak Latin\./);
  assert.equal(got.images, 1);
});

check('reasoning', async () => {
  const r = await client.responses.stream({ model, input: think, reasoning: { summary: 'auto' } }).finalResponse();
  assert.deepEqual(r.output.map(o => o.type), ['reasoning', 'message']);
  assert.equal(r.output[0].summary[0].text, 'First I think.');
  assert.equal(r.output_text, 'Then I speak.');
});

check('previous_response_id', async () => {
  const first = await client.responses.create({ model, input: say('First.') });
  const second = await client.responses.create({ model, input: say('Second.'), previous_response_id: first.id });
  assert.deepEqual([second.output_text, second.previous_response_id], ['Second.', first.id]);
  const e = await fails(client.responses.create({ model, input: 'x', previous_response_id: 'resp_none' }), OpenAI.NotFoundError);
  assert.equal(e.code, 'previous_response_not_found');
});

for (const stream of [false, true]) {
  for (const how of ['history', 'previous_response_id']) {
    check(`two parallel calls, results swapped, by ${how}, stream ${stream}`, async () => {
      const ask = async more => stream
        ? client.responses.stream({ model, tools, ...more }).finalResponse()
        : client.responses.create({ model, tools, ...more });
      const input = [{ role: 'user', content: weather }];
      const first = await ask({ input });
      const calls = first.output.filter(o => o.type === 'function_call');
      assert.deepEqual(calls.map(c => [c.name, JSON.parse(c.arguments).city]), [['weather', 'Rome'], ['weather', 'Oslo']]);
      assert.equal(first.output_text, 'Let me look.');
      const results = outputs(calls).toReversed();
      const second = await ask(how === 'history' ? { input: [...input, ...first.output, ...results] } : { input: results, previous_response_id: first.id });
      assert.equal(second.output_text, reported);
    });
  }
}

check('custom tool', async () => {
  const r = await client.responses.create({
    model, input: 'rehearsal: tool note {"input":"plain words"}', tools: [{ type: 'custom', name: 'note', description: 'Takes a note' }],
  });
  const call = r.output.find(o => o.type === 'custom_tool_call');
  assert.deepEqual([call.name, call.input], ['note', 'plain words']);
  const end = await client.responses.create({
    model, previous_response_id: r.id, tools: [{ type: 'custom', name: 'note', description: 'Takes a note' }],
    input: [{ type: 'custom_tool_call_output', call_id: call.call_id, output: 'noted' }],
  });
  assert.match(end.output_text, /note answered: noted$/);
});

check('structured output', async () => {
  const format = zodTextFormat(z.object({ city: z.string(), people: z.number().int() }), 'place');
  const r = await client.responses.parse({ model, input: place, text: { format } });
  assert.deepEqual(r.output_parsed, { city: 'Rome', people: 2750000 });
  const raw = await client.responses.create({ model, input: told, text: { format: { type: 'json_schema', name: 'place', schema, strict: true } } });
  const { format: got } = JSON.parse(raw.output_text);
  assert.deepEqual([got.type, got.schema], ['json_schema', schema]);
});

check('abort', async () => {
  const stream = await client.responses.create({ model, input: hang, stream: true });
  await until(1);
  let text = '';
  for await (const e of stream) {
    if (e.type === 'response.output_text.delta') text += e.delta;
    if (text === 'one two ') stream.controller.abort();
  }
  await until(0);
});

check('error: no token', async () => {
  const stranger = new OpenAI({ baseURL: strict + '/v1', apiKey: 'wrong', maxRetries: 0 });
  await fails(stranger.responses.create({ model, input: 'x' }), OpenAI.AuthenticationError);
});

check('error: unknown model', async () => {
  const e = await fails(client.responses.create({ model: 'gpt-none', input: 'x' }), OpenAI.NotFoundError);
  assert.deepEqual([e.code, e.param], ['model_not_found', 'model']);
});

check('error: bad body', async () => {
  const e = await fails(client.responses.create({ model, input: [{ type: 'nonsense' }] }), OpenAI.BadRequestError);
  assert.match(e.param, /^input\[0\]/);
});

check('error: busy', async () => {
  const stream = await guarded.responses.create({ model, input: hang, stream: true });
  const e = await fails(guarded.responses.create({ model, input: 'x' }), OpenAI.RateLimitError);
  assert.ok(Number(e.headers.get('retry-after')) > 0);
  stream.controller.abort();
  await until(0, strict);
});

check('error: in mid-stream', async () => {
  let text = '';
  const stream = guarded.responses.stream({ model, input: 'rehearsal: chunks one |two \nrehearsal: delay 300ms\nrehearsal: cut' });
  stream.on('response.output_text.delta', e => (text += e.delta));
  const e = await fails(stream.finalResponse(), OpenAI.OpenAIError);
  assert.equal(text, 'one two ');
  assert.ok(e.message);
});
