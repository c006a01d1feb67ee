// page.mjs TANDEM FOLDER: the page of `tandem serve` in Debian's Chromium. FOLDER has tiny/ (a model with a chat template), tiny-text/
// (without one) and plan.json; screenshots go there. Exit code 1 at the first expectation that does not hold. .ci/page prepares all of it.

import {spawn} from 'node:child_process';
import {writeFileSync} from 'node:fs';
import path from 'node:path';
import puppeteer from 'puppeteer-core';

const [tandem, folder] = process.argv.slice(2);
const kToken = '0123456789abcdef01';
const kQuestion = 'The red lamp is in the attic. <b>Question</b>: Where is the red lamp?';
const kPatience = 60_000;  // ms
const kMode = (value) => [{name: 'prefers-color-scheme', value}];
const servers = [];
const problems = [];

function expect(what, holds) {
  console.log(`${holds ? 'ok     ' : 'FAILED '} ${what}`);
  if (!holds) throw new Error(what);
}

// Starts `tandem serve`; returns its URL.
function serve(...words) {
  const server = spawn(tandem, ['serve', '--listen', '127.0.0.1:0', '--cache', 'cache', ...words], {cwd: folder});
  servers.push(server);
  return new Promise((resolve, reject) => {
    let out = '';
    server.stderr.pipe(process.stderr);
    server.stdout.on('data', (more) => {
      out += more;
      const url = /http:\/\/\S+:\d+/.exec(out);
      if (url) resolve(url[0]);
    });
    server.on('exit', (code) => reject(new Error(`tandem serve ended with ${code}`)));
  });
}

async function open(browser, url, view) {
  const page = await browser.newPage();
  await page.setViewport(view ?? {width: 1200, height: 800});
  page.on('pageerror', (error) => problems.push(error.message));
  page.on('console', (message) => {
    // Chromium reports each answer that is not 200.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) problems.push(message.text());
  });
  await page.goto(url);
  return page;
}

const settled = (page) => page.waitForFunction(
  () => document.getElementById('turns').getAttribute('aria-busy') === 'false', {timeout: kPatience});
const texts = (page, kind) => page.$$eval('.turn.' + kind, (all) => all.map((turn) => turn.textContent));
const shot = (page, name) => page.screenshot({path: path.join(folder, name + '.png')});
const settle = (page, id, value) => page.$eval('#' + id, (field, text) => { field.value = text; }, value);

async function send(page, text) {
  await page.focus('#text');
  await page.type('#text', text);
  await page.keyboard.press('Enter');
}

// A second question needs the first answer: what the server was sent.
async function talks(browser, url) {
  const page = await open(browser, url);
  const bodies = [];
  page.on('request', (request) => { if (request.method() === 'POST') bodies.push(JSON.parse(request.postData())); });
  await page.waitForSelector('#topology svg');
  expect('the model is named', (await page.$eval('#model', (model) => model.textContent)) === 'tiny');
  expect('focus is in the message', await page.evaluate(() => document.activeElement.id === 'text'));
  await settle(page, 'system', 'Answer in one word.');
  await settle(page, 'most', '6');
  await settle(page, 'temperature', '0');
  await send(page, kQuestion);
  await settled(page);
  const [answer] = await texts(page, 'assistant');
  expect(`an answer comes: ${JSON.stringify(answer)}`, answer.length > 0);
  expect('what is written is text', await page.$eval('#turns', (turns) => turns.querySelector('b') === null));
  await page.keyboard.down('Shift');
  await page.keyboard.press('Enter');
  await page.keyboard.up('Shift');
  expect('Shift+Enter begins a line', await page.$eval('#text', (text) => text.value === '\n'));
  await settle(page, 'text', '');
  await send(page, 'And now?');
  await settled(page);
  expect('a system prompt and all turns are sent', JSON.stringify(bodies[1].messages.map(({role}) => role)) ===
    '["system","user","assistant","user"]');
  expect('the answer is the history', bodies[1].messages[2].content.trimStart() === answer);
  await page.waitForFunction(() => document.querySelectorAll('#times tbody tr').length === 3 &&
    [...document.querySelectorAll('#times tbody td:nth-child(2)')].every((cell) => cell.textContent !== '–'), {timeout: kPatience});
  expect('both requests have times beside predictions', true);
  await shot(page, 'light');
  await page.emulateMediaFeatures(kMode('dark'));
  await page.click('#settings summary');
  await shot(page, 'dark');
  await page.click('#settings summary');
  return page;
}

