// Requests to the server that this page is from, with its token if it asks for one.

const find = (id) => document.getElementById(id);
const kUnreachable = 'The server cannot be reached.';
const kKey = 'tandem-token';
let waiting = [];  // for a token that is being asked for

function headers() {
  const token = sessionStorage.getItem(kKey);
  const all = {'Content-Type': 'application/json'};
  if (token) all.Authorization = 'Bearer ' + token;
  return all;
}

// Returns after the user has given a token.
function askForToken() {
  const note = sessionStorage.getItem(kKey) ? 'The server refused the token that was given.' : '';
  if (!find('login').open) {
    find('login-note').textContent = note;
    find('login').showModal();
  }
  return new Promise((resolve) => waiting.push(resolve));
}

find('login-form').addEventListener('submit', (event) => {
  event.preventDefault();
  sessionStorage.setItem(kKey, find('token').value.trim());
  find('token').value = '';
  find('login').close();
});
find('login').addEventListener('close', () => {
  for (const resolve of waiting.splice(0)) resolve();
});

// Returns a reply with status 200. Throws an Error with a text for the user; 'AbortError' if `signal` stopped it.
async function ask(path, body, signal) {
  for (let asked = false;; asked = true) {
    let reply;
    try {
      const options = body ? {method: 'POST', body: JSON.stringify(body)} : {};
      reply = await fetch(path, {...options, headers: headers(), signal});
    } catch (error) {
      if (error.name === 'AbortError') throw error;
      throw new Error(kUnreachable);
    }
    if (reply.ok) return reply;
    const token = sessionStorage.getItem(kKey);
    if (reply.status === 401) {
      await askForToken();
      if (sessionStorage.getItem(kKey) !== token || !asked) continue;
    }
    let message = `The server answered with HTTP status ${reply.status}.`;
    try {
      message = (await reply.json()).error.message;
    } catch { /* not of the API */ }
    throw new Error(message);
  }
}

// Calls `take` with the JSON of each event of a stream. Throws as ask() does.
async function readEvents(body, take) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    let piece;
    try {
      piece = await reader.read();
    } catch (error) {
      if (error.name === 'AbortError') throw error;
      throw new Error('The connection ended before the answer did.');
    }
    if (piece.done) throw new Error('The connection ended before the answer did.');
    rest += piece.value;
    for (let end; (end = rest.indexOf('\n\n')) >= 0; rest = rest.slice(end + 2)) {
      const data = rest.slice(0, end).replace(/^data: /, '');
      if (data === '[DONE]') return;
      const part = JSON.parse(data);
      if (part.error) throw new Error(part.error.message);
      take(part);
    }
  }
}

export {ask, find, readEvents};
