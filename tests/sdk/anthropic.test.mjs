// Messages with Anthropic's client.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema';
import { zodOutputFormat } from '@anthropic-ai/sdk/helpers/zod';
import { z } from 'zod';
import { KEY, isWeather, leftAlone, longText, rejected, serve, slow, weather } from './rig.mjs';

const open = (server, more = {}) => new Anthropic({ baseURL: server.url, apiKey: KEY, maxRetries: 0, timeout: 60000, ...more });
const say = (content, more = {}) => ({ model: 'demo', max_tokens: 12, temperature: 0, messages: [{ role: 'user', content }], ...more });
const tools = [{ name: weather.name, description: weather.description, input_schema: weather.schema }];
const forced = { type: 'tool', name: weather.name };

describe('messages', () => {
  let server, client;
  before(async () => { server = await serve(); client = open(server); });
  after(() => server.stop());

  test('models', async () => {
    const ids = [];
    for await (const m of client.models.list()) ids.push(m.id);
    assert.deepEqual(ids, ['demo']);
    assert.equal((await client.models.retrieve('demo')).type, 'model');
    assert.equal((await rejected(client.models.retrieve('nowhere'), Anthropic.NotFoundError, 404)).type, 'not_found_error');
  });

  test('plain, streamed and through the helper: the same answer, the events in their order', async () => {
    const plain = await client.messages.create(say('It was the best of times'));
    assert.equal(plain.stop_reason, 'max_tokens');
    assert.equal(plain.role, 'assistant');
    assert.equal(plain.usage.output_tokens, 12);
    const [block] = plain.content;
    assert.equal(block.type, 'text');

    const types = [];
    let text = '', last;
    for await (const e of await client.messages.create({ ...say('It was the best of times'), stream: true })) {
      if (e.type === 'content_block_delta') text += e.delta.text;
      else types.push(e.type);
      last = e.type === 'message_delta' ? e : last;
    }
    assert.deepEqual(types, ['message_start', 'content_block_start', 'content_block_stop', 'message_delta', 'message_stop']);
    assert.equal(text, block.text);
    assert.equal(last.usage.input_tokens + last.usage.cache_read_input_tokens, plain.usage.input_tokens + plain.usage.cache_read_input_tokens);
    assert.ok(last.usage.cache_read_input_tokens > 0);

    let heard = '';
    const helper = client.messages.stream(say('It was the best of times')).on('text', (delta, snapshot) => { heard += delta; assert.equal(snapshot, heard); });
    const final = await helper.finalMessage();
    assert.equal(heard, block.text);
    assert.equal(final.content[0].text, block.text);
    assert.equal(final.stop_reason, 'max_tokens');
    assert.equal(final.usage.output_tokens, 12);
    assert.equal(final.usage.cache_read_input_tokens, last.usage.cache_read_input_tokens);
    assert.equal(await helper.finalText(), block.text);
  });

  test('tokens counted, a system text, stop texts, cached tokens', async () => {
    const body = { ...say([{ type: 'text', text: 'Hello', cache_control: { type: 'ephemeral' } }]), system: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }] };
    const { max_tokens, temperature, ...counted } = body;
    const { input_tokens } = await client.messages.countTokens(counted);
    const first = await client.messages.create({ ...body, max_tokens: 30 });
    assert.equal(first.usage.input_tokens + first.usage.cache_read_input_tokens, input_tokens);
    const messages = [...body.messages, { role: 'assistant', content: first.content }, { role: 'user', content: 'And then?' }];
    const second = await client.messages.create({ ...body, messages });
    assert.ok(second.usage.cache_read_input_tokens >= input_tokens + 28, JSON.stringify(second.usage));
    const whole = first.content[0].text, stop = whole.slice(whole.length / 2, whole.length / 2 + 4);
    const cut = await client.messages.create({ ...body, max_tokens: 30, stop_sequences: [stop] });
    assert.deepEqual([cut.stop_reason, cut.stop_sequence], ['stop_sequence', stop]);
    assert.equal(cut.content[0]?.text ?? '', whole.slice(0, whole.indexOf(stop)));
  });

  test('a call that was asked for, its result, and the answer', async () => {
    for (const tool_choice of [forced, { type: 'any', disable_parallel_tool_use: true }]) {
      const body = say('What is the weather?', { tools, tool_choice, max_tokens: 200 });
      const done = await client.messages.create(body);
      assert.equal(done.stop_reason, 'tool_use');
      const call = done.content.find((b) => b.type === 'tool_use');
      assert.equal(call.name, 'weather');
      isWeather(call.input);
      const messages = [...body.messages, { role: 'assistant', content: done.content },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content: [{ type: 'text', text: 'rain' }] }] }];
      const next = await client.messages.create({ ...body, messages, tool_choice: { type: 'none' }, max_tokens: 8 });
      assert.equal(next.content[0].type, 'text');

      let json = '';
      const final = await client.messages.stream(body).on('inputJson', (delta) => { json += delta; }).finalMessage();
      assert.deepEqual(final.content.find((b) => b.type === 'tool_use').input, call.input);
      assert.deepEqual(JSON.parse(json), call.input);
      assert.equal(final.stop_reason, 'tool_use');
    }
  });

  test('toolRunner calls the function', async () => {
    const got = [];
    const tool = betaTool({ name: 'weather', description: 'The weather.', inputSchema: weather.schema, run: (input) => { got.push(input); return 'rain'; } });
    const runner = client.beta.messages.toolRunner({ ...say('Weather?', { max_tokens: 150 }), tools: [tool], tool_choice: forced, max_iterations: 2 });
    for await (const m of runner) assert.equal(m.stop_reason, 'tool_use');
    assert.ok(got.length >= 1);
    for (const input of got) isWeather(input);
  });

  test('JSON of a schema', async () => {
    const Play = z.object({ title: z.enum(['Hamlet', 'Macbeth']), acts: z.number().int(), deaths: z.array(z.enum(['poison', 'sword'])), comedy: z.boolean() });
    const body = say('A play, please.', { max_tokens: 500, output_config: { format: zodOutputFormat(Play) } });
    const done = await client.messages.parse(body);
    assert.ok(Play.safeParse(done.parsed_output).success, JSON.stringify(done.content));
    const final = await client.messages.stream(body).finalMessage();
    assert.deepEqual(final.parsed_output, done.parsed_output);
  });

  test('thinking', async () => {
    for (const thinking of [{ type: 'disabled' }, { type: 'enabled', budget_tokens: 1024 }, { type: 'adaptive' }])
      assert.equal((await client.messages.create(say('Hello', { thinking }))).usage.output_tokens, 12);
  });
});