async function asksPlanner(page) {
  await page.click('#planner summary');
  const names = await page.$$eval('#away label', (all) => all.map((label) => label.textContent));
  expect(`the planner's form has the devices: ${names}`, names.length === 4);
  expect('and the lengths of the plan', await page.$eval('#prompt-tokens', (field) => field.value) === '60');
  await page.focus('#away input');
  await page.keyboard.press('Space');
  await page.focus('#new-tokens');
  await settle(page, 'new-tokens', '20');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.querySelectorAll('#found tbody tr').length === 2, {timeout: kPatience});
  const used = await page.$$eval('#found li', (all) => all.map((item) => item.textContent));
  expect(`a plan without ${names[0]}: ${used.join(', ')}`, used.length > 0 && used.every((text) => !text.startsWith(names[0] + ':') &&
    !text.startsWith(names[0] + ' (')));
  await page.$eval('#planner', (form) => form.scrollIntoView());
  await shot(page, 'planner-dark');
  await page.emulateMediaFeatures(kMode('light'));
  await shot(page, 'planner-light');
  await page.emulateMediaFeatures(kMode('dark'));
  for (const box of (await page.$$('#away input')).slice(1)) await box.click();
  await page.click('#ask-planner');
  await page.waitForSelector('#found .bad', {timeout: kPatience});
  expect('no device left is an error in words', (await page.$eval('#found .bad', (note) => note.textContent)).includes('at least one'));
  await page.click('#planner summary');
}

async function stops(page) {
  await settle(page, 'most', '700');
  await settle(page, 'temperature', '2');
  await page.click('#reset');
  const sizes = await page.evaluateHandle(() => {
    const all = [];
    new MutationObserver(() => {
      const size = document.querySelector('.assistant')?.textContent.length ?? 0;
      if (size > 0 && size !== all.at(-1)) all.push(size);
    }).observe(document.getElementById('turns'), {childList: true, subtree: true});
    return all;
  });
  await send(page, 'Write a long text.');
  await page.waitForFunction((all) => all.length >= 10, {timeout: kPatience}, sizes);
  expect('the answer grows as tokens come', (await page.evaluate((all) => all.length, sizes)) >= 10);
  await page.waitForFunction(() => document.getElementById('open').textContent === '1', {timeout: kPatience});
  await page.waitForFunction(() => [...document.querySelectorAll('#topology .busy')].some((text) =>
    /^computes \d+%, predicted \d+%$/.test(text.textContent)), {timeout: kPatience});
  const states = await page.$$eval('#topology .now', (all) => all.map((text) => text.textContent));
  expect(`devices show what they do: ${states.join(', ')}`, states.some((text) => /^(computes|waits)/.test(text)));
  expect('and the memory that they have', (await page.$$eval('#topology .resident', (all) => all.map((text) => text.textContent)))
    .some((text) => text.endsWith('B now')));
  await shot(page, 'streaming');
  await page.keyboard.press('Escape');
  await settled(page);
  expect('Escape stops', (await texts(page, 'note')).at(-1) === 'Stopped.');
  await page.waitForFunction(() => document.getElementById('open').textContent === '0', {timeout: kPatience});
  expect('the server stops, too', true);
}

async function fails(page) {
  await settle(page, 'most', '1000000');
  await send(page, 'Too long.');
  await settled(page);
  const notes = await texts(page, 'note.bad');
  expect(`the server's message is shown: ${notes.at(-1)}`, notes.at(-1).includes('shorten the prompt'));
  expect('the message can be sent again', await page.$eval('#text', (text) => text.value) === 'Too long.');
  await shot(page, 'error');
}

