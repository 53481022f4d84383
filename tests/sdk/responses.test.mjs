// Responses with OpenAI's client.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import OpenAI from 'openai';
import { zodTextFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { KEY, isWeather, leftAlone, longText, rejected, serve, slow, weather } from './rig.mjs';

const open = (server) => new OpenAI({ baseURL: `${server.url}/v1`, apiKey: KEY, maxRetries: 0, timeout: 60000 });
const ask = (input, more = {}) => ({ model: 'demo', input, max_output_tokens: 12, ...more });
const tools = [{ type: 'function', name: weather.name, description: weather.description, parameters: weather.schema, strict: true }];
const forced = { type: 'function', name: weather.name };

async function all(stream) {
  const events = [];
  for await (const e of stream) events.push(e);
  return events;
}

describe('responses', () => {
  let server, client;
  before(async () => { server = await serve('--temp', '0'); client = open(server); });
  after(() => server.stop());

  test('plain, streamed and through the helper: the same answer, the events in their order', async () => {
    const plain = await client.responses.create(ask('It was the best of times', { instructions: 'Be brief.', metadata: { a: 'b' } }));
    assert.equal(plain.object, 'response');
    assert.equal(plain.status, 'incomplete');
    assert.equal(plain.incomplete_details.reason, 'max_output_tokens');
    assert.ok(plain.output_text.length > 0);
    assert.equal(plain.usage.output_tokens, 12);
    assert.deepEqual(plain.metadata, { a: 'b' });

    const body = ask([{ role: 'user', content: [{ type: 'input_text', text: 'It was the best of times' }] }], { instructions: 'Be brief.' });
    const events = await all(await client.responses.create({ ...body, stream: true }));
    assert.deepEqual(events.map((e) => e.sequence_number), events.map((_, i) => i));
    const types = events.map((e) => e.type), deltas = types.filter((t) => t === 'response.output_text.delta').length;
    assert.deepEqual(types.filter((t) => t !== 'response.output_text.delta'),
      ['response.created', 'response.in_progress', 'response.output_item.added', 'response.content_part.added', 'response.output_text.done', 'response.content_part.done',
        'response.output_item.done', 'response.incomplete']);
    assert.deepEqual(types.slice(4, 4 + deltas), Array(deltas).fill('response.output_text.delta'));
    assert.equal(events.filter((e) => e.delta).map((e) => e.delta).join(''), plain.output_text);
    const item = events[2].item.id;
    for (const e of events.filter((x) => 'item_id' in x)) assert.equal(e.item_id, item);
    assert.equal(events.at(-1).response.output[0].id, item);
    assert.equal(events.at(-1).response.usage.input_tokens_details.cached_tokens, plain.usage.input_tokens - 1);

    let text = '';
    const final = await client.responses.stream(body).on('response.output_text.delta', (e) => { text += e.delta; assert.equal(e.snapshot, text); }).finalResponse();
    assert.equal(final.output_text, plain.output_text);
    assert.equal(text, plain.output_text);
  });

  test('a conversation whose items are sent back', async () => {
    const input = [{ role: 'user', content: 'Hello' }];
    const first = await client.responses.create(ask(input));
    input.push(...first.output, { role: 'user', content: 'And then?' });
    const second = await client.responses.create(ask(input));
    assert.ok(second.usage.input_tokens_details.cached_tokens >= first.usage.input_tokens + 11);
    assert.ok(second.output_text.length > 0);
  });

  test('a call that was asked for, its result, and the answer', async () => {
    for (const tool_choice of [forced, 'required']) {
      const input = [{ role: 'user', content: 'What is the weather?' }];
      const body = { model: 'demo', tools, tool_choice, max_output_tokens: 200 };
      const done = await client.responses.create({ ...body, input });
      assert.equal(done.status, 'completed');
      const call = done.output.find((o) => o.type === 'function_call');
      assert.equal(call.name, 'weather');
      isWeather(JSON.parse(call.arguments));
      input.push(...done.output, { type: 'function_call_output', call_id: call.call_id, output: 'rain' });
      const next = await client.responses.create({ ...body, input, tool_choice: 'none', max_output_tokens: 8 });
      assert.ok(next.output_text.length > 0);
    }
  });

  test('a call in a stream', async () => {
    const body = ask('Weather?', { tools, tool_choice: forced, max_output_tokens: 200 });
    let text = '';
    const types = [];
    const final = await client.responses.stream(body).on('event', (e) => types.push(e.type))
      .on('response.function_call_arguments.delta', (e) => { text += e.delta; assert.equal(e.snapshot, text); }).finalResponse();
    const call = final.output.find((o) => o.type === 'function_call');
    assert.equal(call.arguments, text);
    isWeather(call.parsed_arguments);
    assert.deepEqual(types.filter((t) => !t.endsWith('.delta')), ['response.created', 'response.in_progress', 'response.output_item.added', 'response.function_call_arguments.done',
      'response.output_item.done', 'response.completed']);
    const listed = await client.responses.create(ask('Weather?', { tools, tool_choice: forced, max_output_tokens: 200 }));
    assert.equal(listed.output.find((o) => o.type === 'function_call').arguments, text);
  });

  test('JSON of a schema', async () => {
    const Play = z.object({ title: z.enum(['Hamlet', 'Macbeth']), acts: z.number().int(), deaths: z.array(z.enum(['poison', 'sword'])).max(3), comedy: z.boolean() });
    const body = ask('A play, please.', { max_output_tokens: 500, text: { format: zodTextFormat(Play, 'play') } });
    const done = await client.responses.parse(body);
    assert.ok(Play.safeParse(done.output_parsed).success, done.output_text);
    const final = await client.responses.stream(body).finalResponse();
    assert.deepEqual(final.output_parsed, done.output_parsed);
    assert.equal(done.text.format.type, 'json_schema');
  });

  test('refusals', async () => {
    for (const [more, param] of [[{ truncation: 'auto' }, 'truncation'], [{ previous_response_id: 'resp_1' }, 'previous_response_id'], [{ input: [] }, 'input'], [{ tools: [{ type: 'web_search' }] }, 'tools'],
      [{ text: { format: { type: 'json_schema', name: 'x', schema: { type: 'object', patternProperties: { a: {} } } } } }, 'text.format']]) {
      const e = await rejected(client.responses.create(ask('x', more)), OpenAI.BadRequestError, 400);
      assert.equal(e.param, param);
    }
  });
});

describe('going away', () => {
  let server, client;
  before(async () => { server = await serve(...slow); client = open(server); });
  after(() => server.stop());

  test('in the middle of an answer, and of a prompt', async () => {
    await leftAlone(server, {
      async begin() {
        const stream = client.responses.stream(ask('It was', { max_output_tokens: 900 }));
        const ended = rejected(stream.done(), OpenAI.APIUserAbortError);
        await new Promise((resolve) => { stream.once('response.output_text.delta', resolve); });
        return () => { stream.abort(); return ended; };
      },
    });
    await leftAlone(server, {
      inPrompt: true,
      begin() {
        const controller = new AbortController();
        const answer = client.responses.create(ask(longText), { signal: controller.signal });
        return () => { controller.abort(); return rejected(answer, OpenAI.APIUserAbortError); };
      },
    });
  });
});