describe('going away', () => {
  let server, client;
  before(async () => { server = await serve(...slow); client = open(server); });
  after(() => server.stop());

  test('in the middle of an answer', async () => {
    await leftAlone(server, {
      async begin() {
        const stream = client.messages.stream(say('It was', { max_tokens: 900 }));
        const ended = rejected(stream.done(), Anthropic.APIUserAbortError);
        await new Promise((resolve) => { stream.once('text', resolve); });
        return () => { stream.abort(); return ended; };
      },
    });
    await leftAlone(server, {
      async begin() {
        for await (const e of await client.messages.create({ ...say('It was so', { max_tokens: 900 }), stream: true })) if (e.type === 'content_block_delta') break;
        return () => {};
      },
    });
  });

  test('in the middle of a prompt', async () => {
    for (const start of ['create', 'stream']) {
      await leftAlone(server, {
        inPrompt: true,
        begin() {
          const controller = new AbortController();
          const got = client.messages[start](say(`${start}. ${longText}`), { signal: controller.signal });
          const ended = rejected(start === 'stream' ? got.done() : got, Anthropic.APIUserAbortError);
          return () => { controller.abort(); return ended; };
        },
      });
    }
    assert.equal((await client.messages.create(say('Hello'))).usage.output_tokens, 12);
  });
});

describe('refusals', () => {
  let server, client;
  before(async () => { server = await serve(...slow, '--sessions', '1', '--queue', '1'); client = open(server); });
  after(() => server.stop());

  test('no key, a wrong key, a key as a token', async () => {
    assert.equal((await rejected(open(server, { apiKey: 'wrong' }).messages.create(say('x')), Anthropic.AuthenticationError, 401)).type, 'authentication_error');
    await rejected(open(server, { apiKey: 'wrong' }).models.list(), Anthropic.AuthenticationError, 401);
    await open(server, { apiKey: null, authToken: KEY }).messages.create(say('x', { max_tokens: 1 }));
  });

  test('the parameter is named', async () => {
    for (const [more, word] of [[{ temperature: -1 }, 'temperature'], [{ wizardry: 1 }, 'wizardry'], [{ messages: [] }, 'messages'], [{ max_tokens: 0 }, 'max_tokens'],
      [{ tools: [{ type: 'web_search_20250305', name: 'web_search' }] }, 'web_search'], [{ tools, tool_choice: { type: 'tool', name: 'nobody' } }, 'nobody'],
      [{ output_config: { format: { type: 'json_schema', schema: { type: 'object', patternProperties: { a: {} } } } } }, 'patternProperties']]) {
      for (const stream of [false, true]) {
        const e = await rejected(client.messages.create({ ...say('x', more), stream }), Anthropic.BadRequestError, 400);
        assert.equal(e.type, 'invalid_request_error');
        assert.match(e.message, new RegExp(word));
      }
    }
  });

  test('a full queue', async () => {
    const long = () => client.messages.create({ ...say('It was', { max_tokens: 900 }), stream: true });
    const a = await long();
    await server.until('a job', (m) => m.sessions_busy === 1);
    const b = await long();
    await server.until('a queue', (m) => m.queue_length === 1);
    assert.equal((await rejected(long(), Anthropic.RateLimitError, 429)).type, 'rate_limit_error');
    for (const stream of [a, b]) stream.controller.abort();
    await server.until('the end of the jobs', (m) => m.jobs_cancelled_total >= 2);
  });
});
