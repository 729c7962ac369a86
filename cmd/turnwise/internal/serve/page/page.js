'use strict';

// Others wrote what is shown, so it is put in as text, never as markup.

const staleAfter = 5000; // ms without a word
const mostRows = 500;
const $ = (id) => document.getElementById(id);

let board = null;
let heard = 0; // when the last event arrived, by performance.now
let heardWall = 0; // the same by the wall clock, which goes on while the machine sleeps
let least = Infinity; // how far the server's clock is behind ours, plus the shortest time that an event was under way
let late = false;
let trouble = 'connecting';
let stream = null;
let ahead = 0; // how far our clock is ahead of the server's
const rows = new Map(); // by the names of lines
const open = new Set();

// Text of others, in which characters that are invisible or change the direction are made visible.
function printable(text) {
  return String(text).replace(/[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\p{Variation_Selector}]/gu,
    (c) => '\\u{' + c.codePointAt(0).toString(16) + '}');
}

function el(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes || {})) e.setAttribute(k, v);
  e.append(...children.filter((c) => c !== null && c !== undefined && c !== ''));
  return e;
}

const other = (text) => el('bdi', {class: 'other'}, printable(text));

function span(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return s + ' s';
  if (s < 3600) return Math.floor(s / 60) + ' min' + (s < 600 && s % 60 ? ' ' + (s % 60) + ' s' : '');
  if (s < 86400) return Math.floor(s / 3600) + ' h' + (s % 3600 >= 60 ? ' ' + Math.floor(s % 3600 / 60) + ' min' : '');
  return Math.floor(s / 86400) + ' d' + (s % 86400 >= 3600 ? ' ' + Math.floor(s % 86400 / 3600) + ' h' : '');
}

const since = (time) => (Date.now() - ahead - Date.parse(time)) / 1000;

// An age that keeps itself up to date.
function age(time, before, after) {
  const e = el('time', {datetime: time, 'data-before': before, 'data-after': after});
  tell(e);
  return e;
}

function tell(e) {
  const text = e.dataset.before + span(since(e.getAttribute('datetime'))) + e.dataset.after;
  if (e.textContent !== text) e.textContent = text;
}

function who(c) {
  if (!c.host) return el('span', {class: 'soft'}, 'does not say who it is');
  return el('span', {}, other(c.host + '/' + c.pid), c.label ? ' ' : '', c.label ? other('"' + c.label + '"') : '');
}

// The rows.

function matches(line, wanted) {
  if (!wanted) return true;
  const texts = [line.name];
  for (const c of line.contenders) texts.push(c.host || '', c.label || '', c.host + '/' + c.pid);
  return texts.some((t) => t.toLowerCase().includes(wanted));
}

function cells(row, line) {
  row.className = line.state;
  const name = row.button;
  const held = line.contenders.filter((c) => c.holds);
  const next = line.contenders.find((c) => !c.holds && c.expected_wait_seconds);
  const last = line.contenders.filter((c) => !c.holds).at(-1);
  let note = null;
  if (line.state === 'unread' && !line.error) note = el('span', {class: 'soft'}, ' not read yet');
  else if (line.state === 'unread') note = el('span', {class: 'note'}, 'cannot be read: ', other(line.error));
  else if (line.state === 'stale') note = el('span', {class: 'note'}, age(line.as_of, 'read ', ' ago'), line.error ? ': ' : '', line.error ? other(line.error) : '');
  else if (line.error) note = el('span', {class: 'note'}, other(line.error));
  const td = (label, ...children) => el('td', label ? {'data-label': label} : {}, ...children);
  const expected = [];
  if (next) {
    expected.push('next about ' + span(next.expected_wait_seconds));
    if (last !== next && last.expected_wait_seconds && !line.more) expected.push(', last about ' + span(last.expected_wait_seconds));
  }
  row.replaceChildren(
    td('', name, note),
    held.length ? td('held by', who(held[0]), line.holding > 1 ? el('span', {class: 'soft'}, ' and ' + (line.holding - 1) + ' more') : '',
      el('span', {class: 'soft'}, ', ' + held[0].mode)) : td(''),
    held.length && held[0].turn ? td('', age(held[0].turn, 'has it for ', '')) :
      held.length && held[0].since ? td('', age(held[0].since, 'came ', ' ago')) : td(''),
    line.waiting ? td('waiting', el('span', {class: 'busy'}, String(line.waiting)),
      line.oldest_wait ? el('span', {class: 'soft'}, ', ', age(line.oldest_wait, 'for up to ', '')) : '') : td(''),
    td('expected wait', ...expected));
}

