'use strict';

// The picture of who waits for whom. It is never wider than there is room.

const boxH = 44, pad = 8, gapX = 16, mostBoxes = 60, letter = 6.6;
let chosen = ''; // the key of the box or the line that was tapped

function svg(tag, attributes, ...children) {
  const e = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [k, v] of Object.entries(attributes || {})) e.setAttribute(k, v);
  e.append(...children);
  return e;
}

const keyOf = (w) => w.from + '\n' + w.to + '\n' + w.line;

// What the filter leaves: waits in which something fits it, and circles as a whole.
function wantedWaits() {
  const wanted = filterText();
  if (!wanted) return board.waits;
  const names = labels();
  const fits = (w) => [w.line, w.from, w.to, names.get(w.from) || '', names.get(w.to) || ''].some((t) => t.toLowerCase().includes(wanted));
  const whole = new Set(board.circles.filter((c) => c.waits.some(fits)).flatMap((c) => c.waits.map(keyOf)));
  return board.waits.filter((w) => fits(w) || whole.has(keyOf(w)));
}

// Those who wait for the same and for whom nobody waits; many of them share a box.
function crowdsOf(waits) {
  const waitedFor = new Set(waits.map((w) => w.to));
  const wishes = new Map(); // what each waits for
  for (const w of waits) wishes.set(w.from, (wishes.get(w.from) || '') + w.to + '\n' + w.line + '\n');
  const crowds = new Map();
  for (const [id, wish] of wishes) {
    if (waitedFor.has(id)) continue;
    if (!crowds.has(wish)) crowds.set(wish, []);
    crowds.get(wish).push(id);
  }
  return {of: (id) => waitedFor.has(id) ? [] : crowds.get(wishes.get(id)), key: (id) => 'crowd\n' + wishes.get(id)};
}

// What is to be drawn: boxes and edges.
function boxes(waits) {
  const red = new Set(board.circles.flatMap((c) => c.waits.map(keyOf)));
  const names = labels(), crowds = crowdsOf(waits);
  const nodes = new Map(), edges = new Map();
  let undrawn = 0;
  const node = (id, ids) => {
    if (!nodes.has(id) && nodes.size >= mostBoxes) return false;
    if (!nodes.has(id)) nodes.set(id, {id, ids, label: ids.length > 1 ? ids.length + ' wait' : names.get(id) || '', red: false, layer: 0});
    return true;
  };
  for (const w of waits) {
    const crowd = crowds.of(w.from);
    const from = crowd.length > 3 ? crowds.key(w.from) : w.from;
    if (!node(from, crowd.length > 3 ? crowd : [w.from]) || !node(w.to, [w.to])) {
      undrawn++;
      continue;
    }
    const key = from + '\n\n' + w.to;
    if (!edges.has(key)) edges.set(key, {key, from: nodes.get(from), to: nodes.get(w.to), lines: new Set(), red: false});
    const e = edges.get(key);
    e.lines.add(w.line);
    if (red.has(keyOf(w))) e.red = e.from.red = e.to.red = true;
  }
  return {nodes: [...nodes.values()], edges: [...edges.values()], names, undrawn};
}

// The circles, each in the order in which they wait for each other, as far as possible.
function ringsOf(nodes) {
  const by = new Map(nodes.map((n) => [n.id, n]));
  const rings = [];
  for (const c of board.circles) {
    const ids = [...new Set(c.waits.flatMap((w) => [w.from, w.to]))].filter((id) => by.has(id) && !by.get(id).ring);
    if (ids.length < 2) continue;
    const inOrder = [ids[0]];
    for (let w; (w = c.waits.find((x) => x.from === inOrder.at(-1) && ids.includes(x.to) && !inOrder.includes(x.to)));) inOrder.push(w.to);
    inOrder.push(...ids.filter((id) => !inOrder.includes(id)));
    inOrder.forEach((id) => { by.get(id).ring = true; });
    rings.push(inOrder.map((id) => by.get(id)));
  }
  return rings;
}

