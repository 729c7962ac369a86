'use strict';

// The table of lines.

let mostRows = 100; // until somebody wants more
const moreRows = 500;
const rows = new Map(); // by the names of lines
const open = new Set();
let sorting = {by: '', back: false}; // '': what is in trouble and what waits first

const holder = (line) => line.contenders.find((c) => c.holds);
const waiters = (line) => line.contenders.filter((c) => !c.holds);
const nextWait = (line) => line.contenders.find((c) => !c.holds && c.expected_wait_seconds);
const stood = (c) => c && (c.turn || c.since) ? Date.parse(c.turn || c.since) : Infinity;
const longest = (line) => line.oldest_wait ? Date.parse(line.oldest_wait) : Infinity;
const byNumber = (a, b) => a === b ? 0 : a - b; // both may be Infinity

// The columns, each with how it is sorted by.
const columns = [
  {id: 'name', title: 'Line', sort: (a, b) => order(a.name, b.name)},
  {id: 'held', title: 'Held by', sort: (a, b) => order(holderName(a), holderName(b))},
  {id: 'since', title: 'Held for', sort: (a, b) => byNumber(stood(holder(a)), stood(holder(b)))},
  {id: 'waiting', title: 'Waiting', sort: (a, b) => b.waiting - a.waiting},
  {id: 'expected', title: 'Expected wait', sort: (a, b) => expected(b) - expected(a)},
];

function holderName(line) {
  const c = holder(line);
  return c ? c.label || c.host || '\uffff' : '\uffff';
}

function expected(line) {
  const c = nextWait(line);
  return c ? c.expected_wait_seconds : 0;
}

// How urgent a line is: in a circle, not readable, waited for, or none of these.
function rank(line, inCircles) {
  if (inCircles.has(line.name)) return 0;
  if (line.error) return 1;
  return line.waiting ? 2 : 3;
}

const circled = () => new Set(board.circles.flatMap((c) => c.waits.map((w) => w.line)));

// sorted returns lines, which come in the order of their names, as they are to be shown.
function sorted(lines) {
  const column = columns.find((c) => c.id === sorting.by);
  if (column) {
    const all = [...lines].sort(column.sort);
    return sorting.back ? all.reverse() : all;
  }
  const inCircles = circled();
  return lines.map((line) => ({line, rank: rank(line, inCircles)}))
    .sort((a, b) => a.rank - b.rank || (a.rank === 2 ? byNumber(longest(a.line), longest(b.line)) : 0))
    .map((r) => r.line);
}

// sortBy is a click on the head of a column: the first sorts by it, the second turns that round, the third ends it.
function sortBy(id) {
  if (sorting.by !== id) sorting = {by: id, back: false};
  else if (!sorting.back) sorting = {by: id, back: true};
  else sorting = {by: '', back: false};
  heads();
  if (board) arrange(null);
}

function heads() {
  $('heads').replaceChildren(...columns.map((c) => {
    const is = sorting.by === c.id ? (sorting.back ? 'descending' : 'ascending') : 'none';
    const button = el('button', {class: 'sort', 'data-by': c.id, title: 'Sort by this'}, c.title);
    button.addEventListener('click', () => { sortBy(c.id); $('heads').querySelector('[data-by=' + c.id + ']').focus(); });
    return el('th', {class: 'c-' + c.id, 'aria-sort': is, scope: 'col'}, button);
  }));
}

const filterText = () => $('filter').value.trim().toLowerCase();

function matches(line, wanted) {
  if (!wanted) return true;
  const texts = [line.name];
  for (const c of line.contenders) texts.push(c.host || '', c.label || '', c.host + '/' + c.pid);
  return texts.some((t) => t.toLowerCase().includes(wanted));
}

// What is wrong with the reading of a line.
function noteOn(line) {
  if (line.state === 'unread' && !line.error) return soft(' not read yet');
  if (line.state === 'unread') return el('span', {class: 'note'}, 'cannot be read: ', other(line.error));
  if (line.state === 'stale') {
    return el('span', {class: 'note'}, age(line.as_of, 'as of ', ' ago'), line.error ? ': ' : '', line.error ? other(line.error) : '');
  }
  return line.error ? el('span', {class: 'note'}, other(line.error)) : null;
}

function heldCell(line) {
  const first = holder(line);
  if (!first) return [];
  return [who(first), line.holding > 1 ? soft(' and ' + (line.holding - 1) + ' more') : '', first.mode === 'exclusive' ? '' : soft(', ' + first.mode)];
}

// The word goes where all cells of the column would begin with it.
const word = (text) => el('span', {class: 'word'}, text);

function sinceCell(line) {
  const first = holder(line);
  if (first && first.turn) return [word('held for '), age(first.turn, '', '')];
  return first && first.since ? [word('came '), age(first.since, '', ' ago')] : [];
}

function waitingCell(line) {
  if (!line.waiting) return [];
  return [el('span', {class: 'busy'}, String(line.waiting)), el('span', {class: 'unit'}, ' waiting'),
    line.oldest_wait ? soft(', ', age(line.oldest_wait, 'for up to ', '')) : ''];
}

function expectedCell(line) {
  const next = nextWait(line), last = waiters(line).at(-1);
  if (!next) return [];
  const parts = ['next about ' + span(next.expected_wait_seconds)];
  if (last !== next && last.expected_wait_seconds && !line.more) parts.push(', last about ' + span(last.expected_wait_seconds));
  return parts;
}