function ordinal(n) {
  const tens = n % 100 > 10 && n % 100 < 14;
  return n + (tens ? 'th' : ['th', 'st', 'nd', 'rd'][n % 10] || 'th');
}

function inner(line) {
  const body = el('tbody');
  const valued = line.contenders.some((c) => c.value);
  for (const c of line.contenders) {
    let when = '';
    if (c.holds) when = c.turn ? age(c.turn, 'has it for ', '') : 'has it';
    else when = ordinal(c.position) + (c.expected_wait_seconds ? ', about ' + span(c.expected_wait_seconds) : '');
    body.append(el('tr', {}, el('td', {class: 'when'}, when), el('td', {class: 'who'}, who(c)), el('td', {}, c.mode), el('td', {}, c.since ? age(c.since, '', ' ago') : ''),
      el('td', {class: 'id'}, c.token), el('td', {class: 'id'}, other(c.id)), valued ? el('td', {}, c.value ? other(c.value) : '') : ''));
  }
  const head = el('tr', {}, ...['', 'Who', 'Has or wants', 'Came', 'Token', 'ID', ...valued ? ['Value'] : []].map((t) => el('th', {}, t)));
  return el('div', {class: 'scroll'}, el('table', {}, el('thead', {}, head), body),
    line.more ? el('p', {class: 'soft'}, 'and ' + line.more + ' more') : '');
}

function draw(line) {
  let row = rows.get(line.name);
  if (!row) {
    row = el('tr');
    row.button = el('button', {class: 'name', 'aria-expanded': 'false'}, other(line.name));
    row.button.addEventListener('click', () => {
      if (!open.delete(row.line.name)) open.add(row.line.name);
      detail(row);
    });
    rows.set(line.name, row);
  }
  row.line = line;
  cells(row, line);
  detail(row);
  return row;
}

function detail(row) {
  const wanted = open.has(row.line.name) && row.isConnected;
  row.button.setAttribute('aria-expanded', String(open.has(row.line.name)));
  if (!wanted) {
    if (row.inner) row.inner.remove();
    row.inner = null;
    return;
  }
  const left = row.inner ? row.inner.querySelector('.scroll').scrollLeft : 0;
  const next = el('tr', {class: 'inner'}, el('td', {colspan: '5'}, inner(row.line)));
  if (row.inner) row.inner.remove();
  row.inner = next;
  row.after(next);
  next.querySelector('.scroll').scrollLeft = left;
}

// arrange puts the rows in order. changed has the names of those to draw again; null: all.
function arrange(changed) {
  const wanted = $('filter').value.trim().toLowerCase();
  const shown = board.lines.filter((l) => matches(l, wanted));
  const drawn = shown.slice(0, mostRows);
  const keep = new Set(drawn.map((l) => l.name));
  for (const [name, row] of rows) {
    if (keep.has(name)) continue;
    if (row.inner) row.inner.remove();
    row.remove();
    rows.delete(name);
  }
  let after = null;
  for (const l of drawn) {
    const row = rows.has(l.name) && changed && !changed.has(l.name) ? rows.get(l.name) : draw(l);
    const place = after ? after.nextElementSibling : $('rows').firstElementChild;
    if (place !== row) {
      if (after) after.after(row); else $('rows').prepend(row);
      detail(row);
    }
    after = row.inner || row;
  }
  $('lines').hidden = drawn.length === 0;
  const left = shown.length - drawn.length + board.more;
  $('more').hidden = left === 0;
  $('more').textContent = left + ' more lines are not shown: filter, or give turnwise serve a prefix.';
  const waiting = board.lines.reduce((n, l) => n + l.waiting, 0);
  const held = board.lines.filter((l) => l.holding).length;
  let text = '';
  if (board.state === 'unread') text = board.error ? '' : 'Reading…';
  else if (!board.lines.length) text = board.state === 'live' ? 'Nobody stands in any line.' : 'Nobody stood in any line.';
  else {
    const n = board.lines.length + board.more;
    text = n + (n === 1 ? ' line, ' : ' lines, ') + held + ' held, ' + waiting + ' waiting';
    const unread = board.lines.filter((l) => l.state === 'unread').length + board.more;
    if (unread) text += ' in those that were read; ' + unread + ' were not yet';
    if (wanted) text += '; ' + shown.length + ' of them here';
  }
  $('sum').textContent = text;
}

