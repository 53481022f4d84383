/* From an API's messages and tools to the variables of a chat template. */
#ifndef SERVE_MESSAGES_H
#define SERVE_MESSAGES_H

#include "serve/clerk.h"

/* A message's content as one text: a string, or parts of type text. *out: NULL for null. New reference. */
bool messages_text(const json_t *content, const char *where, json_t **out, struct fault *f);
/* OpenAI's messages, checked, as templates want them: new list. */
json_t *messages_openai(const json_t *messages, struct fault *f);
/* OpenAI's tools: checked, and kept in the request ({"name", "parameters"} each). */
bool messages_tools(struct serve_request *r, const json_t *tools, struct fault *f);
/* Encodes with the template; vars: {"messages": ...} and what else is asked for; taken over. Calls' arguments are texts
 * or objects, as the template wants them. */
bool messages_encode(struct clerk *c, json_t *vars, struct serve_request *r, struct fault *f);

#endif
