/* JSON Schema to an automaton: which documents an answer may be. README.md lists the keywords and where the documents
 * that are allowed are fewer than those that are valid. */
#ifndef TEXT_SCHEMA_H
#define TEXT_SCHEMA_H

#include "text/grammar_automaton.h"

#define SCHEMA_BLANKS_MAX 32u /* spaces or tabs behind a line break */
#define SCHEMA_DIGITS_MAX 18u /* of a whole number, and before and behind a point */
#define SCHEMA_WHOLE_MAX ((int64_t)999999999999999999)
#define SCHEMA_PROPERTIES_MAX 2000u /* of one object */
#define SCHEMA_NAME_BYTES_MAX 1024u /* of a property, if each byte were an escape of six */

/* json NULL: any object. *root: the rule that a document is. Errors: SLUICE_ERR_USAGE names the keyword and its place;
 * SLUICE_ERR_MEMORY. */
enum sluice_status schema_compile(const char *json, size_t bytes, struct automaton *out, uint32_t *root,
                                  struct sluice_error *err);

#endif