function circles() {
  const box = $('circles');
  box.hidden = !board.circles.length;
  if (box.hidden) return;
  const list = el('ul');
  for (const c of board.circles) {
    const item = el('li');
    c.waits.forEach((w, i) => item.append(i ? '; ' : '', other(w.from), ' waits for ', other(w.to), ' in ', other(w.line)));
    item.append(' ', el('span', {class: 'soft'}, '(', age(c.since, 'for ', ' at least'), ')'));
    list.append(item);
  }
  box.replaceChildren(el('h2', {}, board.circles.length === 1 ? 'A circle: each of these waits for the next' :
    board.circles.length + ' circles: in each, everyone waits for the next'), list);
}

// The picture.

function svg(tag, attributes, ...children) {
  const e = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [k, v] of Object.entries(attributes || {})) e.setAttribute(k, v);
  e.append(...children);
  return e;
}

function short(text, n) {
  const letters = [...printable(text)];
  return letters.length > n ? letters.slice(0, n - 1).join('') + '…' : letters.join('');
}

const boxW = 180, boxH = 42, mostBoxes = 60;

// What is to be drawn: boxes and edges. Many who wait for the same, and whom nobody waits for, share a box.
function boxes() {
  const red = new Set();
  board.circles.forEach((c) => c.waits.forEach((w) => red.add(w.from + '\n' + w.to + '\n' + w.line)));
  const labels = new Map(board.owners.map((o) => [o.id, o.label || '']));
  const waitedFor = new Set(board.waits.map((w) => w.to));
  const wishes = new Map(); // what each waits for
  for (const w of board.waits) wishes.set(w.from, (wishes.get(w.from) || '') + w.to + '\n' + w.line + '\n');
  const crowds = new Map();
  for (const [id, wish] of wishes) {
    if (waitedFor.has(id)) continue;
    if (!crowds.has(wish)) crowds.set(wish, []);
    crowds.get(wish).push(id);
  }
  const nodes = new Map(), edges = new Map();
  let undrawn = 0;
  const node = (id, title, text, label) => {
    if (!nodes.has(id) && nodes.size >= mostBoxes) return false;
    if (!nodes.has(id)) nodes.set(id, {id, title, text, label, red: false, layer: 0});
    return true;
  };
  for (const w of board.waits) {
    const crowd = waitedFor.has(w.from) ? [] : crowds.get(wishes.get(w.from));
    const from = crowd.length > 3 ? 'crowd\n' + wishes.get(w.from) : w.from;
    const made = crowd.length > 3 ? node(from, crowd.map(printable).join(', '), crowd.length + ' wait', '') :
      node(from, printable(w.from), w.from, labels.get(w.from));
    if (!made || !node(w.to, printable(w.to), w.to, labels.get(w.to))) {
      undrawn++;
      continue;
    }
    const isRed = red.has(w.from + '\n' + w.to + '\n' + w.line);
    const key = from + '\n' + w.to;
    if (!edges.has(key)) edges.set(key, {from, to: w.to, lines: new Set(), red: false});
    const e = edges.get(key);
    e.lines.add(w.line);
    if (isRed) e.red = nodes.get(from).red = nodes.get(w.to).red = true;
  }
  return {nodes: [...nodes.values()], edges: [...edges.values()], undrawn};
}

