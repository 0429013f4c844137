// The openai package on chat completions.
import assert from 'node:assert/strict';
import OpenAI from 'openai';
import { zodResponseFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { answers, bridge, check, cityOnly, fails, hang, look, model, place, png, reported, say, schema, strict, think, token, told, until, weather } from './check.mjs';

const client = new OpenAI({ baseURL: bridge + '/v1', apiKey: 'any', maxRetries: 0 });
const guarded = new OpenAI({ baseURL: strict + '/v1', apiKey: token, maxRetries: 0 });
const user = content => [{ role: 'user', content }];
const tools = [{ type: 'function', function: { name: 'weather', description: 'The weather', parameters: cityOnly, strict: true } }];

check('model list', async () => {
  const ids = [];
  for await (const m of client.models.list()) ids.push(m.id);
  assert.deepEqual(ids, [model, 'agent/' + model]);
  assert.equal((await client.models.retrieve('agent/' + model)).object, 'model');
});

check('whole', async () => {
  const c = await client.chat.completions.create({ model, messages: [{ role: 'system', content: 'Be brief.' }, ...user(say('Hello, world.'))] });
  assert.equal(c.object, 'chat.completion');
  assert.deepEqual(c.choices.map(x => [x.message.content, x.finish_reason]), [['Hello, world.', 'stop']]);
  assert.ok(c.usage.prompt_tokens > 0 && c.usage.completion_tokens > 0 && c.usage.total_tokens === c.usage.prompt_tokens + c.usage.completion_tokens);
});

check('from the environment', async () => {
  Object.assign(process.env, { OPENAI_BASE_URL: bridge + '/v1', OPENAI_API_KEY: 'any' });
  const c = await new OpenAI().chat.completions.create({ model, messages: user(say('Found.')) });
  assert.equal(c.choices[0].message.content, 'Found.');
});

check('stream', async () => {
  const stream = await client.chat.completions.create({
    model, messages: user('rehearsal: chunks one |two |three'), stream: true, stream_options: { include_usage: true },
  });
  const deltas = [], ids = new Set();
  let usage, finish;
  for await (const chunk of stream) {
    ids.add(chunk.id);
    if (chunk.choices[0]?.delta.content) deltas.push(chunk.choices[0].delta.content);
    finish = chunk.choices[0]?.finish_reason ?? finish;
    usage = chunk.usage ?? usage;
  }
  assert.deepEqual(deltas, ['one ', 'two ', 'three']);
  assert.equal(ids.size, 1);
  assert.equal(finish, 'stop');
  assert.ok(usage.completion_tokens > 0);
});

check('stream helper', async () => {
  const stream = client.chat.completions.stream({ model, messages: user(say('a b c')) });
  let text = '';
  stream.on('content', delta => (text += delta));
  assert.equal(await stream.finalContent(), 'a b c');
  assert.equal(text, 'a b c');
});

check('system text and images reach the model', async () => {
  const c = await client.chat.completions.create({
    model,
    messages: [{ role: 'system', content: 'Speak Latin.' }, ...user([
      { type: 'text', text: told }, { type: 'image_url', image_url: { url: 'data:image/png;base64,' + png } },
    ])],
  });
  const got = JSON.parse(c.choices[0].message.content);
  assert.match(got.system, /Speak Latin\./);
  assert.equal(got.images, 1);
  assert.deepEqual(got.tools, []);
});

check('a conversation', async () => {
  const messages = user(say('First.'));
  for (const next of ['Second.', 'Third.']) {
    const c = await client.chat.completions.create({ model, messages });
    messages.push(c.choices[0].message, ...user(say(next)));
  }
  const c = await client.chat.completions.create({ model, messages });
  assert.equal(c.choices[0].message.content, 'Third.');
});

check('reasoning', async () => {
  const c = await client.chat.completions.create({ model, messages: user(think) });
  assert.equal(c.choices[0].message.content, 'Then I speak.');
  assert.equal(c.choices[0].message.reasoning_content, 'First I think.');
});

check('the agent', async () => {
  const c = await client.chat.completions.create({ model: 'agent/' + model, messages: user(look) });
  assert.equal(c.choices[0].message.content, 'Nothing here.');
  assert.match(c.choices[0].message.reasoning_content, /▸ bash: ls/);
});

for (const stream of [false, true]) {
  check(`two parallel calls, results swapped, stream ${stream}`, async () => {
    const ask = async messages => stream
      ? client.chat.completions.stream({ model, messages, tools }).finalChatCompletion()
      : client.chat.completions.create({ model, messages, tools });
    const messages = user(weather);
    const first = (await ask(messages)).choices[0];
    assert.equal(first.finish_reason, 'tool_calls');
    assert.equal(first.message.content, 'Let me look.');
    const calls = first.message.tool_calls;
    assert.deepEqual(calls.map(c => [c.type, c.function.name, JSON.parse(c.function.arguments).city]),
      [['function', 'weather', 'Rome'], ['function', 'weather', 'Oslo']]);
    messages.push(first.message, ...calls.toReversed().map(c => (
      { role: 'tool', tool_call_id: c.id, content: answers[JSON.parse(c.function.arguments).city] })));
    const second = (await ask(messages)).choices[0];
    assert.equal(second.finish_reason, 'stop');
    assert.equal(second.message.content, reported);
  });

  check(`runTools, stream ${stream}`, async () => {
    const seen = [];
    const run = client.chat.completions.runTools({
      model, messages: user(weather), stream,
      tools: [{ type: 'function', function: { name: 'weather', description: 'The weather', parameters: cityOnly, parse: JSON.parse,
        function: ({ city }) => (seen.push(city), answers[city]) } }],
    });
    assert.equal(await run.finalContent(), reported);
    assert.deepEqual(seen.toSorted(), ['Oslo', 'Rome']);
  });
}

check('tool choice', async () => {
  for (const [choice, offered] of [['auto', ['weather']], ['none', []]]) {
    const c = await client.chat.completions.create({ model, messages: user(told), tools, tool_choice: choice });
    assert.deepEqual(JSON.parse(c.choices[0].message.content).tools, offered);
  }
});

check('structured output', async () => {
  const format = zodResponseFormat(z.object({ city: z.string(), people: z.number().int() }), 'place');
  const c = await client.chat.completions.parse({ model, messages: user(place), response_format: format });
  assert.deepEqual(c.choices[0].message.parsed, { city: 'Rome', people: 2750000 });
  const raw = await client.chat.completions.create({
    model, messages: user(told), response_format: { type: 'json_schema', json_schema: { name: 'place', schema, strict: true } },
  });
  const { format: got } = JSON.parse(raw.choices[0].message.content);
  assert.deepEqual([got.type, got.schema], ['json_schema', schema]);
});

check('abort', async () => {
  const stream = await client.chat.completions.create({ model, messages: user(hang), stream: true });
  await until(1);
  let text = '';
  for await (const chunk of stream) {
    text += chunk.choices[0].delta.content ?? '';
    if (text === 'one two ') stream.controller.abort();
  }
  await until(0);
});

check('abort while waiting', async () => {
  const stop = new AbortController();
  const waiting = client.chat.completions.create({ model, messages: user('rehearsal: silence') }, { signal: stop.signal });
  waiting.catch(() => {}); // looked at below
  await until(1);
  stop.abort();
  await fails(waiting, OpenAI.APIUserAbortError);
  await until(0);
});

check('error: no token', async () => {
  const stranger = new OpenAI({ baseURL: strict + '/v1', apiKey: 'wrong', maxRetries: 0 });
  const e = await fails(stranger.chat.completions.create({ model, messages: user('x') }), OpenAI.AuthenticationError);
  assert.deepEqual([e.status, e.code], [401, 'invalid_api_key']);
  assert.ok((await guarded.models.list()).data.length > 0);
});

check('error: unknown model', async () => {
  const e = await fails(client.chat.completions.create({ model: 'gpt-none', messages: user('x') }), OpenAI.NotFoundError);
  assert.deepEqual([e.status, e.code, e.param], [404, 'model_not_found', 'model']);
  assert.match(e.message, new RegExp(model));
});

check('error: bad body', async () => {
  const e = await fails(client.chat.completions.create({ model, messages: [{ role: 'user', content: 5 }] }), OpenAI.BadRequestError);
  assert.deepEqual([e.status, e.type, e.param], [400, 'invalid_request_error', 'messages[0].content']);
});

check('error: busy', async () => {
  const stream = await guarded.chat.completions.create({ model, messages: user(hang), stream: true });
  const e = await fails(guarded.chat.completions.create({ model, messages: user('x') }), OpenAI.RateLimitError);
  assert.equal(e.status, 429);
  assert.ok(Number(e.headers.get('retry-after')) > 0);
  stream.controller.abort();
  await until(0, strict);
});

check('error: from the provider', async () => {
  const e = await fails(guarded.chat.completions.create({ model, messages: user('rehearsal: status 400 too many bananas') }), OpenAI.BadRequestError);
  assert.match(e.message, /too many bananas/);
});

check('error: in mid-stream', async () => {
  const stream = await guarded.chat.completions.create({ model, messages: user('rehearsal: chunks one |two \nrehearsal: delay 300ms\nrehearsal: cut'), stream: true });
  let text = '';
  const e = await fails((async () => {
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? '';
  })(), OpenAI.APIError);
  assert.equal(text, 'one two ');
  assert.ok(e.code, 'it has no code');
});