// layersOf finds out how far each of those outside the circles is from whom it waits for in the end: 0 waits for nobody here.
// Where they wait for each other all the same, one of the waits does not count.
function layersOf(rest, edges) {
  const ahead = new Map(rest.map((n) => [n, []]));
  for (const e of edges) if (ahead.has(e.from) && ahead.has(e.to)) ahead.get(e.from).push(e.to);
  const waitsForRing = new Set(edges.filter((e) => e.to.ring).map((e) => e.from));
  const state = new Map(); // 1: being looked at, 2: done
  const visit = (n) => {
    state.set(n, 1);
    n.layer = waitsForRing.has(n) ? 1 : 0;
    for (const to of ahead.get(n)) {
      if (!state.has(to)) visit(to);
      if (state.get(to) === 2) n.layer = Math.max(n.layer, to.layer + 1);
    }
    state.set(n, 2);
  };
  rest.forEach((n) => { if (!state.has(n)) visit(n); });
  const used = [...new Set(rest.map((n) => n.layer))].sort((a, b) => a - b);
  rest.forEach((n) => { n.layer = used.indexOf(n.layer); });
  const layers = used.map(() => []);
  rest.forEach((n) => layers[n.layer].push(n));
  return layers;
}

// Two in a circle stand one below the other; more stand in two columns, one downwards and one upwards. The boxes of one column
// are never beside those of the other, so that the way of whoever waits for one leads between the others.
function placeRing(ring, left, top, d) {
  if (ring.length === 2) {
    ring.forEach((n, i) => { n.under = 1 - i; n.x = left + (d.ringW - d.boxW) / 2; n.y = top + i * (boxH + 64); });
    return 2 * boxH + 64;
  }
  const down = Math.ceil(ring.length / 2), step = boxH + 34;
  const up = ring.length - down;
  ring.forEach((n, i) => {
    n.under = i < down ? down - 1 - i : i - down; // how many of its column are below it
    n.x = i < down ? left : left + d.ringW - d.boxW;
    n.y = top + (i < down ? i * step : (ring.length - 1 - i) * step + step / 2);
  });
  return (down - 1) * step + boxH + (up === down ? step / 2 : 0);
}

// pull is how far down those stand for whom a node waits.
function pull(n, edges) {
  const ys = edges.filter((e) => e.from === n && e.to.y !== undefined).map((e) => e.to.y);
  return ys.length ? ys.reduce((a, b) => a + b) / ys.length : 0;
}

// Beside each other: to the right of each are those who wait for it.
function placeColumns(layers, left, edges, d) {
  layers.forEach((column, i) => {
    const x = left + i * (d.boxW + d.between);
    const pulls = new Map(column.map((n) => [n, pull(n, edges)]));
    column.sort((a, b) => pulls.get(a) - pulls.get(b));
    let y = pad;
    for (const n of column) {
      n.x = x;
      n.y = Math.max(y, pulls.get(n));
      y = n.y + boxH + 14;
    }
  });
}

// Below each other, where there is no room for that: under each are those who wait for it.
function placeRows(layers, top, space, d) {
  const most = Math.max(1, Math.floor((space - 2 * pad + gapX) / (d.boxW + gapX)));
  for (const layer of layers) {
    for (let i = 0; i < layer.length; i += most) {
      const row = layer.slice(i, i + most);
      const wide = row.length * (d.boxW + gapX) - gapX;
      row.forEach((n, j) => { n.x = (space - wide) / 2 + j * (d.boxW + gapX); n.y = top; });
      top += boxH + 14;
    }
    top += 34;
  }
}

// place gives all boxes their places, and returns how large they are and whether they stand below each other.
function place(nodes, edges, space) {
  const rings = ringsOf(nodes);
  const layers = layersOf(nodes.filter((n) => !n.ring), edges);
  const d = {boxW: 190, between: 110, narrow: space < 620};
  if (d.narrow) d.boxW = Math.max(110, Math.min(190, Math.floor((space - 2 * pad - 90) / 2)));
  d.ringW = d.narrow ? space - 2 * pad : rings.every((r) => r.length === 2) ? d.boxW : 2 * d.boxW + 150;
  d.ringRight = pad + d.ringW;
  const columns = layers.length * (d.boxW + d.between) - d.between;
  const beside = rings.length ? d.ringW + (layers.length ? d.between : 0) : 0;
  d.below = d.narrow || beside + columns + 2 * pad > space;
  if (!d.below && layers.length > 1) d.between = Math.min(200, d.between + (space - beside - columns - 2 * pad) / (layers.length - 1));
  d.room = Math.floor((d.below ? d.boxW : d.between - 16) / 6);
  let top = pad;
  for (const ring of rings) top += placeRing(ring, d.below ? (space - d.ringW) / 2 : pad, top, d) + 40;
  if (d.below) placeRows(layers, rings.length ? top + 10 : top, space, d);
  else placeColumns(layers, pad + beside, edges, d);
  return d;
}