// Those who wait for nobody are on the left, and to the right of each are those who wait for it. Those in a circle stand around it.
function place(nodes, edges) {
  const by = new Map(nodes.map((n) => [n.id, n]));
  const rings = [];
  const ringOf = new Map();
  for (const c of board.circles) {
    const ids = [...new Set(c.waits.flatMap((w) => [w.from, w.to]))].filter((id) => by.has(id) && !ringOf.has(id));
    if (ids.length < 2) continue;
    // In the order in which they wait for each other, as far as possible.
    const order = [ids[0]];
    for (let w; (w = c.waits.find((x) => x.from === order.at(-1) && ids.includes(x.to) && !order.includes(x.to)));) order.push(w.to);
    ids.filter((id) => !order.includes(id)).forEach((id) => order.push(id));
    order.forEach((id) => ringOf.set(id, rings.length));
    rings.push(order.map((id) => by.get(id)));
  }
  const gapX = boxW + 110, gapY = boxH + 14;
  let top = 20, ringW = 0;
  for (const ring of rings) {
    const rx = ring.length === 2 ? 150 : Math.max(210, ring.length * 42), ry = ring.length === 2 ? 0 : Math.max(95, ring.length * 24);
    const high = 2 * ry + 120;
    ring.forEach((n, i) => {
      const a = Math.PI + 2 * Math.PI * i / ring.length;
      n.x = rx + 30 + rx * Math.cos(a);
      n.y = top + high / 2 - boxH / 2 + ry * Math.sin(a);
      n.ring = true;
    });
    ringW = Math.max(ringW, 2 * rx + 40 + boxW + 80);
    top += high + 30;
  }
  const rest = nodes.filter((n) => !n.ring);
  for (let i = 0, moved = true; moved && i <= rest.length; i++) {
    moved = false;
    for (const e of edges) {
      const from = by.get(e.from), to = by.get(e.to);
      const layer = to.ring ? 0 : to.layer + 1;
      if (!from.ring && from.layer < layer && layer < 12) { from.layer = layer; moved = true; }
    }
  }
  const columns = [];
  for (const n of rest) (columns[n.layer] ||= []).push(n);
  columns.forEach((column, x) => {
    if (x > 0) {
      const pull = (n) => {
        const ys = edges.filter((e) => e.from === n.id && by.get(e.to).y !== undefined).map((e) => by.get(e.to).y);
        return ys.length ? ys.reduce((a, b) => a + b) / ys.length : 0;
      };
      column.sort((a, b) => pull(a) - pull(b));
      let y = 20;
      for (const n of column) {
        n.y = Math.max(y, pull(n));
        y = n.y + gapY;
      }
    } else column.forEach((n, i) => { n.y = 20 + i * gapY; });
    column.forEach((n) => { n.x = ringW + 10 + x * gapX; });
  });
}

