/* Lines of input: edited on a terminal (libedit, with history), plain otherwise. */
#ifndef CLI_LINE_H
#define CLI_LINE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

enum line_end { LINE_READ, LINE_INTERRUPTED, LINE_END, LINE_REFUSED, LINE_FAILED };

struct line_reader; /* opaque */

/* terminal: edit and keep a history (in the XDG state directory; a history that cannot be kept is no error). Prompts go
 * to standard error. */
enum sluice_status line_open(bool terminal, struct line_reader **out, struct sluice_error *err);
void line_close(struct line_reader *l);
/* Called while line_read waits and nothing can be read yet, again and again (after a false: rarely). It should return
 * within about 20 ms, or typing would lag. *said: it wrote to the terminal, and the line must be shown anew. False:
 * there was nothing to do. */
typedef bool line_idle_fn(void *user, bool *said);
void line_idle(struct line_reader *l, line_idle_fn *idle, void *user); /* idle NULL: none */
/* Words that Tab completes at the begin of a line on a terminal: what those have in common that begin as it does. They
 * must outlive the reader. */
void line_orders(struct line_reader *l, const char *const *orders, size_t n);
/* One message: lines joined by newlines where a line ends in a backslash. *text belongs to the reader and lives until
 * the next call. LINE_REFUSED: the message cannot be used (err says why), the next one can be read. */
enum line_end line_read(struct line_reader *l, const char **text, struct sluice_error *err);

#endif
