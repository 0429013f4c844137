'use strict';
(() => {
  const $ = (id) => document.getElementById(id);

  // Copy buttons, for browsers that can copy.
  for (const pre of document.querySelectorAll('pre.example')) {
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'copy';
    button.textContent = 'Copy';
    button.addEventListener('click', async () => {
      let done = true;
      try {
        await navigator.clipboard.writeText(pre.textContent);
      } catch { // not over plain http from another machine
        getSelection().selectAllChildren(pre);
        done = document.execCommand('copy');
      }
      button.textContent = done ? 'Copied' : 'Press Ctrl-C';
      setTimeout(() => { button.textContent = 'Copy'; }, 2000);
    });
    pre.before(button);
  }

  const form = $('try');
  if (!form) return;
  const model = $('model'), answer = $('answer'), send = $('send'), stop = $('stop'), state = $('state');
  form.hidden = false;

  const reason = async (response) => {
    const body = await response.json().catch(() => ({}));
    return body.error?.message ?? `The bridge answered ${response.status}.`;
  };

  const list = async () => {
    const response = await fetch('/v1/models');
    if (!response.ok) throw new Error(await reason(response));
    const names = (await response.json()).data.map((m) => m.id);
    for (const [label, of] of [['Plain models', names.filter((n) => !n.startsWith('agent/'))], ['Agents in the workspace', names.filter((n) => n.startsWith('agent/'))]]) {
      if (of.length === 0) continue;
      const group = document.createElement('optgroup');
      group.label = label;
      for (const name of of) group.append(new Option(name, name, false, name === form.dataset.model));
      model.append(group);
    }
    send.disabled = names.length === 0;
    state.textContent = names.length === 0 ? 'There are no models.' : '';
  };
  list().catch((e) => { state.textContent = `The models cannot be listed: ${e.message}`; });

  let running = null;
  const ask = async () => {
    running = new AbortController();
    send.disabled = true;
    stop.hidden = false;
    answer.hidden = false;
    answer.textContent = '';
    state.textContent = 'Waiting for the answer…';
    try {
      const response = await fetch('/v1/chat/completions', {
        method: 'POST', signal: running.signal, headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ model: model.value, stream: true, messages: [{ role: 'user', content: $('message').value }] }),
      });
      if (!response.ok) throw new Error(await reason(response));
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = '';
      for (let { value, done } = await reader.read(); !done; { value, done } = await reader.read()) {
        const lines = (rest + value).split('\n');
        rest = lines.pop();
        for (const line of lines) {
          if (!line.startsWith('data: ') || line === 'data: [DONE]') continue;
          const event = JSON.parse(line.slice(6));
          if (event.error) throw new Error(event.error.message);
          answer.textContent += event.choices?.[0]?.delta?.content ?? ''; // as text: it may hold anything
        }
      }
      state.textContent = `Answered by ${model.value}.`;
    } catch (e) {
      state.textContent = e.name === 'AbortError' ? 'Stopped.' : `It failed: ${e.message}`;
    } finally {
      running = null;
      send.disabled = false;
      stop.hidden = true;
    }
  };
  form.addEventListener('submit', (e) => { e.preventDefault(); if (!running && !send.disabled) ask(); });
  stop.addEventListener('click', () => running?.abort());
  $('message').addEventListener('keydown', (e) => { if (e.key === 'Enter' && (e.ctrlKey || e.metaKey)) form.requestSubmit(); });
})();
