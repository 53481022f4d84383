// Markdown as models write it, parsed into plain objects. Pure: no DOM, and nothing here makes markup, so nothing that a
// model writes can become any. markdown_view.js shows the result.
//
// Blocks: heading, paragraph, code (fenced), quote, list, table, rule. Inline: emphasis, strong, strike-through, code,
// links of safe schemes, bare addresses, breaks, the usual character references. What it does not know stays text: HTML,
// footnotes, reference links, indented code. Time is linear in the text, nesting is limited.

const NESTING_MAX = 12;
const FENCE = /^( {0,3})(`{3,}|~{3,})([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?: |$)/;
const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(?:( +)(.*)|[ \t]*)$/;
const TABLE_RULE = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;

const blank = (line) => line.trim() === '';
const indentOf = (line) => line.length - line.trimStart().length;

// The blocks of a text. Each has `raw`, the lines that it was made of: equal raw, equal block.
export function parseBlocks(text) {
  const lines = text.replaceAll('\r\n', '\n').replaceAll('\r', '\n').replaceAll('\t', '    ').split('\n');
  return blocksOf(lines, 0);
}

function blocksOf(lines, depth) {
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    if (blank(lines[at])) {
      at++;
      continue;
    }
    const [block, next] = oneBlock(lines, at, depth);
    block.raw = lines.slice(at, next).join('\n');
    blocks.push(block);
    at = next;
  }
  return blocks;
}

function oneBlock(lines, at, depth) {
  const line = lines[at];
  const fence = FENCE.exec(line);
  if (fence) return codeBlock(lines, at, fence);
  const heading = HEADING.exec(line);
  if (heading) return [{ type: 'heading', level: heading[1].length, text: headingText(line.slice(heading[0].length)) }, at + 1];
  if (RULE.test(line)) return [{ type: 'rule' }, at + 1];
  if (depth < NESTING_MAX && QUOTE.test(line)) return quoteBlock(lines, at, depth);
  if (depth < NESTING_MAX && ITEM.test(line) && indentOf(line) < 4) return listBlock(lines, at, depth);
  if (isTable(lines, at)) return tableBlock(lines, at);
  return paragraph(lines, at, depth);
}

// Without the marks that may close it.
function headingText(text) {
  const trimmed = text.trim();
  let end = trimmed.length;
  while (end > 0 && trimmed[end - 1] === '#') end--;
  return end === 0 || trimmed[end - 1] === ' ' ? trimmed.slice(0, end).trimEnd() : trimmed;
}

// One that was not closed yet goes to the end: it is still being written.
function codeBlock(lines, at, fence) {
  const [, indent, ticks, info] = fence;
  const code = [];
  let i = at + 1;
  let closed = false;
  for (; i < lines.length && !closed; i++) {
    const end = /^ {0,3}(`{3,}|~{3,}) *$/.exec(lines[i]);
    closed = Boolean(end) && end[1][0] === ticks[0] && end[1].length >= ticks.length;
    if (!closed) code.push(lines[i].slice(Math.min(indentOf(lines[i]), indent.length)));
  }
  return [{ type: 'code', lang: info.trim().split(/[\s{]/)[0].toLowerCase(), text: code.join('\n'), closed }, i];
}

function quoteBlock(lines, at, depth) {
  const inner = [];
  let i = at;
  for (; i < lines.length; i++) {
    if (QUOTE.test(lines[i])) inner.push(lines[i].replace(QUOTE, ''));
    else if (!blank(lines[i]) && inner.length && !blank(inner.at(-1)) && !startsBlock(lines, i, depth))
      inner.push(lines[i]); // the paragraph goes on
    else break;
  }
  return [{ type: 'quote', blocks: blocksOf(inner, depth + 1) }, i];
}

const orderedMark = (mark) => /\d/.test(mark);
const sameList = (a, b) => orderedMark(a) === orderedMark(b) && a.at(-1) === b.at(-1);

