// Calls that models of other families write by themselves, as the official clients put them together from a stream. The
// server is the real one around a library that says what is written beforehand (tests/serve/written.py has the texts).
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { zodOutputFormat } from '@anthropic-ai/sdk/helpers/zod';
import OpenAI from 'openai';
import { zodResponseFormat, zodTextFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { KEY, serveModel } from './rig.mjs';

const { SLUICE_FAKE, SLUICE_FAMILIES } = process.env;
const schema = { type: 'object', properties: { s: { type: 'string' }, n: { type: 'integer' } } };
const families = JSON.parse(await readFile(SLUICE_FAMILIES, 'utf8'));

for (const [family, [template, answer, [reasoning, text, calls]]] of Object.entries(families))
  test(`calls in the way of ${family}`, async () => {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-sdk-'));
    await writeFile(join(folder, 'model'), `template ${answer.startsWith('hm') ? 'opened' : ''}\n${template}\n${answer}`);
    const server = await serveModel(SLUICE_FAKE, join(folder, 'model'));
    const messages = [{ role: 'user', content: 'Go' }];
    try {
      const openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: KEY, maxRetries: 0, timeout: 60000 });
      const tools = ['f', 'g'].map((name) => ({ type: 'function', function: { name, parameters: schema } }));
      const completion = await openai.chat.completions.stream({ model: 'demo', messages, tools }).finalChatCompletion();
      const [choice] = completion.choices;
      assert.equal(choice.finish_reason, 'tool_calls');
      assert.equal((choice.message.content ?? '').trim(), text);
      assert.deepEqual(choice.message.tool_calls.map((c) => [c.function.name, JSON.parse(c.function.arguments)]), calls.map(([name, , value]) => [name, value]));
      assert.equal(new Set(choice.message.tool_calls.map((c) => c.id)).size, calls.length);

      const anthropic = new Anthropic({ baseURL: server.url, apiKey: KEY, maxRetries: 0, timeout: 60000 });
      const message = await anthropic.messages.stream({ model: 'demo', max_tokens: 1000, messages, tools: ['f', 'g'].map((name) => ({ name, input_schema: schema })) }).finalMessage();
      assert.equal(message.stop_reason, 'tool_use');
      const of = (type) => message.content.filter((b) => b.type === type);
      assert.equal(of('thinking').map((b) => b.thinking).join(''), reasoning);
      assert.equal(of('text').map((b) => b.text).join('').trim(), text);
      assert.deepEqual(of('tool_use').map((b) => [b.name, b.input]), calls.map(([name, , value]) => [name, value]));
    } finally {
      await server.stop();
      await rm(folder, { recursive: true });
    }
  });

// Tools beside a format: the helpers find a call, or the document, whatever marks it holds.
for (const [what, written] of Object.entries({ call: '<tool_call>\n{"name": "f", "arguments": {"s": "x", "n": 1}}\n</tool_call>', document: '{"word": "<tool_call>"}' }))
  test(`tools beside a format: a ${what}`, async () => {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-sdk-'));
    await writeFile(join(folder, 'model'), `template\n<tool_call>\n${written}`);
    const server = await serveModel(SLUICE_FAKE, join(folder, 'model'));
    const Word = z.object({ word: z.string() });
    const strict = { ...schema, required: ['s', 'n'], additionalProperties: false };
    const messages = [{ role: 'user', content: 'Go' }];
    const check = (call, document) => assert.deepEqual([call, document ?? undefined], what === 'call' ? [{ s: 'x', n: 1 }, undefined] : [undefined, { word: '<tool_call>' }]);
    try {
      const openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: KEY, maxRetries: 0, timeout: 60000 });
      const body = { model: 'demo', messages, response_format: zodResponseFormat(Word, 'word'), tools: [{ type: 'function', function: { name: 'f', parameters: strict, strict: true } }] };
      for (const { choices: [{ message }] } of [await openai.chat.completions.parse(body), await openai.chat.completions.stream(body).finalChatCompletion()])
        check(message.tool_calls?.[0]?.function.parsed_arguments, message.parsed);
      const ask = { model: 'demo', input: 'Go', text: { format: zodTextFormat(Word, 'word') }, tools: [{ type: 'function', name: 'f', parameters: strict, strict: true }] };
      for (const response of [await openai.responses.parse(ask), await openai.responses.stream(ask).finalResponse()])
        check(response.output.find((item) => item.type === 'function_call')?.parsed_arguments, response.output_parsed);

      const anthropic = new Anthropic({ baseURL: server.url, apiKey: KEY, maxRetries: 0, timeout: 60000 });
      const say = { model: 'demo', max_tokens: 1000, messages, output_config: { format: zodOutputFormat(Word) }, tools: [{ name: 'f', input_schema: strict }] };
      for (const message of [await anthropic.messages.parse(say), await anthropic.messages.stream(say).finalMessage()])
        check(message.content.find((block) => block.type === 'tool_use')?.input, message.parsed_output);
    } finally {
      await server.stop();
      await rm(folder, { recursive: true });
    }
  });
