'use strict';

// The banner about circles: who waits for whom in each, and how to end it.

const mostCircles = 20;
const mostLinks = 50; // of one circle

// quoted puts text into a command for a shell; null: it has characters that nobody should paste. Fish knows a backslash between
// quotes, zsh has a meaning for = at the beginning.
function quoted(text) {
  if (printable(text) !== text) return null;
  if (/^[\w.\/:@%+,][\w.\/:@%+=,-]*$/.test(text)) return text;
  return "'" + text.replace(/['\\]/g, "'\\$&'") + "'";
}

// breaking is the command that takes a waiter's place away. The service is named if its URL can be shown in full.
function breaking(line, token) {
  const words = ['turnwise', 'break'];
  if (!board.service.includes('…')) words.push('-b', quoted(board.service));
  if (line.startsWith('-')) words.push('--');
  words.push(quoted(line), quoted(token));
  return words.includes(null) ? null : words.join(' ');
}

// copy has the browser copy the text of an element. Where it may not, the text is selected.
function copy(from, button) {
  const range = document.createRange();
  range.selectNodeContents(from);
  getSelection().removeAllRanges();
  getSelection().addRange(range);
  button.textContent = document.execCommand('copy') ? 'Copied' : 'Selected';
  setTimeout(() => { button.textContent = 'Copy'; }, 2000);
}

function command(line, token) {
  const text = token && breaking(line, token);
  if (!text) return soft('Its name has characters that no command should have: see turnwise who.');
  const code = el('code', {}, text);
  const button = el('button', {class: 'copy'}, 'Copy');
  button.addEventListener('click', () => copy(code, button));
  return el('div', {class: 'command'}, code, button);
}

// reveal opens a line in the table, whatever the filter is.
function reveal(name) {
  const line = board.lines.find((l) => l.name === name);
  if (!line) return;
  if (!matches(line, filterText())) $('filter').value = '';
  open.add(name);
  refilter();
  const row = rows.get(name);
  if (!row) return;
  detail(row);
  row.scrollIntoView({block: 'center'});
  row.button.focus({preventScroll: true});
}

function lineLink(name) {
  const button = el('button', {class: 'link'}, other(name));
  button.addEventListener('click', () => reveal(name));
  return button;
}

// wishes puts the waits of one waiter in one line together.
function wishes(waits) {
  const all = new Map();
  for (const w of waits) {
    const key = w.from + '\n' + w.line + '\n' + w.token;
    if (!all.has(key)) all.set(key, {...w, for: []});
    all.get(key).for.push(w.to);
  }
  return [...all.values()];
}

const labels = () => new Map(board.owners.map((o) => [o.id, o.label || '']));

function circle(c, names) {
  const list = el('ul', {});
  const all = wishes(c.waits);
  for (const w of all.slice(0, mostLinks)) {
    const item = el('li', {}, named(w.from, names.get(w.from)), ' waits in ', lineLink(w.line), ' for ');
    w.for.forEach((to, i) => item.append(i ? ' and ' : '', named(to, names.get(to))));
    item.append(command(w.line, w.token));
    list.append(item);
  }
  const more = Math.max(0, all.length - mostLinks) + c.more;
  if (more) list.append(el('li', {}, soft('and ' + more + ' more')));
  return el('div', {class: 'ring'}, el('p', {}, age(c.since, 'For ', ' at least, each of these waits for the next:')), list);
}

function circles() {
  const box = $('circles');
  box.hidden = !board.circles.length;
  if (box.hidden) return;
  const n = board.circles.length, names = labels();
  const shown = board.circles.slice(0, mostCircles).map((c) => circle(c, names));
  box.replaceChildren(
    el('h2', {}, n === 1 ? 'A circle: nobody in it goes on by itself' : n + ' circles: nobody in them goes on by itself'),
    ...shown,
    n > mostCircles ? el('p', {class: 'soft'}, 'and ' + (n - mostCircles) + ' more circles') : '',
    el('p', {class: 'soft'}, 'One of these commands is enough. It ends the wait above it, whose process is told that its place is gone; the others go on when that lets go of what it has.'));
}