function listBlock(lines, at, depth) {
  const first = ITEM.exec(lines[at]);
  const list = { type: 'list', ordered: orderedMark(first[2]), start: parseInt(first[2], 10) || 0, loose: false, items: [] };
  let i = at;
  let gap = false;
  while (i < lines.length) {
    const mark = ITEM.exec(lines[i]);
    if (!mark || !sameList(first[2], mark[2]) || mark[1].length > first[1].length + 1 || RULE.test(lines[i])) break;
    if (gap) list.loose = true;
    const [item, next, gapAfter] = listItem(lines, i, mark, depth);
    list.items.push(item);
    gap = gapAfter;
    i = next;
  }
  list.loose ||= list.items.some((item) => item.apart);
  return [list, i];
}

// The item's own lines, without its indent. Lines that are indented less end it, unless a paragraph goes on.
function listItem(lines, at, mark, depth) {
  const content = mark[4] ?? '';
  const spaces = mark[3]?.length ?? 1;
  const indent = mark[1].length + mark[2].length + (spaces > 4 ? 1 : spaces);
  const task = /^\[([ xX])\] +(.*)$/.exec(content);
  const inner = [task ? task[2] : content];
  let i = at + 1;
  let gap = false;
  let apart = false;
  let fenced = FENCE.test(inner[0]);
  for (; i < lines.length; i++) {
    const line = lines[i];
    if (blank(line)) {
      gap = true;
      inner.push('');
      continue;
    }
    const inside = indentOf(line) >= Math.min(indent, mark[1].length + 2);
    if (!inside && (gap || fenced || startsBlock(lines, i, depth))) break;
    if (FENCE.test(line.trimStart())) fenced = !fenced;
    if (gap && inside) apart ||= !ITEM.test(line);
    gap = false;
    inner.push(line.slice(Math.min(indentOf(line), indent)));
  }
  const item = { blocks: blocksOf(inner, depth + 1), checked: task ? task[1] !== ' ' : null, apart };
  return [item, i, gap];
}

function startsBlock(lines, at, depth) {
  const line = lines[at];
  if (FENCE.test(line) || HEADING.test(line) || RULE.test(line)) return true;
  if (depth >= NESTING_MAX) return false;
  return QUOTE.test(line) || ITEM.test(line);
}

function isTable(lines, at) {
  if (at + 1 >= lines.length || !lines[at].includes('|') || !TABLE_RULE.test(lines[at + 1])) return false;
  return cellsOf(lines[at]).length === cellsOf(lines[at + 1]).length;
}

function cellsOf(line) {
  const cells = [];
  let cell = '';
  const text = line.trim().replace(/^\|/, '');
  let code = false;
  for (let i = 0; i < text.length; i++) {
    if (text[i] === '\\' && text[i + 1] === '|') {
      cell += '|';
      i++;
    } else if (text[i] === '|' && !code) {
      cells.push(cell.trim());
      cell = '';
    } else {
      if (text[i] === '`' && text.indexOf('`', i + 1) > 0) code = !code;
      else if (text[i] === '`') code = false;
      cell += text[i];
    }
  }
  if (cell.trim() !== '') cells.push(cell.trim());
  return cells;
}

function tableBlock(lines, at) {
  const head = cellsOf(lines[at]);
  const align = cellsOf(lines[at + 1]).map((c) =>
    c.startsWith(':') && c.endsWith(':') ? 'center' : c.endsWith(':') ? 'right' : c.startsWith(':') ? 'left' : null);
  const rows = [];
  let i = at + 2;
  for (; i < lines.length && !blank(lines[i]) && lines[i].includes('|'); i++) {
    const cells = cellsOf(lines[i]).slice(0, head.length);
    while (cells.length < head.length) cells.push('');
    rows.push(cells);
  }
  return [{ type: 'table', head, align, rows }, i];
}

function paragraph(lines, at, depth) {
  let i = at + 1;
  for (; i < lines.length && !blank(lines[i]); i++) {
    const under = /^ {0,3}(={3,}|-{3,}) *$/.exec(lines[i]);
    if (under && lines[at].trim() !== '') {
      const text = lines.slice(at, i).join('\n').trim();
      return [{ type: 'heading', level: under[1][0] === '=' ? 1 : 2, text }, i + 1];
    }
    const item = ITEM.exec(lines[i]);
    // "1986. A great year" within a paragraph begins no list; "1." does.
    if (item && orderedMark(item[2]) && parseInt(item[2], 10) !== 1) continue;
    if (startsBlock(lines, i, depth) || isTable(lines, i)) break;
  }
  return [{ type: 'paragraph', text: lines.slice(at, i).join('\n') }, i];
}

