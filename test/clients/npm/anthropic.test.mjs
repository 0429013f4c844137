// The @anthropic-ai/sdk package.
import assert from 'node:assert/strict';
import Anthropic from '@anthropic-ai/sdk';
import { betaZodTool } from '@anthropic-ai/sdk/helpers/beta/zod';
import { zodOutputFormat } from '@anthropic-ai/sdk/helpers/zod';
import { z } from 'zod';
import { answers, bridge, check, cityOnly, fails, hang, look, model, place, png, reported, say, schema, strict, think, token, told, until, weather } from './check.mjs';

const client = new Anthropic({ baseURL: bridge, apiKey: 'any', maxRetries: 0 });
const guarded = new Anthropic({ baseURL: strict, apiKey: token, maxRetries: 0 });
const ask = (content, more) => ({ model, max_tokens: 4096, messages: [{ role: 'user', content }], ...more });
const tools = [{ name: 'weather', description: 'The weather', input_schema: cityOnly }];
const text = m => m.content.filter(b => b.type === 'text').map(b => b.text).join('');

check('model list', async () => {
  const ids = [];
  for await (const m of client.models.list()) ids.push(m.id);
  assert.deepEqual(ids, [model, 'agent/' + model]);
  const m = await client.models.retrieve('agent/' + model);
  assert.deepEqual([m.id, m.type, m.display_name], ['agent/' + model, 'model', model + ' (agent)']);
  assert.ok(!Number.isNaN(Date.parse(m.created_at)));
});

check('whole', async () => {
  const m = await client.messages.create(ask(say('Hello, world.'), { system: 'Be brief.' }));
  assert.deepEqual([m.type, m.role, m.stop_reason, text(m)], ['message', 'assistant', 'end_turn', 'Hello, world.']);
  assert.ok(m.usage.input_tokens > 0 && m.usage.output_tokens > 0 && m._request_id);
});

check('from the environment', async () => {
  Object.assign(process.env, { ANTHROPIC_BASE_URL: bridge, ANTHROPIC_API_KEY: 'any' });
  assert.equal(text(await new Anthropic().messages.create(ask(say('Found.')))), 'Found.');
});

check('stream', async () => {
  const types = [], deltas = [];
  for await (const e of await client.messages.create(ask('rehearsal: chunks one |two |three', { stream: true }))) {
    if (e.type !== 'ping') types.push(e.type);
    if (e.type === 'content_block_delta') deltas.push(e.delta.text);
  }
  assert.deepEqual(deltas, ['one ', 'two ', 'three']);
  assert.deepEqual(types, ['message_start', 'content_block_start', 'content_block_delta', 'content_block_delta', 'content_block_delta',
    'content_block_stop', 'message_delta', 'message_stop']);
});

check('stream helper', async () => {
  const stream = client.messages.stream(ask(say('a b c')));
  let seen = '';
  stream.on('text', delta => (seen += delta));
  const m = await stream.finalMessage();
  assert.deepEqual([seen, text(m), m.stop_reason], ['a b c', 'a b c', 'end_turn']);
  assert.ok(m.usage.output_tokens > 0);
});

check('system text and images reach the model', async () => {
  const m = await client.messages.create(ask(
    [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: png } }, { type: 'text', text: told }],
    { system: [{ type: 'text', text: 'Speak Latin.', cache_control: { type: 'ephemeral' } }] }));
  const got = JSON.parse(text(m));
  assert.match(got.system, /Speak Latin\./);
  assert.equal(got.images, 1);
});

check('thinking', async () => {
  const wanted = { thinking: { type: 'enabled', budget_tokens: 1024 } };
  const stream = client.messages.stream(ask(think, wanted));
  let thought = '';
  stream.on('thinking', delta => (thought += delta));
  const m = await stream.finalMessage();
  assert.deepEqual(m.content.map(b => b.type), ['thinking', 'text']);
  assert.deepEqual([thought, m.content[0].thinking, text(m)], ['First I think.', 'First I think.', 'Then I speak.']);
  assert.ok(m.content[0].signature);
  const next = await client.messages.create({ ...ask(think), messages: [
    { role: 'user', content: think }, { role: 'assistant', content: m.content }, { role: 'user', content: say('And so on.') }], ...wanted });
  assert.equal(text(next), 'And so on.');
});

check('the agent', async () => {
  const m = await client.messages.stream(ask(look, { model: 'agent/' + model, thinking: { type: 'adaptive' } })).finalMessage();
  assert.equal(text(m), 'Nothing here.');
  assert.match(m.content.find(b => b.type === 'thinking').thinking, /▸ bash: ls/);
});