// Where the line from the middle of a box to a point leaves the box.
function border(n, d, px, py) {
  const x = n.x + d.boxW / 2, y = n.y + boxH / 2, dx = px - x, dy = py - y;
  const k = Math.min(d.boxW / 2 / (Math.abs(dx) || 1e-9), boxH / 2 / (Math.abs(dy) || 1e-9), 1);
  return [x + dx * k, y + dy * k];
}

// ringPath is the way from one in a circle to the next. Two that wait for each other have a way there and one back.
function ringPath(a, b, d, mutual) {
  const ax = a.x + d.boxW / 2, ay = a.y + boxH / 2, bx = b.x + d.boxW / 2, by = b.y + boxH / 2;
  if (!mutual) {
    const [sx, sy] = border(a, d, bx, by), [tx, ty] = border(b, d, ax, ay);
    return {d: `M${sx} ${sy} L${tx} ${ty}`, x: (sx + tx) / 2, y: (sy + ty) / 2};
  }
  if (Math.abs(ax - bx) < 1) {
    const x = ax + (ay < by ? 1 : -1) * d.boxW / 4, s = ay < by ? a.y + boxH : a.y, t = ay < by ? b.y : b.y + boxH;
    return {d: `M${x} ${s} L${x} ${t}`, x, y: s + (t - s) * .4};
  }
  const y = ay + (ax < bx ? -1 : 1) * boxH / 4, s = ax < bx ? a.x + d.boxW : a.x, t = ax < bx ? b.x : b.x + d.boxW;
  return {d: `M${s} ${y} L${t} ${y}`, x: (s + t) / 2, y};
}

function path(a, b, d, mutual) {
  if (a.ring && b.ring) return ringPath(a, b, d, mutual);
  if (d.below && b.ring) { // from the side: in a circle others stand below
    const right = b.x + d.boxW / 2 <= a.x + d.boxW / 2 + 1;
    const sx = a.x + d.boxW / 2, tx = right ? b.x + d.boxW : b.x, ty = b.y + boxH * (right ? .3 : .75);
    const up = tx + Math.min(44, 14 + 10 * b.under) * (right ? 1 : -1);
    return {d: `M${sx} ${a.y} C${sx} ${a.y - 34} ${up} ${a.y - 16} ${up} ${a.y - 50} L${up} ${ty + 10} Q${up} ${ty} ${tx} ${ty}`, x: sx + (up - sx) / 10, y: a.y - 15};
  }
  if (d.below) {
    const up = a.y >= b.y;
    const sx = a.x + d.boxW / 2, sy = up ? a.y : a.y + boxH, tx = b.x + d.boxW / 2, ty = up ? b.y + boxH : b.y;
    const half = Math.max(12, Math.abs(sy - ty) / 2) * (up ? -1 : 1);
    return {d: `M${sx} ${sy} C${sx} ${sy + half} ${tx} ${ty - half} ${tx} ${ty}`, x: (sx + tx) / 2, y: (sy + ty) / 2};
  }
  const left = a.x >= b.x, ay = a.y + boxH / 2, by = b.y + boxH / 2;
  const sx = left ? a.x : a.x + d.boxW, tx = left ? b.x + d.boxW : b.x;
  const end = b.ring ? d.ringRight : tx; // from there straight on, between the others of the circle
  const half = Math.max(30, Math.abs(sx - end) / 2) * (left ? -1 : 1);
  return {d: `M${sx} ${ay} C${sx + half} ${ay} ${end - half} ${by} ${end} ${by}` + (end === tx ? '' : ` L${tx} ${by}`), x: (sx + end) / 2, y: (ay + by) / 2};
}

// choosable makes a part of the picture say in full what it is, when it is tapped or Enter is pressed on it.
function choosable(part, key, title) {
  part.prepend(svg('title', {}, title));
  for (const [k, v] of Object.entries({tabindex: '0', role: 'button', 'data-key': key, 'aria-label': title})) part.setAttribute(k, v);
  const choose = () => { chosen = chosen === key ? '' : key; tellChosen(); };
  part.addEventListener('click', choose);
  part.addEventListener('keydown', (e) => {
    if (e.key !== 'Enter' && e.key !== ' ') return;
    e.preventDefault();
    choose();
  });
  return part;
}

