// The panel beside the chat: the cluster, what it does now, and its times beside those predicted.

import {begin} from './chat.js';
import {offerPlanner} from './planner.js';
import {ask, find} from './server.js';
import {row, time} from './table.js';
import {bits, drawTopology, milliseconds, showLive} from './topology.js';

const kPause = 1000;       // ms between questions
const kLongPause = 3000;   // while the server does not answer
let drawn = false;

const lengths = ({prompt_tokens, new_tokens}) => `${prompt_tokens}\u00a0+\u00a0${new_tokens}`;

function draw(cluster) {
  const count = cluster.devices.filter((device) => device.weights_share > 0).length;
  const kind = {emulated: 'emulated ', real: ''}[cluster.devices_are];
  find('cluster-title').textContent = kind === undefined ? 'This machine alone'
    : `${count} ${kind}device${count === 1 ? '' : 's'} of ${cluster.platform}`;
  find('cluster-facts').textContent = `Strategy ${cluster.strategy}, policy ${cluster.policy}, ` +
    (cluster.together === 1 ? 'one request at a time' : `up to ${cluster.together} requests at once`) +
    (cluster.dilation > 1 ? `. Emulated time passes ${cluster.dilation.toFixed(2)} times more slowly than the clock; ` +
      'times and rates below are in emulated time' : '');
  find('topology').replaceChildren(drawTopology(cluster));
  find('links').tBodies[0].replaceChildren(...cluster.links.map((link) => row(
    link.name, bits(link.bandwidth_bytes_per_s), milliseconds(link.latency_s), link.shared ? 'shared' : 'switched')));
  find('links').parentElement.hidden = !cluster.links.length;
  find('cluster-body').hidden = false;
}

function median(values) {
  values.sort((a, b) => a - b);
  const half = values.length >> 1;
  return values.length % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// The median of measured / predicted over requests that had the devices to themselves.
function ratio(requests, key) {
  const known = requests.filter(({measured, predicted}) => !measured.shared && measured[key] && predicted?.[key]);
  return known.length ? median(known.map(({measured, predicted}) => measured[key] / predicted[key])).toFixed(2) : null;
}

function predictionText({prediction, requests}) {
  if (!prediction.available) return `No prediction: ${prediction.reason}.`;
  let text = 'Predicted: each request alone on the devices, without HTTP and tokenizing.';
  const first = ratio(requests, 'ttft_s');
  const token = ratio(requests, 'token_latency_s');
  if (first) text += ` Measured / predicted, median of those alone: first token ${first}`;
  if (first && token) text += `, each next ${token}`;
  if (first) text += '.';
  if (requests.some(({measured}) => measured.shared)) text += ' * shared the devices with others.';
  return text;
}

function update(cluster) {
  const {live, prediction, requests} = cluster;
  find('open').textContent = live.open;
  find('waiting').textContent = live.waiting;
  find('rate').textContent = live.tokens_per_s.toFixed(1);
  find('rate').title = `over the last ${live.window_s} s`;
  find('finished').textContent = live.finished;
  const last = requests.findLast(({predicted}) => predicted?.busy)?.predicted ?? prediction.plan;
  showLive(find('topology'), live.devices, last?.busy ?? null);
  find('prediction-note').textContent = predictionText(cluster);
  const rows = requests.map(({measured, predicted}) => row(
    lengths(measured) + (measured.shared ? '\u00a0*' : ''),
    time(predicted?.ttft_s), time(measured.ttft_s), time(predicted?.token_latency_s), time(measured.token_latency_s)));
  if (prediction.plan) {
    const {plan} = prediction;
    rows.push(row(`plan: ${lengths(plan)}`, time(plan.ttft_s), '', time(plan.token_latency_s), ''));
  }
  find('times').tBodies[0].replaceChildren(...rows.reverse());
  find('times').hidden = !rows.length;
}

async function watch() {
  let pause = kPause;
  if (!document.hidden) {
    try {
      const cluster = await (await ask('v1/cluster')).json();
      if (!drawn) {
        draw(cluster);
        begin(cluster);
        offerPlanner(cluster);
        drawn = true;
      }
      update(cluster);
      find('cluster-note').hidden = true;
    } catch (error) {
      find('cluster-note').textContent = error.message;
      find('cluster-note').hidden = false;
      pause = kLongPause;
    }
  }
  setTimeout(watch, pause);
}

find('toggle').addEventListener('click', () => {
  const shown = document.body.classList.toggle('cluster');
  find('toggle').setAttribute('aria-expanded', shown);
  find('toggle').textContent = shown ? 'Chat' : 'Cluster';
});
watch();
