// Code in a few colours: comments, strings, numbers, keywords, names that are called. One regular expression a family
// of languages, one pass. Pure.

const words = (text) => new Set(text.split(' '));

const C_WORDS = 'auto break case char const constexpr continue default do double else enum extern float for goto if inline int long register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while bool true false nullptr NULL size_t uint8_t uint16_t uint32_t uint64_t int32_t int64_t';
const CPP_WORDS = `${C_WORDS} class namespace template typename public private protected virtual override new delete this using try catch throw noexcept operator explicit friend mutable co_await co_return co_yield concept requires`;
const JS_WORDS = 'async await break case catch class const continue debugger default delete do else export extends false finally for from function get if import in instanceof interface let new null of return set static super switch this throw true try type typeof undefined var void while yield enum implements readonly as';
const PY_WORDS = 'and as assert async await break class continue def del elif else except False finally for from global if import in is lambda None nonlocal not or pass raise return self True try while with yield match case';
const RUST_WORDS = 'as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type unsafe use where while i8 i16 i32 i64 u8 u16 u32 u64 usize isize f32 f64 bool str String Vec Option Result Some None Ok Err';
const GO_WORDS = 'break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select struct switch type var nil true false iota string int int64 uint64 float64 byte rune bool error';
const JAVA_WORDS = 'abstract assert boolean break byte case catch char class const continue default do double else enum extends final finally float for goto if implements import instanceof int interface long native new null package private protected public return short static super switch synchronized this throw throws transient true false try var void volatile while record sealed fun val when object override internal data';
const SH_WORDS = 'if then else elif fi for while until do done case esac in function select return exit export local readonly declare unset shift set source echo cd test sudo';
const SQL_WORDS = 'select from where insert into values update set delete create table drop alter add primary key foreign references index view join left right inner outer on as and or not null is in exists between like order by group having limit offset union all distinct case when then else end with begin commit rollback integer text real varchar boolean default';

const SLASH = String.raw`\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)`;
const HASH = String.raw`(?<![\w$&])#[^\n]*`;
const DASH = String.raw`--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)`;
const QUOTES = String.raw`"(?:[^"\\\n]|\\[\s\S])*(?:"|$|(?=\n))|'(?:[^'\\\n]|\\[\s\S])*(?:'|$|(?=\n))`;
const TEMPLATE = '`(?:[^`\\\\]|\\\\[\\s\\S])*(?:`|$)';
const TRIPLE = String.raw`"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)`;
const C_STRINGS = String.raw`"(?:[^"\\\n]|\\[\s\S])*(?:"|$|(?=\n))|'(?:[^'\\\n]|\\.){1,8}'`;

function family(comment, string, keywords, options = {}) {
  const pattern = `(?<comment>${comment})|(?<string>${string})|(?<number>\\b(?:0[xXbBoO][\\da-fA-F_]+|\\d[\\d_]*(?:\\.\\d+)?(?:[eE][+-]?\\d+)?)\\w*)|(?<word>[A-Za-z_$@][\\w$]*)`;
  return { pattern: new RegExp(pattern, 'g'), keywords: words(keywords), fold: options.fold ?? false, calls: options.calls ?? true };
}

const never = '(?!)';
const C = family(SLASH, C_STRINGS, C_WORDS);
const CPP = family(SLASH, C_STRINGS, CPP_WORDS);
const JS = family(SLASH, `${QUOTES}|${TEMPLATE}`, JS_WORDS);
const PY = family(HASH, `${TRIPLE}|${QUOTES}`, PY_WORDS);
const SH = family(HASH, QUOTES, SH_WORDS, { calls: false });
const DATA = family(HASH, QUOTES, 'true false null yes no', { calls: false });
const JAVA = family(SLASH, QUOTES, JAVA_WORDS);
const MARKUP = {
  pattern: /(?<comment><!--[\s\S]*?(?:-->|$))|(?<keyword><\/?[A-Za-z][\w:-]*|\/?>)|(?<string>"[^"\n]*(?:"|$|(?=\n)))|(?<call>[A-Za-z-:]+(?==))/g,
};
const DIFF = { pattern: /(?<comment>^(?:@@|diff |index |--- |\+\+\+ )[^\n]*)|(?<added>^\+[^\n]*)|(?<removed>^-[^\n]*)/gm };
const CSS = {
  pattern: /(?<comment>\/\*[\s\S]*?(?:\*\/|$))|(?<string>"[^"\n]*"?|'[^'\n]*'?)|(?<keyword>@[\w-]+|[\w-]+(?=\s*:\s))|(?<number>#[\da-fA-F]{3,8}\b|-?\d+(?:\.\d+)?(?:[a-z]+|%)?)/g,
};

const LANGUAGES = {
  c: C, h: C, cpp: CPP, 'c++': CPP, cc: CPP, hpp: CPP, cuda: CPP, glsl: CPP,
  js: JS, javascript: JS, jsx: JS, mjs: JS, ts: JS, typescript: JS, tsx: JS, json: DATA, jsonc: JS,
  py: PY, python: PY, python3: PY, rb: PY, ruby: PY,
  rs: family(SLASH, C_STRINGS, RUST_WORDS), go: family(SLASH, `${QUOTES}|${TEMPLATE}`, GO_WORDS),
  java: JAVA, kotlin: JAVA, kt: JAVA, cs: JAVA, csharp: JAVA, swift: JAVA, scala: JAVA, dart: JAVA, php: JAVA,
  sh: SH, bash: SH, shell: SH, zsh: SH, console: SH, dockerfile: SH, make: SH, makefile: SH, cmake: SH,
  yaml: DATA, yml: DATA, toml: DATA, ini: DATA,
  sql: family(DASH, QUOTES, SQL_WORDS, { fold: true }), lua: family(String.raw`--[^\n]*`, QUOTES, 'and break do else elseif end false for function goto if in local nil not or repeat return then true until while'),
  html: MARKUP, xml: MARKUP, svg: MARKUP, diff: DIFF, patch: DIFF, css: CSS, text: { pattern: new RegExp(never, 'g') },
};
LANGUAGES.rust = LANGUAGES.rs;
LANGUAGES.golang = LANGUAGES.go;

const TEXT_MAX = 200000; // longer code stays plain

// The code in pieces: [kind, text]; kind '' is plain. Joined, the pieces are the code.
export function highlight(code, lang) {
  const rules = Object.hasOwn(LANGUAGES, lang) ? LANGUAGES[lang] : null;
  if (!rules || code.length > TEXT_MAX) return [['', code]];
  const pieces = [];
  let done = 0;
  for (const m of code.matchAll(rules.pattern)) {
    const kind = kindOf(m, rules, code);
    if (!kind || m[0] === '') continue;
    if (m.index > done) pieces.push(['', code.slice(done, m.index)]);
    pieces.push([kind, m[0]]);
    done = m.index + m[0].length;
  }
  if (done < code.length) pieces.push(['', code.slice(done)]);
  return pieces;
}

function kindOf(m, rules, code) {
  for (const kind of ['comment', 'string', 'number', 'keyword', 'call', 'added', 'removed']) if (m.groups?.[kind] !== undefined) return kind;
  const word = m.groups?.word;
  if (word === undefined) return '';
  if (rules.keywords.has(rules.fold ? word.toLowerCase() : word)) return 'keyword';
  return rules.calls && code[m.index + word.length] === '(' ? 'call' : '';
}
