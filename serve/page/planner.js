// The form that asks the planner for another plan on the same devices.

import {ask, find} from './server.js';
import {row, time} from './table.js';
import {bytes, holds, mostHeads} from './topology.js';

let busy = false;

function make(tag, text, ...children) {
  const element = document.createElement(tag);
  element.textContent = text;
  element.append(...children);
  return element;
}

function note(text, bad) {
  const paragraph = make('p', text);
  paragraph.className = bad ? 'note bad' : 'note';
  return paragraph;
}

function questionFromForm() {
  return {
    without: [...find('away').querySelectorAll('input:checked')].map(({value}) => value),
    prompt_tokens: find('prompt-tokens').valueAsNumber,
    new_tokens: find('new-tokens').valueAsNumber,
    ...(find('format').selectedIndex > 0 ? {format: find('format').value} : {}),
  };
}

function tableOf(...rows) {
  const table = document.createElement('table');
  const head = document.createElement('thead');
  const names = document.createElement('tr');
  for (const name of ['', 'first token', 'each next', 'request']) {
    const cell = make('th', name);
    cell.scope = 'col';
    names.append(cell);
  }
  head.append(names);
  const body = document.createElement('tbody');
  body.append(...rows);
  table.append(head, body);
  return table;
}

const timesRow = (name, {ttft_s, token_latency_s, request_s}) =>
  row(name, time(ttft_s), time(token_latency_s), time(request_s));

// What changes in the time of a request.
function compared(present, plan) {
  const ratio = plan.request_s / present.request_s;
  if (Math.abs(ratio - 1) < 0.005) return 'A request takes as long as it does now.';
  if (ratio < 1) return `A request takes ${Math.round(100 * (1 - ratio))}% less than it does now.`;
  if (ratio < 2) return `A request takes ${Math.round(100 * (ratio - 1))}% longer than it does now.`;
  return `A request takes ${ratio.toPrecision(2)} times as long as it does now.`;
}

function show({plan, present, present_reason, reason, to_the_end}) {
  const parts = [];
  const rows = [];
  if (present) rows.push(timesRow('as served', present));
  if (plan) rows.push(timesRow('best plan', plan.times));
  if (rows.length) parts.push(tableOf(...rows));
  if (present_reason) parts.push(note(`As served: ${present_reason}`));
  if (reason) parts.push(note(reason, true));
  if (plan) {
    if (present) parts.push(note(compared(present, plan.times)));
    const most = mostHeads(plan.devices);
    const list = document.createElement('ul');
    for (const device of plan.devices) {
      const memory = `${bytes(device.memory_bytes.total)} of ${bytes(device.budget_bytes)}`;
      list.append(make('li', `${device.name}${device.is_master ? ' (master)' : ''}: ${holds(device, plan, most)}, ${memory}`));
    }
    parts.push(note(`Strategy ${plan.strategy}, predicted for one request alone:`), list);
    if (!to_the_end) parts.push(note('The search ended at its limit of time; there may be a better plan.'));
  }
  find('found').replaceChildren(...parts);
}

async function askPlanner() {
  busy = true;
  find('ask-planner').disabled = true;
  find('found').replaceChildren(note('Searching …'));
  try {
    show(await (await ask('v1/plan', questionFromForm())).json());
  } catch (error) {
    find('found').replaceChildren(note(error.message, true));
  }
  find('ask-planner').disabled = false;
  busy = false;
}

find('question').addEventListener('submit', (event) => {
  event.preventDefault();
  if (!busy) askPlanner();
});

// Called with what /v1/cluster answers first.
function offerPlanner({planner, devices}) {
  find('question').hidden = !planner.available;
  if (!planner.available) {
    find('planner-note').textContent = `The planner cannot be asked: ${planner.reason}.`;
    return;
  }
  find('planner-note').textContent = 'The best plan for one request on the devices that are left, as predicted; ' +
    'a search takes some seconds and changes nothing.';
  for (const {name} of devices) {
    const box = document.createElement('input');
    box.type = 'checkbox';
    box.value = name;
    const label = document.createElement('label');
    label.append(box, name);
    find('away').append(label);
  }
  find('prompt-tokens').value = planner.prompt_tokens;
  find('new-tokens').value = Math.max(1, planner.new_tokens);
  planner.formats.forEach((name, i) => {
    const option = make('option', i === 0 ? `${name}, as served` : name);
    option.value = name;
    find('format').append(option);
  });
}

export {offerPlanner};
