/* The curves of `sluice replay` as an SVG picture. */
#include "cli/out.h"
#include "cli/replay.h"

#include <stdlib.h>
#include <string.h>

#define WIDTH 760
#define PANEL 400
#define LEFT 70
#define RIGHT 170 /* the legend */
#define TOP 50
#define BOTTOM 60

static const char *const colours[REPLAY_ROWS_MAX] = {"#888888", "#b8860b", "#d62728", "#2ca02c",
                                                     "#9467bd", "#1f77b4", "#000000"};

static double x_of(const struct replay_table *t, uint32_t slots, uint32_t most)
{
    (void)t;
    return LEFT + (double)(WIDTH - LEFT - RIGHT) * slots / most;
}

static double y_of(double top, double rate) { return top + PANEL - BOTTOM - (PANEL - TOP - BOTTOM) * rate; }

/* Text of a path: what XML does not allow is escaped or replaced. */
static void put_text(FILE *f, const char *text)
{
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c == '<' || c == '>' || c == '&')
            fprintf(f, "&#%d;", c);
        else
            fputc(c < 32 || c > 126 ? '?' : c, f);
    }
}

static void put_axes(FILE *f, const struct replay_table *t, double top, uint32_t most)
{
    const double x0 = LEFT, x1 = WIDTH - RIGHT, y0 = y_of(top, 0);
    fprintf(f, "<text x=\"%g\" y=\"%g\" font-weight=\"bold\">", x0, top + 30);
    put_text(f, strrchr(t->trace, '/') ? strrchr(t->trace, '/') + 1 : t->trace);
    fprintf(f, "</text>\n");
    for (int i = 0; i <= 5; i++) {
        const double y = y_of(top, i / 5.0);
        fprintf(f, "<line x1=\"%g\" y1=\"%g\" x2=\"%g\" y2=\"%g\" stroke=\"%s\"/>\n", x0, y, x1, y,
                i ? "#dddddd" : "#000000");
        fprintf(f, "<text x=\"%g\" y=\"%g\" text-anchor=\"end\">%d %%</text>\n", x0 - 8, y + 4, 20 * i);
    }
    fprintf(f, "<line x1=\"%g\" y1=\"%g\" x2=\"%g\" y2=\"%g\" stroke=\"#000000\"/>\n", x0, y_of(top, 1), x0, y0);
    for (unsigned i = 0; i < t->n_sizes; i++) {
        const double x = x_of(t, t->slots[i], most);
        fprintf(f, "<line x1=\"%.1f\" y1=\"%g\" x2=\"%.1f\" y2=\"%g\" stroke=\"#000000\"/>\n", x, y0, x, y0 + 5);
        fprintf(f, "<text x=\"%.1f\" y=\"%g\" text-anchor=\"middle\">%u</text>\n", x, y0 + 19, t->slots[i]);
    }
    fprintf(f, "<text x=\"%g\" y=\"%g\" text-anchor=\"middle\">expert slots a layer</text>\n", (x0 + x1) / 2, y0 + 40);
    fprintf(f, "<text transform=\"translate(16 %g) rotate(-90)\" text-anchor=\"middle\">hits in decode</text>\n",
            y_of(top, 0.5));
}

static void put_curve(FILE *f, const struct replay_table *t, unsigned row, const unsigned *order, double top,
                      uint32_t most)
{
    const char *colour = colours[t->policy[row]];
    const bool is_default = t->policy[row] == POLICY_AUTO, limit = t->policy[row] == REPLAY_BELADY;
    fprintf(f, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"%s\"%s points=\"", colour,
            is_default ? "3" : "1.5", limit ? " stroke-dasharray=\"6 4\"" : "");
    for (unsigned i = 0; i < t->n_sizes; i++)
        fprintf(f, "%.1f,%.1f ", x_of(t, t->slots[order[i]], most),
                y_of(top, replay_hit_rate(&t->results[row][order[i]])));
    fprintf(f, "\"/>\n");
    const double x = WIDTH - RIGHT + 15, y = top + TOP + 10 + 20.0 * row;
    fprintf(f, "<line x1=\"%g\" y1=\"%g\" x2=\"%g\" y2=\"%g\" stroke=\"%s\" stroke-width=\"%s\"%s/>\n", x, y, x + 25, y,
            colour, is_default ? "3" : "1.5", limit ? " stroke-dasharray=\"6 4\"" : "");
    fprintf(f, "<text x=\"%g\" y=\"%g\">%s%s</text>\n", x + 32, y + 4, replay_row_name(t->policy[row]),
            is_default ? " (default)"
            : limit    ? " (limit)"
                       : "");
}

static void put_panel(FILE *f, const struct replay_table *t, double top)
{
    unsigned order[REPLAY_SIZES_MAX];
    uint32_t most = 1;
    for (unsigned i = 0; i < t->n_sizes; i++) {
        unsigned at = i;
        for (; at > 0 && t->slots[order[at - 1]] > t->slots[i]; at--) order[at] = order[at - 1];
        order[at] = i;
        if (t->slots[i] > most) most = t->slots[i];
    }
    put_axes(f, t, top, most);
    for (unsigned row = 0; row < t->n_rows; row++) put_curve(f, t, row, order, top, most);
}

enum sluice_status replay_plot(const char *path, const struct replay_table *tables, unsigned n_tables,
                               struct sluice_error *err)
{
    struct out_file file;
    enum sluice_status status = out_file_open(&file, path, err);
    if (status) return status;
    fprintf(file.stream,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%u\" font-family=\"sans-serif\" "
            "font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
            WIDTH, PANEL * n_tables);
    for (unsigned i = 0; i < n_tables; i++) put_panel(file.stream, &tables[i], (double)PANEL * i);
    static const char end[] = "</svg>\n";
    status = out_file_write(&file, end, sizeof end - 1, err);
    if (!status) status = out_file_keep(&file, err);
    if (status) out_file_drop(&file);
    return status;
}
