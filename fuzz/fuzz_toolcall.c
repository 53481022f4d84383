/* An answer to take apart: the family's place in the table as a letter, flags as a character (1: calls are held, 2: the
 * prompt opened the reasoning, 4: no tools, 8: no reasoning), then the answer. It is fed whole and a byte at a time. */
#include "fuzz.h"
#include "serve/toolcall.h"

#include <string.h>

/* What the events say, as one text: each kind that begins is marked. */
struct told {
    char *at;
    size_t n, room;
    int kind;
    bool in_call, hold;
    size_t arguments, n_calls; /* where the open call's arguments begin */
};

static void tell(struct told *t, const char *text, size_t bytes)
{
    FUZZ_CHECK(t->n + bytes <= t->room);
    memcpy(t->at + t->n, text, bytes);
    t->n += bytes;
}

static void take(void *user, const struct serve_event *e)
{
    struct told *t = user;
    FUZZ_CHECK((e->bytes == 0) == (e->kind == SERVE_EVENT_CALL_END) && e->text[e->bytes] == '\0');
    if ((int)e->kind != t->kind || e->kind == SERVE_EVENT_CALL) tell(t, &"RTC("[e->kind > 2 ? 3 : (int)e->kind], 1);
    t->kind = (int)e->kind;
    tell(t, e->text, e->bytes);
    switch (e->kind) {
    case SERVE_EVENT_CALL:
        FUZZ_CHECK(!t->in_call && e->call == t->n_calls);
        if (e->id) tell(t, e->id, strlen(e->id));
        t->in_call = true;
        t->arguments = t->n + 1;
        break;
    case SERVE_EVENT_ARGUMENTS: FUZZ_CHECK(t->in_call && e->call == t->n_calls); break;
    case SERVE_EVENT_CALL_END:
        FUZZ_CHECK(t->in_call && e->call == t->n_calls && (e->whole || !t->hold));
        tell(t, e->whole ? ")" : "!", 1);
        t->in_call = false;
        t->n_calls++;
        break;
    default: FUZZ_CHECK(!t->in_call);
    }
}

static void run(const char *text, size_t bytes, size_t piece, const struct serve_parser_options *shape, struct told *t)
{
    struct serve_parser_options o = *shape;
    struct serve_parser *p;
    o.event = take;
    o.user = t;
    *t = (struct told){.room = bytes * 12 + 4096, .kind = -1, .hold = o.hold_calls};
    t->at = malloc(t->room);
    FUZZ_CHECK(t->at && serve_parser_create(&o, &p, NULL) == SLUICE_OK);
    for (size_t at = 0; at < bytes; at += piece)
        FUZZ_CHECK(serve_parser_feed(p, text + at, bytes - at < piece ? bytes - at : piece, NULL) == SLUICE_OK);
    FUZZ_CHECK(serve_parser_end(p, NULL) == SLUICE_OK);
    FUZZ_CHECK(!t->in_call && serve_parser_calls(p) == t->n_calls);
    serve_parser_destroy(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static json_t *schema;
    struct told whole, bits;
    size_t n_families = 0;
    if (bytes < 2) return 0;
    if (!schema)
        schema = json_loads(
            "{\"properties\": {\"s\": {\"type\": \"string\"}, \"n\": {\"type\": [\"integer\", \"null\"]}}}", 0, NULL);
    while (serve_family_at(n_families)) n_families++;
    const struct serve_tool tools[] = {{.name = "f", .parameters = schema}, {.name = "python"}};
    const unsigned flags = data[1] - (unsigned)'0';
    const struct serve_parser_options o = {.family = serve_family_at(data[0] % n_families),
                                           .tools = tools,
                                           .n_tools = flags & 4 ? 0 : 2,
                                           .no_reasoning = flags & 8,
                                           .hold_calls = flags & 1,
                                           .prompt = "<think>\n",
                                           .prompt_bytes = flags & 2 ? 8 : 0};
    run((const char *)data + 2, bytes - 2, bytes, &o, &whole);
    run((const char *)data + 2, bytes - 2, 1, &o, &bits);
    FUZZ_CHECK(whole.n == bits.n && !memcmp(whole.at, bits.at, bits.n));
    free(whole.at);
    free(bits.at);
    return 0;
}