function tellChosen() {
  let title = '';
  for (const part of $('graph').querySelectorAll('[data-key]')) {
    const is = part.dataset.key === chosen;
    part.classList.toggle('chosen', is);
    part.setAttribute('aria-pressed', String(is));
    if (is) title = part.getAttribute('aria-label');
  }
  $('whole').textContent = title || 'Tap a box or a line to read all of it.';
}

const listed = (texts, most) => texts.slice(0, most).map(printable).join(', ') + (texts.length > most ? ' and ' + (texts.length - most) + ' more' : '');
const fullName = (id, names) => (names.get(id) ? names.get(id) + ', ' : '') + id;
const subject = (n, names) => n.ids.length > 1 ? n.ids.length + ' processes' : printable(fullName(n.ids[0], names));

function describeEdge(e, names) {
  return subject(e.from, names) + (e.from.ids.length > 1 ? ' wait' : ' waits') + ' for ' + subject(e.to, names) + ' in ' + listed([...e.lines], 50);
}

function describeBox(n, edges, names) {
  const own = edges.filter((e) => e.from === n);
  const all = n.ids.length > 1 ? listed(n.ids.map((id) => fullName(id, names)), 50) : subject(n, names);
  return all + (own.length ? ': ' + own.map((e) => 'waits for ' + subject(e.to, names) + ' in ' + listed([...e.lines], 10)).join('; ') : ': waits for nobody here');
}

function drawEdge(e, edges, names, d) {
  const p = path(e.from, e.to, d, edges.some((o) => o.from === e.to && o.to === e.from));
  const lines = [...e.lines], room = e.from.ring && e.to.ring ? (d.narrow ? 14 : 22) : d.room;
  return choosable(svg('g', {class: 'edge' + (e.red ? ' red' : '')},
    svg('path', {d: p.d, class: 'hit'}),
    svg('path', {d: p.d, class: 'way', 'marker-end': e.red ? 'url(#tipred)' : 'url(#tip)'}),
    svg('text', {x: p.x, y: p.y + 4, 'text-anchor': 'middle'}, short(lines[0], room) + (lines.length > 1 ? ' +' + (lines.length - 1) : ''))),
  e.key, describeEdge(e, names));
}

function drawBox(n, edges, names, d) {
  const room = Math.floor((d.boxW - 14) / letter), middle = n.x + d.boxW / 2;
  const texts = n.ids.length > 1 ? [n.label, [...new Set(n.ids.map((id) => names.get(id) || id))].join(', ')] : n.label ? [n.label, n.id] : [n.id];
  return choosable(svg('g', {class: 'box' + (n.red ? ' red' : '')},
    svg('rect', {x: n.x, y: n.y, width: d.boxW, height: boxH, rx: 6}),
    ...texts.map((t, i) => svg('text', {x: middle, y: n.y + (texts.length === 1 ? 26 : 18 + 16 * i), 'text-anchor': 'middle', class: i ? 'soft' : ''}, short(t, room)))),
  n.id, describeBox(n, edges, names));
}

function tips() {
  return svg('defs', {}, ...['', 'red'].map((c) => svg('marker',
    {id: 'tip' + c, viewBox: '0 0 10 10', refX: 9, refY: 5, markerWidth: 7, markerHeight: 7, markerUnits: 'userSpaceOnUse', orient: 'auto-start-reverse'},
    svg('path', {d: 'M0 0 L10 5 L0 10 z', class: 'tip ' + c}))));
}

function picture() {
  const waits = wantedWaits();
  $('picture').hidden = $('jump').hidden = !waits.length;
  if (!waits.length) return;
  const {nodes, edges, names, undrawn} = boxes(waits);
  const d = place(nodes, edges, $('picture').clientWidth);
  const graph = $('graph');
  const w = d.below ? $('picture').clientWidth : Math.max(...nodes.map((n) => n.x)) + d.boxW + pad, h = Math.max(...nodes.map((n) => n.y)) + boxH + pad;
  for (const [k, v] of Object.entries({width: w, height: h, viewBox: `0 0 ${w} ${h}`})) graph.setAttribute(k, v);
  const focused = graph.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  graph.replaceChildren(tips(), ...edges.sort((a, b) => a.red - b.red).map((e) => drawEdge(e, edges, names, d)), ...nodes.map((n) => drawBox(n, edges, names, d)));
  tellChosen();
  if (focused !== null) [...graph.querySelectorAll('[data-key]')].find((p) => p.dataset.key === focused)?.focus({preventScroll: true});
  $('undrawn').hidden = undrawn === 0;
  $('undrawn').textContent = undrawn + ' more waits are not drawn: filter.';
}