// ---- inline ----

const REFERENCES = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0', copy: '©', hellip: '…', mdash: '—', ndash: '–', times: '×', rarr: '→', larr: '←' };
const ESCAPABLE = /[!-/:-@[-`{-~]/;
const ADDRESS = /https?:\/\/[^\s<>"'`]+/y;
const ANGLE = /<((?:https?:\/\/|mailto:)[^\s<>]+)>/y;
const LINE_BREAK = /<br ?\/?>/iy;
const REFERENCE = /&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-zA-Z]{2,8}));/y;
const TARGET = /\(\s*(?:<([^<>\n]*)>|((?:[^\s()\\]|\\.|\([^\s()]*\))*))(?:\s+(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'))?\s*\)/y;
const TARGET_MAX = 2048;
const SPACE = /\s/;
const PUNCTUATION = /[\p{P}\p{S}]/u;

// The address if it may be a link: absolute and of a scheme that runs nothing. Else null.
export function safeAddress(text) {
  let url;
  try {
    url = new URL(text);
  } catch {
    return null;
  }
  return ['http:', 'https:', 'mailto:'].includes(url.protocol) ? url.href : null;
}

// Nodes: { type: 'text' | 'code', text }, { type: 'em' | 'strong' | 'del' | 'link', children }, { type: 'break' }.
export function parseInline(text) {
  const p = { text, at: 0, nodes: [], runs: [], brackets: [], ticks: null };
  let plain = '';
  const flush = () => {
    if (plain) p.nodes.push({ type: 'text', text: plain });
    plain = '';
  };
  while (p.at < text.length) {
    const c = text[p.at];
    const made = special(p, c, flush);
    if (made === null) {
      plain += c;
      p.at++;
    } else plain += made;
  }
  flush();
  joinRuns(p.nodes, p.runs);
  return tidy(p.nodes);
}

// Null: an ordinary character. Else p.at has moved and the returned text is plain text.
function special(p, c, flush) {
  switch (c) {
    case '\\': return escaped(p, flush);
    case '`': return codeSpan(p, flush);
    case '*':
    case '_':
    case '~': return run(p, c, flush);
    case '[': return openBracket(p, flush, false);
    case '!': return p.text[p.at + 1] === '[' ? openBracket(p, flush, true) : null;
    case ']': return closeBracket(p, flush);
    case '<': return angle(p, flush);
    case '&': return reference(p);
    case '\n': return lineEnd(p, flush);
    case 'h': return bareAddress(p, flush);
    default: return null;
  }
}

function escaped(p, flush) {
  const next = p.text[p.at + 1];
  if (next === '\n') {
    flush();
    p.nodes.push({ type: 'break' });
    p.at += 2;
    return '';
  }
  if (next === undefined || !ESCAPABLE.test(next)) return null;
  p.at += 2;
  return next;
}

// Where runs of n backticks begin, found once: a search for each opener would be quadratic.
function ticksOf(p) {
  if (p.ticks) return p.ticks;
  p.ticks = new Map();
  for (const m of p.text.matchAll(/`+/g)) {
    if (!p.ticks.has(m[0].length)) p.ticks.set(m[0].length, []);
    p.ticks.get(m[0].length).push(m.index);
  }
  return p.ticks;
}

function codeSpan(p, flush) {
  let n = 0;
  while (p.text[p.at + n] === '`') n++;
  const places = ticksOf(p).get(n) ?? [];
  while (places.length && places[0] < p.at + n) places.shift();
  if (!places.length) {
    p.at += n;
    return '`'.repeat(n);
  }
  let code = p.text.slice(p.at + n, places[0]).replaceAll('\n', ' ');
  if (code.startsWith(' ') && code.endsWith(' ') && code.trim() !== '') code = code.slice(1, -1);
  flush();
  p.nodes.push({ type: 'code', text: code });
  p.at = places[0] + n;
  return '';
}

function run(p, c, flush) {
  let n = 0;
  while (p.text[p.at + n] === c) n++;
  const before = p.text[p.at - 1] ?? ' ';
  const after = p.text[p.at + n] ?? ' ';
  p.at += n;
  if (c === '~' && n !== 2) return c.repeat(n);
  const spaceBefore = SPACE.test(before), spaceAfter = SPACE.test(after);
  const markBefore = PUNCTUATION.test(before), markAfter = PUNCTUATION.test(after);
  const left = !spaceAfter && (!markAfter || spaceBefore || markBefore);
  const right = !spaceBefore && (!markBefore || spaceAfter || markAfter);
  flush();
  const node = { type: 'text', text: c.repeat(n) };
  p.runs.push({
    c, n, node, original: n,
    opens: c === '_' ? left && (!right || markBefore) : left,
    closes: c === '_' ? right && (!left || markAfter) : right,
  });
  p.nodes.push(node);
  return '';
}

function openBracket(p, flush, image) {
  flush();
  const node = { type: 'text', text: image ? '![' : '[' };
  p.nodes.push(node);
  p.brackets.push({ node, index: p.nodes.length - 1, runs: p.runs.length, image });
  p.at += image ? 2 : 1;
  return '';
}

function closeBracket(p, flush) {
  const open = p.brackets.pop();
  if (!open) return null;
  TARGET.lastIndex = p.at + 1;
  const target = p.text[p.at + 1] === '(' ? TARGET.exec(p.text) : null;
  if (!target || target[0].length > TARGET_MAX) return null;
  flush();
  const children = p.nodes.splice(open.index).slice(1);
  joinRuns(children, p.runs.splice(open.runs));
  const address = safeAddress((target[1] ?? target[2] ?? '').replace(/\\([!-/:-@[-`{-~])/g, '$1'));
  const inner = tidy(children);
  // No link within a link; and pictures are not fetched: the page asks nobody but its server.
  if (!open.image) p.brackets.length = 0;
  if (address) p.nodes.push({ type: 'link', href: address, title: target[3] ?? target[4] ?? null, children: inner.length ? inner : [{ type: 'text', text: address }] });
  else p.nodes.push(...inner);
  p.at = TARGET.lastIndex;
  return '';
}

function angle(p, flush) {
  LINE_BREAK.lastIndex = p.at;
  if (LINE_BREAK.test(p.text)) {
    flush();
    p.nodes.push({ type: 'break' });
    p.at = LINE_BREAK.lastIndex;
    return '';
  }
  ANGLE.lastIndex = p.at;
  const m = ANGLE.exec(p.text);
  const address = m && safeAddress(m[1]);
  if (!address) return null;
  flush();
  p.nodes.push({ type: 'link', href: address, title: null, children: [{ type: 'text', text: m[1].replace(/^mailto:/, '') }] });
  p.at = ANGLE.lastIndex;
  return '';
}

function reference(p) {
  REFERENCE.lastIndex = p.at;
  const m = REFERENCE.exec(p.text);
  if (!m) return null;
  const code = m[1] ? parseInt(m[1], 10) : m[2] ? parseInt(m[2], 16) : 0;
  const text = m[3] ? REFERENCES[m[3]] : code > 0 && code <= 0x10ffff && !(code >= 0xd800 && code < 0xe000) ? String.fromCodePoint(code) : '\ufffd';
  if (!Object.hasOwn(REFERENCES, m[3] ?? 'amp')) return null;
  p.at = REFERENCE.lastIndex;
  return text;
}

function lineEnd(p, flush) {
  let from = p.at;
  while (from > 0 && p.text[from - 1] === ' ') from--;
  let to = p.at + 1;
  while (p.text[to] === ' ') to++;
  const hard = p.at - from >= 2;
  p.at = to;
  if (!hard) return '\n';
  flush();
  p.nodes.push({ type: 'break' });
  return '';
}

function bareAddress(p, flush) {
  if (p.at > 0 && /[\w/]/.test(p.text[p.at - 1])) return null;
  ADDRESS.lastIndex = p.at;
  const m = ADDRESS.exec(p.text);
  if (!m || m[0].length > TARGET_MAX) return null;
  let shown = m[0].replace(/[.,;:!?*_~\]]+$/, '');
  // A closing bracket belongs to the sentence, unless it was opened within the address.
  while (shown.endsWith(')') && shown.split('(').length < shown.split(')').length) shown = shown.slice(0, -1);
  const address = safeAddress(shown);
  if (!address) return null;
  flush();
  p.nodes.push({ type: 'link', href: address, title: null, children: [{ type: 'text', text: shown }] });
  p.at += shown.length;
  return '';
}

// Runs of * _ ~~ become emphasis: each closer takes the nearest opener of its kind, and what was opened in between stays
// text. Where none was found for a kind of closer, none is looked for below that place again: the whole is linear.
function joinRuns(nodes, runs) {
  const bottom = new Map();
  const place = new Map(nodes.map((node, i) => [node, i]));
  const open = []; // runs that may still open something, by index
  const spans = [];
  runs.forEach((closer, i) => {
    while (closer.closes && closer.n > 0) {
      const kind = `${closer.c}${closer.opens}${closer.original % 3}`;
      const stop = bottom.get(kind) ?? -1;
      let k = open.length - 1;
      while (k >= 0 && open[k] > stop && !matches(runs[open[k]], closer)) k--;
      if (k < 0 || open[k] <= stop) {
        bottom.set(kind, i - 1);
        break;
      }
      const opener = runs[open[k]];
      const n = opener.n >= 2 && closer.n >= 2 ? 2 : 1;
      opener.n -= n;
      closer.n -= n;
      opener.node.text = opener.node.text.slice(n);
      closer.node.text = closer.node.text.slice(n);
      spans.push({ type: closer.c === '~' ? 'del' : n === 2 ? 'strong' : 'em', from: place.get(opener.node), to: place.get(closer.node) });
      open.length = opener.n > 0 ? k + 1 : k;
    }
    if (closer.opens && closer.n > 0) open.push(i);
  });
  if (spans.length) nest(nodes, spans);
}

function matches(opener, closer) {
  if (opener.c !== closer.c) return false;
  const both = opener.closes || closer.opens;
  return !both || closer.original % 3 === 0 || (opener.original + closer.original) % 3 !== 0;
}

// Spans that never cross, in the order in which they were closed (inner ones first).
function nest(nodes, spans) {
  const opening = new Map(), closing = new Map();
  for (const s of spans) {
    if (!opening.has(s.from)) opening.set(s.from, []);
    opening.get(s.from).unshift(s); // outer ones first
    closing.set(s.to, (closing.get(s.to) ?? 0) + 1);
  }
  const out = [];
  const stack = [out];
  nodes.forEach((node, i) => {
    for (let n = closing.get(i) ?? 0; n > 0; n--) stack.pop();
    stack.at(-1).push(node);
    for (const s of opening.get(i) ?? []) {
      const span = { type: s.type, children: [] };
      stack.at(-1).push(span);
      stack.push(span.children);
    }
  });
  nodes.length = 0;
  for (const node of out) nodes.push(node);
}

function tidy(nodes) {
  const out = [];
  for (const node of nodes) {
    if (node.type === 'text' && node.text === '') continue;
    const last = out.at(-1);
    if (node.type === 'text' && last?.type === 'text') out[out.length - 1] = { type: 'text', text: last.text + node.text };
    else out.push(node.children ? { ...node, children: shallow(node.children) } : node);
  }
  return out;
}

const shallow = (nodes) => nodes.filter((n) => n.type !== 'text' || n.text !== '');

// The text without its marks.
export function plainText(nodes) {
  let text = '';
  const todo = [...nodes].reverse();
  while (todo.length) {
    const node = todo.pop();
    if (node.text) text += node.text;
    if (node.type === 'break') text += '\n';
    if (node.children) for (let i = node.children.length - 1; i >= 0; i--) todo.push(node.children[i]);
  }
  return text;
}
