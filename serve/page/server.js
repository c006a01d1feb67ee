// Requests to the server that this page is from, with its token if it asks for one.

const find = (id) => document.getElementById(id);
const kKey = 'tandem-token';
let waiting = [];      // for a token that is being asked for
let declined = false;  // whether the user closed that dialog

function headers(token) {
  const all = {'Content-Type': 'application/json'};
  if (token) all.Authorization = 'Bearer ' + token;
  return all;
}

// Returns once the user has given a token, or closed the dialog.
function askForToken(note) {
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
  find('login').close('given');
});
find('login').addEventListener('close', () => {
  declined = find('login').returnValue !== 'given';
  find('login').returnValue = '';
  for (const resolve of waiting.splice(0)) resolve();
});

async function messageOf(reply) {
  try {
    return (await reply.json()).error.message;
  } catch {
    return `The server answered with HTTP status ${reply.status}.`;  // not of the API
  }
}

// Returns a reply with status 200. Throws an Error with a text for the user; an AbortError if `signal` stopped it. After the user
// has closed the dialog for the token, only requests with a body open it again.
async function ask(path, body, signal) {
  if (body) declined = false;
  for (;;) {
    const token = sessionStorage.getItem(kKey);
    let reply;
    try {
      const options = body ? {method: 'POST', body: JSON.stringify(body)} : {};
      reply = await fetch(path, {...options, headers: headers(token), signal});
    } catch (error) {
      if (error.name === 'AbortError') throw error;
      throw new Error('The server cannot be reached.');
    }
    if (reply.ok) return reply;
    if (reply.status !== 401 || declined) throw new Error(await messageOf(reply));
    if (sessionStorage.getItem(kKey) !== token) continue;  // another request has got one since
    await askForToken(token ? 'The server refused the token that was given.' : '');
    if (declined) throw new Error(await messageOf(reply));
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
