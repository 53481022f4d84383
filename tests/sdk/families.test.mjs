// Calls that models of other families write by themselves, as the official clients put them together from a stream. The
// server is the real one around a library that says what is written beforehand (tests/serve/written.py has the texts).
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
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
