// The conversation.

import {ask, find, readEvents} from './server.js';

const turns = find('turns');
let chats = true;      // whether the model has a chat template; else it continues each text by itself
let embeds = false;    // whether it is an encoder, which writes nothing
let messages = [];
let running = null;  // the AbortController of the present answer

function follow(change) {
  const follows = turns.scrollHeight - turns.scrollTop - turns.clientHeight < 60;
  change();
  if (follows) turns.scrollTop = turns.scrollHeight;
}

function add(kind, text) {
  const turn = document.createElement('div');
  turn.className = 'turn ' + kind;
  turn.textContent = text;  // never as HTML
  follow(() => turns.append(turn));
  return turn;
}

// Screen readers read an answer when it is complete.
function show(busy) {
  find('send').hidden = busy;
  find('stop').hidden = !busy;
  turns.setAttribute('aria-busy', busy);
}

function requestFor(text) {
  const body = {stream: true, stream_options: {include_usage: true}};
  const temperature = find('temperature').valueAsNumber;
  const most = find('most').valueAsNumber;
  if (!Number.isNaN(temperature)) body.temperature = temperature;
  if (!Number.isNaN(most)) body.max_tokens = most;
  const system = find('system').value.trim();
  if (!chats) return ['v1/completions', {...body, prompt: text}];
  const all = system ? [{role: 'system', content: system}, ...messages] : messages;
  return ['v1/chat/completions', {...body, messages: all}];
}

function describe(usage, begin, first, end) {
  let text = `${usage.prompt_tokens} + ${usage.completion_tokens} tokens, first after ${((first - begin) / 1000).toFixed(2)} s`;
  if (usage.completion_tokens > 1 && end > first)
    text += `, then ${((usage.completion_tokens - 1) / (end - first) * 1000).toFixed(1)} a second`;
  return text;
}

async function answer(asked) {
  const chat = messages;
  const own = running = new AbortController();
  show(true);
  chat.push({role: 'user', content: asked});
  const question = add('user', asked);
  const turn = add('assistant', '');
  turns.scrollTop = turns.scrollHeight;
  const begin = performance.now();
  let first = 0;
  let text = '';
  let usage = null;
  let reason = '';
  let note = '';
  let failed = false;
  try {
    const reply = await ask(...requestFor(asked), own.signal);
    await readEvents(reply.body, (part) => {
      usage = part.usage ?? usage;
      const choice = part.choices?.[0];
      reason = choice?.finish_reason ?? reason;
      const more = choice?.delta?.content ?? choice?.text;
      if (!more) return;
      first ||= performance.now();
      text += more;
      // A text node. Models begin with a space.
      follow(() => turn.append(text === more ? more.trimStart() : more));
    });
    if (usage) note = describe(usage, begin, first || performance.now(), performance.now());
    if (reason === 'length') note += '. The answer ends at its limit of tokens.';
  } catch (error) {
    failed = error.name !== 'AbortError';
    note = failed ? error.message : 'Stopped.';
  }
  if (running === own) {
    running = null;
    show(false);
  }
  if (chat !== messages) return;  // a new chat has begun
  if (text) {
    chat.push({role: 'assistant', content: text});
  } else if (failed || !usage) {  // what was not answered is not part of the chat
    chat.pop();
    turn.remove();
    question.remove();
    if (!find('text').value) find('text').value = asked;
  }
  if (note) add(failed ? 'note bad' : 'note', note);
  find('text').focus();
}

function stop() {
  running?.abort();
}

find('ask').addEventListener('submit', (event) => {
  event.preventDefault();
  const text = find('text').value;
  if (!text.trim() || running) return;
  find('text').value = '';
  answer(text);
});
find('text').addEventListener('keydown', (event) => {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  find('ask').requestSubmit();
});
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && !find('login').open) stop();
});
find('stop').addEventListener('click', stop);
find('reset').addEventListener('click', () => {
  stop();
  messages = [];
  turns.replaceChildren();
  introduce();
  find('text').focus();
});

function introduce() {
  if (embeds) return void add('note', 'This model is an encoder: it writes no text. Ask it for embeddings at /v1/embeddings.');
  if (!chats) add('note', 'This model has no chat template: it continues each text that you write, by itself.');
}

// Called with what /v1/cluster answers first.
function begin(cluster) {
  find('model').textContent = cluster.model;
  document.title = cluster.model + ' – tandem';
  chats = cluster.chats;
  embeds = cluster.embeds;
  find('send').disabled = find('text').disabled = embeds;
  find('system-row').hidden = !chats;
  introduce();
}

export {begin};
