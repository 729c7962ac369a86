'use strict';

// How things are said. Others wrote what is shown, so it is put in as text, never as markup.

const $ = (id) => document.getElementById(id);

let ahead = 0; // how far our clock is ahead of the server's

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
const soft = (...children) => el('span', {class: 'soft'}, ...children);

function short(text, n) {
  const letters = [...printable(text)];
  return letters.length > n ? letters.slice(0, n - 1).join('') + '…' : letters.join('');
}

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

// Until when what is shown was so.
function asOf(seconds, why) {
  return 'as of ' + (seconds < 1 ? 'a moment' : span(seconds)) + ' ago: ' + why;
}

// Who it is: what it calls itself, if it does, and where it runs.
function named(id, label) {
  return label ? el('span', {class: 'who'}, other(label), ' ', el('span', {class: 'at'}, other(id))) : el('span', {class: 'who'}, other(id));
}

function who(c) {
  return c.host ? named(c.host + '/' + c.pid, c.label) : soft('does not say who it is');
}

function ordinal(n) {
  const tens = n % 100 > 10 && n % 100 < 14;
  return n + (tens ? 'th' : ['th', 'st', 'nd', 'rd'][n % 10] || 'th');
}

// The server sorts by the bytes of UTF-8, which is the order of code points. Surrogates come after all other code units then.
function order(a, b) {
  const rank = (unit) => unit < 0xd800 ? unit : unit > 0xdfff ? unit - 0x800 : unit + 0x2000;
  for (let i = 0; i < a.length && i < b.length; i++) {
    const x = a.charCodeAt(i), y = b.charCodeAt(i);
    if (x !== y) return rank(x) - rank(y);
  }
  return a.length - b.length;
}