function picture() {
  $('picture').hidden = !board.waits.length;
  if ($('picture').hidden) return;
  const {nodes, edges, undrawn} = boxes();
  place(nodes, edges);
  const by = new Map(nodes.map((n) => [n.id, n]));
  const all = [svg('defs', {}, ...['', 'red'].map((c) => svg('marker',
    {id: 'tip' + c, viewBox: '0 0 10 10', refX: 9, refY: 5, markerWidth: c ? 6 : 8, markerHeight: c ? 6 : 8, orient: 'auto-start-reverse'},
    svg('path', {d: 'M0 0 L10 5 L0 10 z', class: 'tip ' + c}))))];
  const texts = [];
  for (const e of edges) {
    const a = by.get(e.from), b = by.get(e.to);
    const ax = a.x + boxW / 2, ay = a.y + boxH / 2, bx = b.x + boxW / 2, by_ = b.y + boxH / 2;
    let d, mx, my;
    if (a.ring && b.ring) { // bent, so that the ways there and back are two lines
      const dx = bx - ax, dy = by_ - ay, far = Math.hypot(dx, dy) || 1;
      const bend = Math.min(70, far / 4);
      const cx = (ax + bx) / 2 + dy / far * bend, cy = (ay + by_) / 2 - dx / far * bend; // outwards, in the order of the ring
      const [sx, sy] = edge(ax, ay, cx, cy), [tx, ty] = edge(bx, by_, cx, cy);
      d = `M${sx} ${sy} Q${cx} ${cy} ${tx} ${ty}`;
      mx = (sx + 2 * cx + tx) / 4; my = (sy + 2 * cy + ty) / 4;
    } else {
      const right = ax >= bx;
      const sx = right ? a.x : a.x + boxW, tx = right ? b.x + boxW : b.x;
      const half = Math.max(30, Math.abs(sx - tx) / 2) * (right ? -1 : 1);
      d = `M${sx} ${ay} C${sx + half} ${ay} ${tx - half} ${by_} ${tx} ${by_}`;
      mx = (sx + tx) / 2; my = (ay + by_) / 2;
    }
    const lines = [...e.lines];
    all.push(svg('path', {d, class: e.red ? 'red' : '', 'marker-end': e.red ? 'url(#tipred)' : 'url(#tip)'},
      svg('title', {}, printable(e.from.split('\n').at(0) === 'crowd' ? 'they' : e.from) + ' waits for ' + printable(e.to) + ' in ' + lines.map(printable).join(', '))));
    texts.push(svg('text', {x: mx, y: my + 4, 'text-anchor': 'middle', class: 'edge ' + (e.red ? 'red' : 'soft')},
      short(lines[0], 16) + (lines.length > 1 ? ' +' + (lines.length - 1) : '')));
  }
  for (const n of nodes) {
    all.push(svg('g', {class: n.red ? 'red' : ''}, svg('title', {}, n.title + (n.label ? ' ' + printable(n.label) : '')),
      svg('rect', {x: n.x, y: n.y, width: boxW, height: boxH, rx: 6}),
      svg('text', {x: n.x + boxW / 2, y: n.y + (n.label ? 17 : 26), 'text-anchor': 'middle'}, short(n.text, 26)),
      svg('text', {x: n.x + boxW / 2, y: n.y + 33, 'text-anchor': 'middle', class: 'soft'}, short(n.label || '', 26))));
  }
  const w = Math.max(...nodes.map((n) => n.x)) + boxW + 20, h = Math.max(...nodes.map((n) => n.y)) + boxH + 20;
  const graph = $('graph');
  graph.setAttribute('width', w);
  graph.setAttribute('height', h);
  graph.setAttribute('viewBox', `0 0 ${w} ${h}`);
  graph.replaceChildren(...all, ...texts);
  $('undrawn').hidden = undrawn === 0;
  $('undrawn').textContent = undrawn + ' more are not drawn.';
}

// Where the line from the middle of a box to a point leaves the box.
function edge(x, y, px, py) {
  const dx = px - x, dy = py - y;
  const k = Math.min(boxW / 2 / (Math.abs(dx) || 1e-9), boxH / 2 / (Math.abs(dy) || 1e-9), 1);
  return [x + dx * k, y + dy * k];
}

// Whether what is shown is up to date.

function judge() {
  const silent = Math.max(performance.now() - heard, Date.now() - heardWall);
  const state = $('state');
  let is = 'stale', text = '';
  if (!board) { is = trouble === 'connecting' ? 'unread' : 'stale'; text = trouble; }
  else if (trouble || silent > staleAfter) text = 'not live for ' + span(silent / 1000) + ': ' + (trouble || 'turnwise serve has not been heard of');
  else if (late) text = 'not live: what comes is late';
  else if (board.state === 'live') { is = 'live'; text = 'live'; }
  else if (board.state === 'unread') { is = board.error ? 'stale' : 'unread'; text = board.error ? printable(board.error) : 'reading'; }
  else text = 'not live: ' + printable(board.error || 'the service was not asked for a while');
  state.dataset.state = is;
  if (state.textContent !== text) state.textContent = text;
  $('main').classList.toggle('stale', is === 'stale');
  document.title = (is === 'live' ? '' : '(' + (is === 'stale' ? 'not live' : '…') + ') ') + 'turnwise';
  if (stream && silent > 2 * staleAfter) stream.abort();
}