for (const stream of [false, true]) {
  check(`two parallel calls, results swapped, stream ${stream}`, async () => {
    const send = async messages => stream
      ? client.messages.stream({ ...ask(''), tools, messages }).finalMessage()
      : client.messages.create({ ...ask(''), tools, messages });
    const messages = [{ role: 'user', content: weather }];
    const first = await send(messages);
    const calls = first.content.filter(b => b.type === 'tool_use');
    assert.deepEqual([first.stop_reason, text(first)], ['tool_use', 'Let me look.']);
    assert.deepEqual(calls.map(c => [c.name, c.input.city]), [['weather', 'Rome'], ['weather', 'Oslo']]);
    messages.push({ role: 'assistant', content: first.content }, { role: 'user', content: calls.toReversed().map(c => (
      { type: 'tool_result', tool_use_id: c.id, content: answers[c.input.city] })) });
    const second = await send(messages);
    assert.deepEqual([second.stop_reason, text(second)], ['end_turn', reported]);
  });
}

check('toolRunner', async () => {
  const tool = betaZodTool({ name: 'weather', description: 'The weather', inputSchema: z.object({ city: z.string() }), run: ({ city }) => answers[city] });
  const m = await client.beta.messages.toolRunner(ask(weather, { tools: [tool] }));
  assert.equal(text(m), reported);
});

check('a tool that fails', async () => {
  const messages = [{ role: 'user', content: 'rehearsal: tool weather {"city":"Rome"}' }];
  const first = await client.messages.create({ ...ask(''), tools, messages });
  messages.push({ role: 'assistant', content: first.content },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: first.content[0].id, content: 'no such city', is_error: true }] });
  assert.match(text(await client.messages.create({ ...ask(''), tools, messages })), /no such city/);
});

check('structured output', async () => {
  const format = zodOutputFormat(z.object({ city: z.string(), people: z.number().int() }));
  const m = await client.messages.parse(ask(place, { output_config: { format } }));
  assert.deepEqual(m.parsed_output, { city: 'Rome', people: 2750000 });
  const raw = await client.messages.create(ask(told, { output_config: { format: { type: 'json_schema', schema } } }));
  const { format: got } = JSON.parse(text(raw));
  assert.deepEqual([got.type, got.schema], ['json_schema', schema]);
});

check('count tokens', async () => {
  const { input_tokens: n } = await client.messages.countTokens({ model, messages: [{ role: 'user', content: 'How many tokens are these words?' }] });
  assert.ok(n > 4 && n < 30, String(n));
});

check('abort', async () => {
  const stream = client.messages.stream(ask(hang));
  let seen = '';
  stream.on('text', delta => {
    seen += delta;
    if (seen === 'one two ') until(1).then(() => stream.abort());
  });
  await fails(stream.done(), Anthropic.APIUserAbortError);
  await until(0);
});

check('error: no token', async () => {
  const stranger = new Anthropic({ baseURL: strict, apiKey: 'wrong', maxRetries: 0 });
  const e = await fails(stranger.messages.create(ask('x')), Anthropic.AuthenticationError);
  assert.deepEqual([e.status, e.type], [401, 'authentication_error']);
  const bearer = new Anthropic({ baseURL: strict, authToken: token, apiKey: null, maxRetries: 0 });
  assert.equal(text(await bearer.messages.create(ask(say('Come in.')))), 'Come in.');
});

check('error: unknown model', async () => {
  const e = await fails(client.messages.create({ ...ask('x'), model: 'claude-none' }), Anthropic.NotFoundError);
  assert.deepEqual([e.status, e.type], [404, 'not_found_error']);
  assert.ok(e.requestID);
});

check('error: bad body', async () => {
  const e = await fails(client.messages.create({ model, messages: [{ role: 'user', content: 'x' }] }), Anthropic.BadRequestError);
  assert.deepEqual([e.status, e.type], [400, 'invalid_request_error']);
  assert.match(e.message, /max_tokens/);
});

check('error: busy', async () => {
  const stream = await guarded.messages.create(ask(hang, { stream: true }));
  const e = await fails(guarded.messages.create(ask('x')), Anthropic.RateLimitError);
  assert.deepEqual([e.status, e.type], [429, 'rate_limit_error']);
  assert.ok(Number(e.headers.get('retry-after')) > 0);
  stream.controller.abort();
  await until(0, strict);
});

check('error: from the provider', async () => {
  const e = await fails(guarded.messages.create(ask('rehearsal: status 400 too many bananas')), Anthropic.BadRequestError);
  assert.match(e.message, /too many bananas/);
});

check('error: in mid-stream', async () => {
  let seen = '';
  const stream = guarded.messages.stream(ask('rehearsal: chunks one |two \nrehearsal: delay 300ms\nrehearsal: cut'));
  stream.on('text', delta => (seen += delta));
  const e = await fails(stream.finalMessage(), Anthropic.APIError);
  assert.equal(seen, 'one two ');
  assert.ok(e.type, 'it has no type');
});