async function narrow(browser, url) {
  const page = await open(browser, url, {width: 360, height: 740, deviceScaleFactor: 2, isMobile: true, hasTouch: true});
  await page.waitForFunction(() => document.getElementById('model').textContent !== '');
  const fits = () => page.evaluate(() => document.documentElement.scrollWidth <= 360 &&
    [...document.querySelectorAll('main, aside, #turns')].every((part) => part.scrollWidth <= part.clientWidth));
  await settle(page, 'most', '12');
  await send(page, 'x'.repeat(120) + ' ' + kQuestion);
  await settled(page);
  expect('360 px: the chat has no horizontal scroll', await fits());
  await shot(page, 'narrow-chat');
  await page.focus('#toggle');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.querySelectorAll('#times tbody tr').length >= 2);
  expect('360 px: neither has the cluster', await fits());
  expect('it is open', await page.$eval('#toggle', (toggle) => toggle.getAttribute('aria-expanded') === 'true'));
  await shot(page, 'narrow-cluster');
  await page.emulateMediaFeatures(kMode('dark'));
  await shot(page, 'narrow-dark');
  await page.click('#planner summary');
  await page.click('#ask-planner');
  await page.waitForFunction(() => document.querySelectorAll('#found li').length > 0, {timeout: kPatience});
  expect('360 px: nor has the form of the planner', await fits());
  await page.$eval('#planner', (form) => form.scrollIntoView());
  await shot(page, 'narrow-planner');
}

async function asksForToken(browser) {
  writeFileSync(path.join(folder, 'token'), kToken + '\n');
  const page = await open(browser, await serve('--weights', 'tiny-text', '--token', 'token'));
  await page.waitForSelector('#login[open]');
  await page.type('#token', 'a wrong one');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.getElementById('login-note').textContent.includes('refused'));
  expect('a wrong token is refused', true);
  await shot(page, 'token');
  await page.type('#token', kToken);
  await page.keyboard.press('Enter');
  await page.waitForSelector('#topology svg');
  expect('the right one is taken', !(await page.$('#login[open]')));
  expect('it is in the session only', await page.evaluate(() => localStorage.length === 0 && document.cookie === ''));
  expect('a model without a template says so', (await texts(page, 'note'))[0].includes('no chat template'));
  expect('no planner says why', (await page.$eval('#planner-note', (note) => note.textContent)).includes('without a plan'));
  expect('and has no form', await page.$eval('#question', (form) => form.hidden));
  expect('no prediction says why', (await page.$eval('#prediction-note', (note) => note.textContent)).includes('without a plan'));
  await settle(page, 'most', '6');
  await settle(page, 'temperature', '0');
  await send(page, 'The red lamp is in the attic. Question: Where is the red lamp? Answer:');
  await settled(page);
  const [answer] = await texts(page, 'assistant');
  expect(`it continues the text: ${JSON.stringify(answer)}`, answer.includes('attic'));
  await shot(page, 'text');
  servers.at(-1).kill('SIGTERM');
  await page.waitForFunction(() => !document.getElementById('cluster-note').hidden, {timeout: kPatience});
  await send(page, 'Is there anybody?');
  await settled(page);
  expect('a server that has gone is an error in words', (await texts(page, 'note.bad')).at(-1).includes('cannot be reached'));
  await shot(page, 'gone');
}

const browser = await puppeteer.launch({executablePath: '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu']});
let code = 0;
try {
  const url = await serve('plan.json', '--weights', 'tiny', '--emulate');
  const page = await talks(browser, url);
  await asksPlanner(page);
  await stops(page);
  await fails(page);
  await narrow(browser, url);
  await asksForToken(browser);
  expect(`no script fails, and the policy blocks nothing ${problems.join('; ')}`, problems.length === 0);
} catch (error) {
  console.error(error);
  code = 1;
} finally {
  for (const server of servers) {
    server.removeAllListeners('exit');
    server.kill('SIGTERM');
  }
  await browser.close();
}
process.exit(code);
