// Parsed Markdown as elements. Text goes into text nodes only. While an answer grows, blocks that have not changed keep
// their elements, so that a selection in them, and where the reader is, stay.
import { h, icon } from './dom.js';
import { highlight } from './highlight.js';
import { parseBlocks, parseInline } from './markdown.js';

const DEPTH_MAX = 40; // of inline nodes; deeper ones lose their marks, not their text

function inline(nodes, depth = 0) {
  return nodes.flatMap((node) => {
    if (node.type === 'text') return [document.createTextNode(node.text)];
    if (node.type === 'break') return [h('br')];
    if (node.type === 'code') return [h('code', {}, node.text)];
    if (depth >= DEPTH_MAX) return inlineFlat(node);
    const children = inline(node.children, depth + 1);
    if (node.type === 'link')
      return [h('a', { href: node.href, title: node.title, target: '_blank', rel: 'noopener noreferrer nofollow' }, ...children)];
    return [h(node.type, {}, ...children)];
  });
}

function inlineFlat(node) {
  let text = '';
  const todo = [node];
  while (todo.length) {
    const n = todo.pop();
    text += n.text ?? '';
    if (n.children) todo.push(...[...n.children].reverse());
  }
  return [document.createTextNode(text)];
}

const inlineOf = (text) => inline(parseInline(text.trim()));

function codeChildren(block) {
  return highlight(block.text, block.lang).map(([kind, text]) => (kind ? h('span', { class: `code-${kind}` }, text) : text));
}

async function copyCode(button) {
  const code = button.closest('.code').querySelector('code').textContent;
  button.dataset.done = await copyText(code) ? 'yes' : 'no';
  button.querySelector('span').textContent = button.dataset.done === 'yes' ? 'Copied' : 'Not copied';
  setTimeout(() => {
    button.querySelector('span').textContent = 'Copy';
    delete button.dataset.done;
  }, 1500);
}

export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

function codeView(block) {
  const name = block.lang || 'text';
  return h('figure', { class: 'code', 'data-lang': block.lang },
    h('figcaption', {}, h('span', {}, name),
      h('button', { type: 'button', class: 'quiet small', 'aria-label': 'Copy this code', onclick: (e) => copyCode(e.currentTarget) }, icon('copy'), h('span', {}, 'Copy'))),
    h('pre', { tabindex: '0', 'aria-label': `Code: ${name}` }, h('code', {}, ...codeChildren(block))));
}

function listView(block) {
  const items = block.items.map((item) => {
    const children = item.blocks.flatMap((b) => (b.type === 'paragraph' && !block.loose ? inlineOf(b.text) : [blockView(b)]));
    if (item.checked === null) return h('li', {}, ...children);
    return h('li', { class: 'task' }, h('input', { type: 'checkbox', disabled: true, checked: item.checked, 'aria-label': item.checked ? 'done' : 'to do' }), ...children);
  });
  return block.ordered ? h('ol', { start: block.start === 1 ? null : String(block.start) }, ...items) : h('ul', {}, ...items);
}

function tableView(block) {
  const cell = (tag, text, i) => h(tag, { scope: tag === 'th' ? 'col' : null, class: block.align[i] ? `to-${block.align[i]}` : null }, ...inlineOf(text));
  return h('div', { class: 'table', tabindex: '0', role: 'group', 'aria-label': 'Table' },
    h('table', {},
      h('thead', {}, h('tr', {}, ...block.head.map((text, i) => cell('th', text, i)))),
      h('tbody', {}, ...block.rows.map((row) => h('tr', {}, ...row.map((text, i) => cell('td', text, i)))))));
}

function blockView(block) {
  switch (block.type) {
    // The page has the first two levels of headings for itself.
    case 'heading': return h(`h${Math.min(6, block.level + 2)}`, { class: `level-${block.level}` }, ...inlineOf(block.text));
    case 'code': return codeView(block);
    case 'quote': return h('blockquote', {}, ...block.blocks.map(blockView));
    case 'list': return listView(block);
    case 'table': return tableView(block);
    case 'rule': return h('hr');
    default: return h('p', {}, ...inlineOf(block.text));
  }
}

export class MarkdownView {
  #root;
  #shown = []; // [{ raw, type, lang, node }]

  constructor(root) {
    this.#root = root;
  }

  update(text) {
    const blocks = parseBlocks(text);
    let same = 0;
    while (same < blocks.length && same < this.#shown.length && blocks[same].raw === this.#shown[same].raw) same++;
    const growing = this.#shown[same];
    let from = same;
    if (growing?.type === 'code' && blocks[same]?.type === 'code' && growing.lang === blocks[same].lang) {
      growing.node.querySelector('code').replaceChildren(...codeChildren(blocks[same]));
      growing.raw = blocks[same].raw;
      from++;
    }
    for (const old of this.#shown.splice(from)) old.node.remove();
    for (const block of blocks.slice(from)) {
      const node = blockView(block);
      this.#root.append(node);
      this.#shown.push({ raw: block.raw, type: block.type, lang: block.lang, node });
    }
  }
}
