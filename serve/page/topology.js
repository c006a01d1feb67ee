// The devices and links of a cluster as SVG: devices below one another, routers beside them.

const kWidth = 400;
const kBox = {x: 150, width: 246, height: 98, gap: 14};
const kRouter = {x: 14, step: 26, radius: 9};
const kBend = 74;  // x from which edges run level to a device, between the two lines of their label
const kMostLabels = 16;  // edges with labels; more would hide one another

function make(name, attributes, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function quantity(value, units, base) {
  let i = 0;
  for (; value >= base && i + 1 < units.length; ++i) value /= base;
  return `${value >= 100 || Number.isInteger(value) ? Math.round(value) : value.toPrecision(2)} ${units[i]}`;
}
const bytes = (value) => quantity(value, ['B', 'KiB', 'MiB', 'GiB', 'TiB'], 1024);
const bits = (value) => quantity(8 * value, ['bps', 'kbps', 'Mbps', 'Gbps', 'Tbps'], 1000);
const milliseconds = (seconds) => `${+(seconds * 1000).toPrecision(2)} ms`;

// "layers 1–4, 9–12", numbered from 1; "layer 3".
function runs(name, ranges) {
  const list = ranges.map(([first, last]) => first === last ? `${first + 1}` : `${first + 1}–${last + 1}`);
  const one = ranges.length === 1 && ranges[0][0] === ranges[0][1];
  return `${name}${one ? '' : 's'} ${list.join(', ')}`;
}

const mostHeads = (devices) => Math.max(0, ...devices.map(({heads}) => heads?.[1] ?? 0));

// What a device holds, in words. `most`: the number of heads.
function holds(device, cluster, most) {
  const parts = [];
  const {layers} = device;
  if (layers.length === 1 && layers[0][0] === 0 && layers[0][1] === cluster.layers - 1) parts.push('all layers');
  else if (layers.length) parts.push(runs('layer', layers));
  const {heads} = device;
  if (layers.length && !heads) parts.push('FFN only');
  else if (layers.length && heads[1] - heads[0] < most) parts.push(runs('head', [[heads[0], heads[1] - 1]]));
  return parts.length ? parts.join(', ') : device.weights_share > 0 ? 'embedding or head only' : 'not used';
}

function deviceBox(device, cluster, most, y) {
  const {x, width} = kBox;
  const used = device.memory_bytes.total;
  const bar = width - 20;
  const filled = Math.min(1, used / device.budget_bytes) * bar;
  const kind = (device.is_master ? 'master ' : '') + (device.weights_share > 0 ? '' : 'idle');
  const share = `${(100 * device.weights_share).toFixed(device.weights_share < 0.1 ? 1 : 0)}% of weights`;
  const memory = `${bytes(used)} of ${bytes(device.budget_bytes)}`;
  const group = make('g', {class: 'device ' + kind},
    make('rect', {class: 'box', x, y, width, height: kBox.height, rx: 6}),
    make('text', {class: 'name', x: x + 10, y: y + 17}, device.name),
    make('text', {class: 'weak', x: x + 10, y: y + 33}, holds(device, cluster, most)),
    make('text', {class: 'weak', x: x + width - 10, y: y + 33, 'text-anchor': 'end'}, share),
    make('rect', {class: 'rest', x: x + 10, y: y + 40, width: bar, height: 4, rx: 2}),
    make('rect', {class: 'used', x: x + 10, y: y + 40, width: Math.max(filled, used > 0 ? 2 : 0), height: 4, rx: 2}),
    make('text', {class: 'weak', x: x + 10, y: y + 58}, memory + (device.streams ? ', streams' : '')),
    make('text', {class: 'now', x: x + 10, y: y + 76}),
    make('text', {class: 'weak rate', x: x + width - 10, y: y + 76, 'text-anchor': 'end'}),
    make('text', {class: 'weak busy', x: x + 10, y: y + 90}),
    make('text', {class: 'weak resident', x: x + width - 10, y: y + 58, 'text-anchor': 'end'}));
  if (device.is_master)
    group.append(make('text', {class: 'tag', x: x + width - 10, y: y + 17, 'text-anchor': 'end'}, 'master'));
  return group;
}

const percent = (share) => `${Math.round(100 * share)}%`;

// Writes what each device does now into the boxes of `svg`. `live`: of /v1/cluster; `predicted`: shares of a request alone, or null.
function showLive(svg, live, predicted) {
  svg.querySelectorAll('.device').forEach((group, i) => {
    const now = live[i];
    const write = (name, text) => { group.querySelector('.' + name).textContent = text; };
    group.classList.toggle('computes', now?.state === 'computes');
    write('now', !now ? '' : now.for ? `${now.state} for ${now.for}` : now.state);
    write('rate', now?.tokens_per_s == null ? '' : `${now.tokens_per_s.toFixed(1)} tokens/s`);
    const share = now?.busy == null ? '' : `computes ${percent(now.busy)}`;
    write('busy', share && predicted?.[i] != null ? `${share}, predicted ${percent(predicted[i])}` : share);
    write('resident', now?.memory_bytes ? `${bytes(now.memory_bytes)} now` : '');
  });
}

function describe(cluster, most) {
  return cluster.devices.map((device) => `${device.name}${device.is_master ? ' (master)' : ''}: ` +
    `${holds(device, cluster, most)}`).join('; ');
}

// `cluster` without routers that lead to no device of it.
function pruned(cluster) {
  const devices = new Set(cluster.devices.map(({name}) => name));
  let {routers, edges} = cluster;
  for (;;) {
    const degree = (name) => edges.filter(({from, to}) => from === name || to === name).length;
    const kept = routers.filter((name) => degree(name) > 1);
    if (kept.length === routers.length) return {...cluster, routers, edges};
    const names = new Set([...devices, ...kept]);
    routers = kept;
    edges = edges.filter(({from, to}) => names.has(from) && names.has(to));
  }
}

// Returns an <svg> of what /v1/cluster answers.
function drawTopology(all) {
  const cluster = pruned(all);
  const most = mostHeads(cluster.devices);
  const top = (i) => 4 + i * (kBox.height + kBox.gap);
  const places = new Map(cluster.devices.map((device, i) => [device.name, {x: kBox.x, y: top(i) + kBox.height / 2}]));
  const isDevice = new Set(places.keys());
  const neighbours = (name) => cluster.edges.flatMap(({from, to}) => from === name ? [to] : to === name ? [from] : []);
  cluster.routers.forEach((name, i) => {
    const ys = neighbours(name).filter((other) => isDevice.has(other)).map((other) => places.get(other).y);
    const middle = top(cluster.devices.length) / 2;
    const mean = ys.length ? ys.reduce((a, b) => a + b, 0) / ys.length : middle;
    places.set(name, {x: kRouter.x + (i % 2) * kRouter.step, y: mean});
  });
  const links = new Map(cluster.links.map((link) => [link.name, link]));
  const edges = make('g', {});
  const labels = make('g', {});
  for (const edge of cluster.edges) {
    const [a, b] = [edge.from, edge.to].map((name) => places.get(name));
    const own = edge.links.map((name) => links.get(name));
    const bends = [edge.from, edge.to].map((name) => isDevice.has(name) ? kBend : places.get(name).x);
    const middle = isDevice.has(edge.from) && isDevice.has(edge.to) ? kRouter.x : (bends[0] + bends[1]) / 2;
    edges.append(make('path', {
      class: 'edge' + (own.some((link) => link.shared) ? ' shared' : ''),
      d: `M${a.x} ${a.y} H${bends[0]} C${middle} ${a.y} ${middle} ${b.y} ${bends[1]} ${b.y} H${b.x}`}));
    const end = isDevice.has(edge.from) ? a : isDevice.has(edge.to) ? b : null;
    if (!end || !own.length || cluster.edges.length > kMostLabels) continue;
    const rate = Math.min(...own.map((link) => link.bandwidth_bytes_per_s));
    const latency = own.reduce((sum, link) => sum + link.latency_s, 0);
    labels.append(
      make('text', {class: 'weak', x: kBox.x - 5, y: end.y - 5, 'text-anchor': 'end'}, bits(rate)),
      make('text', {class: 'weak', x: kBox.x - 5, y: end.y + 13, 'text-anchor': 'end'}, milliseconds(latency)));
  }
  const routers = cluster.routers.map((name) => {
    const {x, y} = places.get(name);
    return make('g', {}, make('title', {}, name), make('circle', {class: 'router', cx: x, cy: y, r: kRouter.radius}));
  });
  const height = top(cluster.devices.length);
  return make('svg', {viewBox: `${cluster.edges.length ? 0 : kBox.x - 2} 0 ${kWidth} ${height}`, role: 'img', 'aria-label': describe(cluster, most)},
    edges, labels, ...routers, ...cluster.devices.map((device, i) => deviceBox(device, cluster, most, top(i))));
}

export {bits, bytes, drawTopology, holds, milliseconds, mostHeads, showLive};
