// tokenizers_words.js NAMES < TEXTS: the bytes of each word of each text as Hugging Face's tokenizers library cuts them (its
// npm package, with the models' own expressions): one line a text for each name; texts end with a zero byte.
const {Tokenizer} = require('tokenizers');

const short_forms = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const ends = "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const gpt2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
const words = (digits) => `${short_forms}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|${ends}`;
const upper = "\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}", lower = "\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}";
const cased = (up, low, tail) => `[^\\r\\n\\p{L}\\p{N}]?${up}*${low}+${tail}|[^\\r\\n\\p{L}\\p{N}]?${up}+${low}*${tail}|`;
const slashes = (digits, tail) => cased(`[${upper}]`, `[${lower}]`, tail) + `${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|${ends}`;
const ascii_word = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|" + ends;
const latin = "[A-Za-z\u{b5}\u{c0}-\u{d6}\u{d8}-\u{f6}\u{f8}-\u{1ba}\u{1bc}-\u{1bf}\u{1c4}-\u{293}\u{295}-\u{2af}\u{370}-\u{373}\u{376}" +
  "\u{377}\u{37b}-\u{37d}\u{37f}\u{386}\u{388}-\u{38a}\u{38c}\u{38e}-\u{3a1}\u{3a3}-\u{3f5}\u{3f7}-\u{481}\u{48a}-\u{52f}" +
  "\u{531}-\u{556}\u{10a0}-\u{10c5}\u{13a0}-\u{13f5}\u{13f8}-\u{13fd}\u{1c90}-\u{1cba}\u{1cbd}-\u{1cbf}\u{1d00}-\u{1d2b}" +
  "\u{1d6b}-\u{1d77}\u{1d79}-\u{1d9a}\u{1e00}-\u{1f15}\u{1f18}-\u{1f1d}\u{1f20}-\u{1f45}\u{1f48}-\u{1f4d}\u{1f50}-\u{1f57}" +
  "\u{1f59}\u{1f5b}\u{1f5d}\u{1f5f}-\u{1f7d}\u{1f80}-\u{1fb4}\u{1fb6}-\u{1fbc}\u{1fbe}\u{1fc2}-\u{1fc4}\u{1fc6}-\u{1fcc}" +
  "\u{1fd0}-\u{1fd3}\u{1fd6}-\u{1fdb}\u{1fe0}-\u{1fec}\u{1ff2}-\u{1ff4}\u{1ff6}-\u{1ffc}\u{2102}\u{2107}\u{210a}-\u{2113}" +
  "\u{2115}\u{2119}-\u{211d}\u{2124}\u{2126}\u{2128}\u{212a}-\u{212d}\u{212f}-\u{2134}\u{2139}\u{213c}-\u{213f}\u{2145}-\u{2149}" +
  "\u{214e}\u{2183}\u{2184}\u{2c00}-\u{2c7b}\u{2c7e}-\u{2ce4}\u{2ceb}-\u{2cee}\u{2cf2}\u{2cf3}\u{a640}-\u{a66d}\u{a680}-\u{a69b}" +
  "\u{a722}-\u{a76f}\u{a771}-\u{a787}\u{a78b}-\u{a78e}\u{ab70}-\u{abbf}\u{fb00}-\u{fb06}\u{fb13}-\u{fb17}\u{ff21}-\u{ff3a}" +
  "\u{ff41}-\u{ff5a}\u{10400}-\u{1044f}\u{104b0}-\u{104d3}\u{104d8}-\u{104fb}\u{10c80}-\u{10cb2}\u{10cc0}-\u{10cf2}" +
  "\u{118a0}-\u{118df}\u{1e900}-\u{1e943}]+";
const without_han = (letters) => `[${letters}&&[^\\p{Han}]]`;
const digit = {type: 'Digits', individual_digits: true};

const schemes = {
  'gpt-2': [gpt2],
  'starcoder': [digit, gpt2],
  'llama-bpe': [words('\\p{N}{1,3}')],
  'qwen2': [words('\\p{N}')],
  'qwen35': [`${short_forms}|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|${ends}`],
  'gpt-4o': [slashes('\\p{N}{1,3}', short_forms + '?')],
  'tekken': [slashes('\\p{N}', '')],
  'kimi-k2': ['[\\p{Han}]+|' + cased(without_han(upper), without_han(lower), short_forms + '?') +
              `\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|${ends}`],
  'deepseek-llm': ['[\\r\\n]', '\\s?' + latin, '\\s?[!-/:-~\u{ff01}-\u{ff0f}\u{ff1a}-\u{ff5e}\u{2018}-\u{201f}\u{3000}-\u{3002}]+', '\\s+$', '[\u{4e00}-\u{9fa5}\u{800}-\u{4e00}\u{ac00}-\u{d7ff}]+', '\\p{N}+'],
  'deepseek-coder': ['[\\r\\n]', '\\s?\\p{L}+', '\\s?\\p{P}+', '[\u{4e00}-\u{9fa5}\u{800}-\u{4e00}\u{ac00}-\u{d7ff}]+', digit],
  'deepseek-v3': ['\\p{N}{1,3}', '[\u{4e00}-\u{9fa5}\u{3040}-\u{309f}\u{30a0}-\u{30ff}]+', ascii_word],
  'bailingmoe': ["'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"],
  'seed-coder': [`${short_forms}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|${ends}`],
  'laguna': ['[^\\n]+|[\\n]+', words('\\p{N}')],
  'minicpm5': ['\\p{N}{1,3}', words('\\p{N}+')],
  'exaone-moe': [`${short_forms}|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+`],
  'tiny_aya': ['\\d{1,3}(?=(?:\\d{3})*\\b)', slashes('\\p{N}{1,3}', short_forms + '?')],
  'bloom': [' ?[^(\\s|[.,!?\u{2026}\u{3002}\u{ff0c}\u{3001}\u{964}\u{6d4}\u{60c}])]+'],
  'youtu': ['[\u{ac00}-\u{d7a3}\u{3131}-\u{318e}]+|[\u{ff01}\u{2026}\u{201c}\u{201d}\u{2018}\u{2019}\u{2014}\u{ff1a}\u{ff1b}\u{ff0c}\u{3001}-\u{303f}\u{fe30}-\u{fe4f}]+|[\u{3105}-\u{312f}]+|[\u{4e00}-\u{9fa5}\u{3040}-\u{309f}\u{30a0}-\u{30ff}]+', slashes('\\p{N}', short_forms + '?')],
};

async function main() {
  const texts = require('fs').readFileSync(0).toString('utf8').split('\0').slice(0, -1);
  for (const name of process.argv.slice(2)) {
    const steps = (schemes[name] || []).map((s) => typeof s === 'string' ? {type: 'Split', pattern: {Regex: s}, behavior: 'Isolated', invert: false} : s);
    const tokenizer = Tokenizer.fromString(JSON.stringify({
      version: '1.0', truncation: null, padding: null, added_tokens: [], normalizer: null, post_processor: null, decoder: null,
      pre_tokenizer: {type: 'Sequence', pretokenizers: steps}, model: {type: 'WordLevel', vocab: {'?': 0}, unk_token: '?'},
    }));
    for (const text of texts) {
      if (!schemes[name]) { console.log('-'); continue; }
      const characters = Array.from(text);
      const seen = await tokenizer.encode(text, null, {});
      console.log(seen.getOffsets().map(([a, b]) => Buffer.byteLength(characters.slice(a, b).join(''))).join(' '));
    }
  }
}
main();