setInterval(() => {
  document.querySelectorAll('time').forEach(tell);
  judge();
}, 1000);

// What is heard.

function hear(kind, event) {
  heard = performance.now();
  heardWall = Date.now();
  const took = Date.now() - Date.parse(event.time);
  least = Math.min(least, took);
  ahead = least;
  late = took - least > staleAfter;
  trouble = '';
  if (kind === 'board') {
    board = event;
    arrange(null);
  } else {
    const changed = new Map((event.lines || []).map((l) => [l.name, l]));
    const gone = new Set(event.gone || []);
    if (changed.size || gone.size) {
      const lines = board.lines.filter((l) => !gone.has(l.name) && !changed.has(l.name)).concat([...changed.values()]);
      board.lines = lines.sort((a, b) => order(a.name, b.name));
    }
    board.state = event.state;
    board.error = event.error;
    board.more = event.more;
    board.owners = event.owners || board.owners;
    board.waits = event.waits || board.waits;
    board.circles = event.circles || board.circles;
    arrange(changed);
  }
  $('service').textContent = printable(board.service);
  if (kind === 'board' || event.circles) circles();
  if (kind === 'board' || event.waits || event.circles || event.owners) picture();
  judge();
}

// The server sorts by the bytes of UTF-8, which is the order of code points.
function order(a, b) {
  const x = [...a], y = [...b];
  for (let i = 0; i < Math.min(x.length, y.length); i++) {
    const d = x[i].codePointAt(0) - y[i].codePointAt(0);
    if (d) return d;
  }
  return x.length - y.length;
}

async function read() {
  stream = new AbortController();
  const token = sessionStorage.getItem('turnwise-token');
  const answer = await fetch('/v1/events', {headers: token ? {Authorization: 'Bearer ' + token} : {}, cache: 'no-store', signal: stream.signal});
  if (answer.status === 401) {
    await login(token);
    return;
  }
  if (!answer.ok) throw new Error((await answer.json()).error);
  least = Infinity;
  heard = performance.now();
  heardWall = Date.now();
  const words = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = [];
  for (;;) {
    const {done, value} = await words.read();
    if (done) throw new Error('turnwise serve has hung up');
    let from = 0;
    for (let at; (at = value.indexOf('\n', from)) >= 0; from = at + 1) {
      const line = rest.join('') + value.slice(from, at);
      rest = [];
      if (line.startsWith('event: ')) kind = line.slice(7);
      else if (line.startsWith('data: ')) {
        hear(kind, JSON.parse(line.slice(6)));
        tries = 0;
      }
    }
    rest.push(value.slice(from));
    if (late) throw new Error('what comes is late');
  }
}

let kind = '';
let tries = 0;

// A hidden tab does not listen: a browser has few connections to one server, and the tab would keep others from listening.
async function listen() {
  for (;;) {
    if (document.hidden) await new Promise((seen) => document.addEventListener('visibilitychange', seen, {once: true}));
    try {
      await read();
    } catch (e) {
      if (!document.hidden) trouble = e.name === 'TypeError' || e.name === 'AbortError' ? 'turnwise serve cannot be reached' : e.message;
    }
    if (stream) stream.abort();
    stream = null;
    judge();
    if (!document.hidden) await new Promise((over) => setTimeout(over, Math.min(500 * 2 ** tries++, 10000)));
  }
}

function login(wrong) {
  $('login').hidden = false;
  $('main').hidden = $('search').hidden = true;
  $('wrong').hidden = !wrong;
  trouble = 'needs a token';
  judge();
  $('token').focus();
  return new Promise((done) => {
    $('login').addEventListener('submit', (e) => {
      e.preventDefault();
      sessionStorage.setItem('turnwise-token', $('token').value.trim());
      $('token').value = '';
      $('login').hidden = true;
      $('main').hidden = $('search').hidden = false;
      tries = 0;
      done();
    }, {once: true});
  });
}

document.addEventListener('visibilitychange', () => {
  if (document.hidden && stream) stream.abort();
});
$('filter').addEventListener('input', () => { if (board) arrange(null); });
listen();
