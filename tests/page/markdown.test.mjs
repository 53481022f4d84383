// What models write, as the page reads it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { highlight } from '../../src/serve/page/highlight.js';
import { parseBlocks, parseInline, plainText, safeAddress } from '../../src/serve/page/markdown.js';

const TAGS = { text: null, em: 'i', strong: 'b', del: 's', link: 'a' };

// A short form that is easy to compare: <b>bold</b>, <code>x</code>, <br>.
function shown(nodes) {
  return nodes.map((n) => {
    if (n.type === 'text') return n.text;
    if (n.type === 'code') return `<code>${n.text}</code>`;
    if (n.type === 'break') return '<br>';
    return `<${TAGS[n.type]}${n.href ? ` ${n.href}` : ''}>${shown(n.children)}</${TAGS[n.type]}>`;
  }).join('');
}

const inline = [
  ['plain', 'plain'],
  ['a *b* **c** ***d*** _e_ __f__', 'a <i>b</i> <b>c</b> <i><b>d</b></i> <i>e</i> <b>f</b>'],
  ['snake_case_word and 2 * 3 * 4', 'snake_case_word and 2 * 3 * 4'],
  ['in*fix*ed', 'in<i>fix</i>ed'],
  ['**bold *in* it**', '<b>bold <i>in</i> it</b>'],
  ['*a **b* c', '*a *<i>b</i> c'],
  ['**never closed', '**never closed'],
  ['~~gone~~ ~not~', '<s>gone</s> ~not~'],
  ['中文**强调**文', '中文<b>强调</b>文'],
  ['`a*b*` and ``c`d`` and ` `` `', '<code>a*b*</code> and <code>c`d</code> and <code>``</code>'],
  ['`open', '`open'],
  ['\\*no\\* \\q', '*no* \\q'],
  ['[t](https://a.b/c_(d) "title")', '<a https://a.b/c_(d)>t</a>'],
  ['[**t**](<https://a.b/c d>)', '<a https://a.b/c%20d><b>t</b></a>'],
  ['[t](javascript:alert(1)) [u](/api/stats) [v](data:text/html,x) [w](JaVaScRiPt:x) [x](vbscript:y)', 't u v w x'],
  ['![picture](https://a.b/c.png)', '<a https://a.b/c.png>picture</a>'],
  ['[a [b](https://c.d) e](https://f.g)', '[a <a https://c.d/>b</a> e](<a https://f.g/>https://f.g</a>)'],
  ['see https://a.b/c_d. (https://e.f/g_(h)) <https://i.j> <mailto:k@l.m>', 'see <a https://a.b/c_d>https://a.b/c_d</a>. (<a https://e.f/g_(h)>https://e.f/g_(h)</a>) <a https://i.j/>https://i.j</a> <a mailto:k@l.m>k@l.m</a>'],
  ['<b>x</b> <img src=x onerror=alert(1)> <script>y</script>', '<b>x</b> <img src=x onerror=alert(1)> <script>y</script>'],
  ['&lt;b&gt; &#65;&#x42; &nothing; & &#0; &constructor;', '<b> AB &nothing; & \ufffd &constructor;'],
  ['one  \ntwo\\\nthree<br>four\nfive', 'one  <br>two<br>three<br>four\nfive'],
  ['[not a link] and ] alone [', '[not a link] and ] alone ['],
];
for (const [text, expected] of inline) test(`inline: ${text}`, () => assert.equal(shown(parseInline(text)), expected));

test('text nodes hold every character of a text without marks', () => {
  const text = 'Any <text> "with" \'all\' kinds & of; characters:\u0000\u202e 😀';
  assert.equal(plainText(parseInline(text)), text);
});

const kinds = (text) => parseBlocks(text).map((b) => b.type).join(' ');

test('blocks: kinds', () => {
  assert.equal(kinds('# A\n\npara\nmore\n\n---\n> q\n\n- l\n\n1. m\n\n```\nc\n```\n| a | b |\n|--|--|\n| 1 | 2 |'),
    'heading paragraph rule quote list list code table');
  assert.equal(kinds('A\n===\nB\n---\ntext'), 'heading heading paragraph');
  assert.equal(kinds('#hashtag\n    indented'), 'paragraph');
  assert.equal(kinds('In the year\n1986. A great one'), 'paragraph');
  assert.equal(kinds('Things:\n- one'), 'paragraph list');
  assert.equal(kinds('Things:\n-'), 'paragraph list');
  assert.equal(kinds('<div>\n\n</div>'), 'paragraph paragraph');
  assert.equal(kinds(''), '');
});

test('blocks: headings', () => {
  const [a, b] = parseBlocks('## Title ## \n###### C#');
  assert.deepEqual([a.level, a.text, b.level, b.text], [2, 'Title', 6, 'C#']);
});

test('blocks: code, closed and still open', () => {
  const [a] = parseBlocks('```Python title="x"\nif a:\n    b\n\n```\n');
  assert.deepEqual([a.lang, a.text, a.closed], ['python', 'if a:\n    b\n', true]);
  const [b] = parseBlocks('~~~~\n~~~\n```\nx');
  assert.deepEqual([b.text, b.closed], ['~~~\n```\nx', false]);
});