function cells(row, line) {
  const urgency = ['circle', 'trouble', 'waits', 'idle'][rank(line, circled())];
  row.className = line.state + ' ' + urgency;
  const td = (id, children) => el('td', {class: 'c-' + id}, ...children);
  row.replaceChildren(
    td('name', [row.button, urgency === 'circle' ? el('span', {class: 'tag'}, 'circle') : null, noteOn(line)]),
    td('held', heldCell(line)), td('since', sinceCell(line)), td('waiting', waitingCell(line)), td('expected', expectedCell(line)));
}

function standing(c) {
  if (c.holds) return c.turn ? age(c.turn, 'holds for ', '') : 'holds';
  return ordinal(c.position) + (c.expected_wait_seconds ? ', about ' + span(c.expected_wait_seconds) : '');
}

// The columns of an open line; those in which nothing would stand are left out.
const parts = [
  {title: '', kind: 'when', cell: standing},
  {title: 'Who', kind: 'whom', cell: who},
  {title: 'Has or wants', kind: 'mode', cell: (c) => c.mode},
  {title: 'Came', kind: 'came', cell: (c) => c.since ? age(c.since, '', ' ago') : ''},
  {title: 'Token', kind: 'id', cell: (c) => c.token},
  {title: 'ID', kind: 'id', cell: (c) => other(c.id), has: (c) => c.id},
  {title: 'Value', kind: 'value', cell: (c) => c.value ? other(c.value) : ''},
  {title: 'Rank', kind: 'mode', cell: (c) => c.rank ? String(c.rank) : ''},
  {title: 'Asks to let go', kind: 'value', cell: (c) => c.asks ? other(c.asks) : ''},
];

function inner(line) {
  const shown = parts.filter((p) => line.contenders.some((c) => (p.has || p.cell)(c)));
  const body = line.contenders.map((c) => el('tr', {}, ...shown.map((p) => el('td', {class: p.kind, 'data-label': p.title}, p.cell(c)))));
  const head = el('tr', {}, ...shown.map((p) => el('th', {scope: 'col'}, p.title)));
  return el('div', {class: 'scroll'}, el('table', {}, el('thead', {}, head), el('tbody', {}, ...body)),
    line.contenders.length ? '' : soft('Nobody stands in it any more.'), line.more ? el('p', {class: 'soft'}, 'and ' + line.more + ' more') : '');
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
  const wide = columns.length - hiddenColumns().length;
  const next = el('tr', {class: 'inner'}, el('td', {colspan: String(wide)}, inner(row.line)));
  if (row.inner) row.inner.remove();
  row.inner = next;
  row.after(next);
  next.querySelector('.scroll').scrollLeft = left;
}

const hiddenColumns = () => ($('lines').dataset.hide || '').split(' ').filter(Boolean);

// fitColumns hides the columns in which nothing stands, and says over that of times what they are.
function fitColumns(shown) {
  const holders = shown.map(holder).filter((c) => c && (c.turn || c.since));
  const turns = holders.filter((c) => c.turn).length;
  const filled = {
    name: true, held: shown.some((l) => l.holding), since: holders.length > 0,
    waiting: shown.some((l) => l.waiting), expected: shown.some(nextWait),
  };
  $('lines').dataset.hide = columns.filter((c) => !filled[c.id]).map((c) => c.id).join(' ');
  $('lines').classList.toggle('uniform', turns === 0 || turns === holders.length);
  const column = columns.find((c) => c.id === 'since');
  const title = turns === holders.length ? 'Held for' : turns === 0 ? 'Came' : 'Held for, or came';
  if (column.title === title) return;
  column.title = title;
  heads();
}

// dropRows takes away the rows that are not to be kept.
function dropRows(keep) {
  for (const [name, row] of rows) {
    if (keep.has(name)) continue;
    if (row.inner) row.inner.remove();
    row.remove();
    rows.delete(name);
  }
}

// arrange puts the rows in order. changed has the names of those to draw again; null: all.
function arrange(changed) {
  const wanted = filterText();
  const shown = board.lines.filter((l) => matches(l, wanted));
  const drawn = sorted(shown).slice(0, mostRows);
  const focused = document.activeElement;
  dropRows(new Set(drawn.map((l) => l.name)));
  fitColumns(drawn);
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
  if (focused && focused.isConnected && document.activeElement !== focused) focused.focus({preventScroll: true}); // it was moved
  $('lines').hidden = drawn.length === 0;
  sayWhatIsLeft(shown.length - drawn.length);
  $('count').textContent = summary(wanted ? shown.length : null);
}

// sayWhatIsLeft says how many lines have no row: those that are known, and those that are too many to be read.
function sayWhatIsLeft(left) {
  $('more').hidden = left + board.more === 0;
  $('left').textContent = (left + board.more) + ' more lines are not shown' + (board.more ? '; ' + board.more + ' of them are not read: give turnwise serve a prefix.' : '.');
  $('show').hidden = left === 0;
  $('show').textContent = 'Show ' + Math.min(left, moreRows) + ' more';
}

// summary says how much there is, and how much of it is shown if there is a filter.
function summary(shown) {
  if (board.state === 'unread') return board.error ? '' : 'Reading…';
  if (!board.lines.length) return board.state === 'live' ? 'Nobody stands in any line.' : 'Nobody stood in any line.';
  const n = board.lines.length + board.more;
  const held = board.lines.filter((l) => l.holding).length;
  const waiting = board.lines.reduce((sum, l) => sum + l.waiting, 0);
  let text = n + (n === 1 ? ' line, ' : ' lines, ') + held + ' held, ' + waiting + ' waiting';
  const unread = board.lines.filter((l) => l.state === 'unread').length + board.more;
  if (unread) text += ' in those that were read; ' + unread + ' were not yet';
  if (shown !== null) text += '; ' + (shown ? shown + ' of them here' : 'none of them fits the filter');
  return text;
}

heads();
