'use strict';

// What is heard, and whether it is up to date.

const staleAfter = 5000; // ms without a word

let board = null;
let heard = 0; // when the last event arrived, by performance.now
let heardWall = 0; // the same by the wall clock, which goes on while the machine sleeps
let least = Infinity; // how far the server's clock is behind ours, plus the shortest time that an event was under way
let late = 0; // how much longer than that the last one was under way, in ms
let trouble = 'connecting';
let stream = null;

// verdict says whether what is shown is so now, and if not, until when it was and what is wrong.
function verdict(silent) {
  if (!board) return trouble === 'connecting' ? ['unread', trouble] : ['stale', trouble];
  if (trouble || silent > staleAfter) return ['stale', asOf(silent / 1000, trouble || 'turnwise serve does not answer')];
  if (late > staleAfter) return ['stale', asOf(late / 1000, 'the connection to turnwise serve is slow')];
  if (board.state === 'live') return ['live', 'live'];
  const why = printable(board.error || 'the service was not asked for a while');
  if (board.state === 'unread') return board.error ? ['stale', 'nothing is known: ' + why] : ['unread', 'reading'];
  return ['stale', asOf(since(board.as_of), why)];
}

function judge() {
  const silent = Math.max(performance.now() - heard, Date.now() - heardWall);
  const [is, text] = verdict(silent);
  const state = $('state');
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

// merge puts what has changed into the board, and returns the names of the lines that have.
function merge(event) {
  const changed = new Map((event.lines || []).map((l) => [l.name, l]));
  const gone = new Set(event.gone || []);
  if (changed.size || gone.size) {
    const lines = board.lines.filter((l) => !gone.has(l.name) && !changed.has(l.name)).concat([...changed.values()]);
    board.lines = lines.sort((a, b) => order(a.name, b.name));
  }
  board.state = event.state;
  board.error = event.error;
  board.as_of = event.as_of;
  board.more = event.more;
  board.owners = event.owners || board.owners;
  board.waits = event.waits || board.waits;
  board.circles = event.circles || board.circles;
  return new Set(changed.keys());
}

// clock notes when an event came, and how long it was under way.
function clock(event) {
  heard = performance.now();
  heardWall = Date.now();
  const took = Date.now() - Date.parse(event.time);
  least = Math.min(least, took);
  ahead = least;
  late = took - least;
  trouble = '';
}

function hear(kind, event) {
  clock(event);
  const whole = kind === 'board';
  let changed = null;
  if (whole) board = event; else changed = merge(event);
  $('service').textContent = printable(board.service);
  arrange(event.circles ? null : changed);
  if (whole || event.circles || event.owners) circles();
  if (whole || event.waits || event.circles || event.owners) picture();
  judge();
}

// refilter shows what fits the filter.
function refilter() {
  if (!board) return;
  arrange(null);
  picture();
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
    if (late > staleAfter) throw new Error('the connection is slow: making another');
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
$('filter').addEventListener('input', refilter);
$('show').addEventListener('click', () => { mostRows += moreRows; arrange(null); });
$('jump').addEventListener('click', () => $('picture').scrollIntoView({block: 'start'}));
new ResizeObserver(() => { if (board && $('picture').clientWidth) picture(); }).observe($('main'));
listen();