test('blocks: lists nest, keep code, count, tick', () => {
  const [list, ...rest] = parseBlocks('3. a\n   - b\n     - c\n\n   ```c\n   int x;\n   ```\n4. [x] d\n5. [ ] e\n\nafter');
  assert.deepEqual([list.ordered, list.start, list.items.length, rest.length], [true, 3, 3, 1]);
  assert.equal(list.items[0].blocks.map((b) => b.type).join(' '), 'paragraph list code');
  assert.equal(list.items[0].blocks[2].text, 'int x;');
  assert.equal(list.items[0].blocks[1].items[0].blocks[1].items[0].blocks[0].text, 'c');
  assert.deepEqual(list.items.map((i) => i.checked), [null, true, false]);
  const loose = (text) => parseBlocks(text)[0].loose;
  assert.deepEqual([loose('- a\n- b'), loose('- a\n\n- b'), loose('- a\n\n  more')], [false, true, true]);
  assert.equal(parseBlocks('- a\n* b').length, 2);
});

test('blocks: tables', () => {
  const [t] = parseBlocks('| a | b \\| c | `d|e` |\n|:--|:-:|--:|\n| 1 | 2 |\n| 3 | 4 | 5 | 6 |\nno more');
  assert.deepEqual(t.head, ['a', 'b | c', '`d|e`']);
  assert.deepEqual(t.align, ['left', 'center', 'right']);
  assert.deepEqual(t.rows, [['1', '2', ''], ['3', '4', '5']]);
  assert.equal(kinds('a | b\nno rule'), 'paragraph');
});

test('blocks: quotes', () => {
  const [q] = parseBlocks('> # a\n> b\nlazy\n> > c\n');
  assert.equal(q.blocks.map((b) => b.type).join(' '), 'heading paragraph quote');
  assert.equal(q.blocks[1].text, 'b\nlazy');
});

test('a text that grows keeps its earlier blocks', () => {
  const whole = '# T\n\nOne *two* three.\n\n- a\n- b\n\n```js\nlet x = 1;\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nend';
  let before = [];
  for (let n = 1; n <= whole.length; n++) {
    const blocks = parseBlocks(whole.slice(0, n));
    const kept = before.slice(0, -1);
    assert.deepEqual(blocks.slice(0, kept.length).map((b) => b.raw), kept.map((b) => b.raw));
    before = blocks;
  }
});

test('only addresses that run nothing are links', () => {
  for (const bad of ['javascript:alert(1)', ' javascript:x', 'java\nscript:x', 'data:text/html,x', 'file:///etc/passwd', 'blob:x', '/relative', '#x', ''])
    assert.equal(safeAddress(bad), null, bad);
  assert.equal(safeAddress('HTTPS://A.b'), 'https://a.b/');
});

test('time is linear in texts that are made to be slow', () => {
  const n = 10000;
  const texts = ['*a '.repeat(n) + 'b* '.repeat(n), '['.repeat(n) + ']('.repeat(n), '_a_'.repeat(n), '*'.repeat(n) + 'a' + '*'.repeat(n), '`'.repeat(n) + 'a',
    `# ${' '.repeat(n)}x`, `a${' '.repeat(n)}\n`.repeat(3), '> '.repeat(n) + 'x', '- '.repeat(n), '&'.repeat(n), '<'.repeat(n), 'http://a'.repeat(n / 4), `http://a${')'.repeat(n)}`,
    `${'|a'.repeat(n / 10)}\n${'|-'.repeat(n / 10)}\n`.repeat(8), `|${' '.repeat(n)}|\n|${' '.repeat(n)}`, '~~a'.repeat(n), '[a](x '.repeat(n / 4), '\\'.repeat(n)];
  const begin = process.cpuUsage().user;
  for (const text of texts) for (const block of parseBlocks(text)) if (block.text) parseInline(block.text);
  assert.ok((process.cpuUsage().user - begin) / 1e6 < 10); // quadratic ones would take minutes
});

test('highlighting adds and loses nothing', () => {
  const code = '#include <x.h>\n/* c */ int main(void) { return puts("a\\"b") + 0x1F; } // end\n\'';
  for (const lang of ['c', 'python', 'js', 'bash', 'json', 'html', 'diff', 'css', 'sql', 'rust', 'constructor', '', 'nonsense'])
    assert.equal(highlight(code, lang).map(([, text]) => text).join(''), code, lang);
});

test('highlighting knows words, strings, numbers, comments', () => {
  const kindOf = (code, lang, word) => highlight(code, lang).find(([, text]) => text === word)?.[0];
  const code = 'def f(x):\n    """doc"""\n    return g("s # no") + 42  # yes';
  assert.equal(kindOf(code, 'python', 'return'), 'keyword');
  assert.equal(kindOf(code, 'python', '"""doc"""'), 'string');
  assert.equal(kindOf(code, 'python', '"s # no"'), 'string');
  assert.equal(kindOf(code, 'python', '42'), 'number');
  assert.equal(kindOf(code, 'python', '# yes'), 'comment');
  assert.equal(kindOf(code, 'python', 'g'), 'call');
  assert.equal(kindOf('select A from b', 'sql', 'select'), 'keyword');
  assert.equal(kindOf('+a\n-b\n c', 'diff', '-b'), 'removed');
});
