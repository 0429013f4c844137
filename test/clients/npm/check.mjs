// Shared by the scripts. Two bridges are running: BRIDGE, and STRICT, which
// requires TOKEN, runs one turn at a time and does not retry.
import assert from 'node:assert/strict';
import { test } from 'node:test';

export const { BRIDGE: bridge, STRICT: strict, TOKEN: token, MODEL: model } = process.env;

// check is a test with a time limit. CHECKS says which are made.
const wanted = new RegExp(process.env.CHECKS ?? '');
export const check = (name, run) => wanted.test(name) && test(name, { timeout: 180_000 }, run);

// fails returns the error with which a promise is rejected.
export async function fails(promise, type) {
  try {
    await promise;
  } catch (e) {
    assert.ok(e instanceof type, `${e?.constructor?.name} is no ${type.name}: ${e?.message}`);
    return e;
  }
  assert.fail(`no ${type.name}`);
}

async function running(base) {
  const response = await fetch(base + '/metrics', { headers: { authorization: 'Bearer ' + token } });
  return Number(/^copilot_bridge_running_turns (\d+)$/m.exec(await response.text())[1]);
}

// until waits until this many turns are running.
export async function until(turns, base = bridge) {
  const deadline = Date.now() + 10_000;
  while ((await running(base)) !== turns) {
    assert.ok(Date.now() < deadline, `there are not ${turns} turns running`);
    await new Promise(resolve => setTimeout(resolve, 10));
  }
}

// Prompts for the demo model.
export const say = text => `rehearsal: text ${text}`;
export const hang = 'rehearsal: chunks one |two \nrehearsal: silence';
export const think = 'rehearsal: reason First I think.\nrehearsal: text Then I speak.';
// For the agent, which has its own tools in the workspace.
export const look = 'rehearsal: tool bash {"command":"ls","description":"Look around"}\nrehearsal: next\nrehearsal: text Nothing here.';
export const told = 'What were you told?';
// At the end of its script the model repeats the results of its tools, in the
// order of its calls.
export const weather = 'rehearsal: text Let me look.\n' +
  'rehearsal: tool weather {"city":"Rome"}\nrehearsal: tool weather {"city":"Oslo"}';
export const reported = 'The rehearsal script has ended.\nweather answered: sun in Rome\nweather answered: rain in Oslo';
export const answers = { Rome: 'sun in Rome', Oslo: 'rain in Oslo' };
export const place = 'rehearsal: text {"city":"Rome","people":2750000}';

export const schema = {
  type: 'object', properties: { city: { type: 'string' }, people: { type: 'integer' } },
  required: ['city', 'people'], additionalProperties: false,
};
export const cityOnly = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'], additionalProperties: false };

// A red dot.
export const png = 'iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4//8/w38GIAXDIBKE0DHxgljNBAAO9TXL0Y4OHwAAAABJRU5ErkJggg==';
