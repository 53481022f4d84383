/* The curves of `sluice replay` as an SVG picture: a panel a trace, up to three beside each other, one legend above
 * all. It has a background and colours of its own, so that it can be read on a dark page too; no style sheet, no
 * script. */
#include "cli/out.h"
#include "cli/replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MARGIN 16
#define LEGEND_MARK 26
#define LETTER 6.8 /* width of one, at most on average */
#define LEGEND_LINE 22
#define PANEL_TOP 32    /* the panel's heading */
#define PANEL_BOTTOM 68 /* ticks in slots and in bytes, and what they are */
#define PANEL_LEFT 48
#define PANEL_RIGHT 20
#define LABEL_GAP 28 /* the least distance of two labels of the x axis */

#define INK "#1f2328"
#define FAINT "#59636e"
#define GRID "#d8dee4"

/* Colours that people with any kind of colour vision tell apart, and dashes for those who see none. */
static const struct {
    const char *colour, *dash, *width;
} looks[REPLAY_ROWS_MAX] = {
    [POLICY_LRU] = {"#6e7781", "7 3", "2"},         [POLICY_LFU] = {"#e69f00", "2 2", "2"},
    [POLICY_HOTNESS] = {"#d55e00", "9 3 2 3", "2"}, [POLICY_FREQ_AGE] = {"#009e73", "4 2", "2"},
    [POLICY_EXPECTED] = {"#cc79a7", "12 3", "2"},   [POLICY_RECALL] = {"#0072b2", NULL, "3"},
    [REPLAY_BELADY] = {"#1f2328", "2 3", "1.5"},
};

struct panel {
    const struct replay_table *table;
    double x0, x1, y0, y1; /* of the curves' area; y0 is the bottom: 0 % */
    double least, most;    /* slots at x0 and x1 */
    unsigned order[REPLAY_SIZES_MAX];
};

/* Equal ways are equal factors: what twice the memory brings is what one wants to know. */
static double x_of(const struct panel *p, uint32_t slots)
{
    return p->most > p->least ? p->x0 + (p->x1 - p->x0) * log(slots / p->least) / log(p->most / p->least)
                              : (p->x0 + p->x1) / 2;
}

static double y_of(const struct panel *p, double rate) { return p->y0 - (p->y0 - p->y1) * rate; }

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

static void put_line(FILE *f, double x0, double y0, double x1, double y1, const char *colour)
{
    fprintf(f, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", x0, y0, x1, y1, colour);
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void put_stroke(FILE *f, unsigned policy)
{
    fprintf(f, " fill=\"none\" stroke=\"%s\" stroke-width=\"%s\" stroke-linejoin=\"round\"", looks[policy].colour,
            looks[policy].width);
    if (looks[policy].dash) fprintf(f, " stroke-dasharray=\"%s\"", looks[policy].dash);
}

static void put_x_axis(FILE *f, const struct panel *p)
{
    const struct replay_table *t = p->table;
    const char *name;
    const double unit = replay_unit(t, &name);
    /* From the right, so that the largest size has its label. */
    double free_up_to = p->x1 + LABEL_GAP;
    for (unsigned i = t->n_sizes; i-- > 0;) {
        const unsigned size = p->order[i];
        const double x = x_of(p, t->slots[size]);
        put_line(f, x, p->y0, x, p->y0 + 4, INK);
        if (x + LABEL_GAP > free_up_to) continue;
        free_up_to = x;
        fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%u</text>\n", x, p->y0 + 17, t->slots[size]);
        const double shown = t->cache_bytes[size] / unit;
        if (shown > 0)
            fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" fill=\"" FAINT "\">%.*f</text>\n", x,
                    p->y0 + 32,
                    shown < 0.995  ? 2
                    : shown < 9.95 ? 1
                                   : 0,
                    shown);
    }
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">expert slots a layer", (p->x0 + p->x1) / 2,
            p->y0 + 51);
    if (t->cache_bytes[0] > 0) fprintf(f, " <tspan fill=\"" FAINT "\">and %s of cache</tspan>", name);
    fprintf(f, "</text>\n");
}

static void put_axes(FILE *f, const struct panel *p)
{
    const struct replay_table *t = p->table;
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" font-weight=\"bold\">", p->x0, p->y1 - 14);
    const char *name = *t->model ? t->model : last_part(t->trace);
    char cut[44];
    snprintf(cut, sizeof cut, "%s", name);
    char *end = strstr(cut, ".gguf");
    if (end) *end = '\0';
    put_text(f, cut);
    fprintf(f, "</text>\n");
    for (int i = 0; i <= 5; i++) {
        const double y = y_of(p, i / 5.0);
        put_line(f, p->x0, y, p->x1, y, i ? GRID : INK);
        fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%d %%</text>\n", p->x0 - 6, y + 4, 20 * i);
    }
    put_x_axis(f, p);
}

static void put_curve(FILE *f, const struct panel *p, unsigned row)
{
    const struct replay_table *t = p->table;
    const unsigned policy = t->policy[row];
    fprintf(f, "<polyline");
    put_stroke(f, policy);
    fprintf(f, " points=\"");
    for (unsigned i = 0; i < t->n_sizes; i++)
        fprintf(f, "%s%.1f,%.1f", i ? " " : "", x_of(p, t->slots[p->order[i]]),
                y_of(p, replay_hit_rate(&t->results[row][p->order[i]])));
    fprintf(f, "\"/>\n");
    for (unsigned i = 0; i < t->n_sizes && policy == POLICY_AUTO; i++)
        fprintf(f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", x_of(p, t->slots[p->order[i]]),
                y_of(p, replay_hit_rate(&t->results[row][p->order[i]])), looks[policy].colour);
}

static void put_panel(FILE *f, struct panel *p)
{
    const struct replay_table *t = p->table;
    for (unsigned i = 0; i < t->n_sizes; i++) {
        unsigned at = i;
        for (; at > 0 && t->slots[p->order[at - 1]] > t->slots[i]; at--) p->order[at] = p->order[at - 1];
        p->order[at] = i;
    }
    p->least = t->slots[p->order[0]];
    p->most = t->slots[p->order[t->n_sizes - 1]];
    put_axes(f, p);
    /* The default on top of the others. */
    for (unsigned row = 0; row < t->n_rows; row++)
        if (t->policy[row] != POLICY_AUTO) put_curve(f, p, row);
    for (unsigned row = 0; row < t->n_rows; row++)
        if (t->policy[row] == POLICY_AUTO) put_curve(f, p, row);
}

static const char *legend_note(unsigned policy)
{
    return policy == POLICY_AUTO ? " (default)" : policy == REPLAY_BELADY ? " (limit: knows the future)" : "";
}

/* Where the legend's item begins, and the line that it is on. */
static double legend_at(const struct replay_table *t, unsigned item, unsigned width, unsigned *line)
{
    double x = MARGIN;
    *line = 0;
    for (unsigned row = 0;; row++) {
        const char *name = replay_row_name(t->policy[row]), *more = legend_note(t->policy[row]);
        const double w = LEGEND_MARK + 6 + LETTER * (double)(strlen(name) + strlen(more));
        if (x > MARGIN && x + w > width - MARGIN) {
            x = MARGIN;
            ++*line;
        }
        if (row == item) return x;
        x += w + 14;
    }
}

static void put_legend(FILE *f, const struct replay_table *t, unsigned width)
{
    for (unsigned row = 0; row < t->n_rows; row++) {
        unsigned line;
        const double x = legend_at(t, row, width, &line), y = MARGIN + 36 + LEGEND_LINE * (double)line;
        fprintf(f, "<path d=\"M%.1f %.1fh%d\"", x, y - 4, LEGEND_MARK);
        put_stroke(f, t->policy[row]);
        fprintf(f, "/>\n<text x=\"%.1f\" y=\"%.1f\">%s%s</text>\n", x + LEGEND_MARK + 6, y,
                replay_row_name(t->policy[row]), legend_note(t->policy[row]));
    }
}

static void put_picture(FILE *f, const struct replay_table *tables, unsigned n)
{
    const unsigned columns = n < 3 ? n : n == 4 ? 2 : 3, lines = (n + columns - 1) / columns;
    const unsigned panel_width = n == 1 ? 620 : n == 2 ? 420 : 330, panel_height = n == 1 ? 400 : 320;
    const unsigned width = 2 * MARGIN + columns * panel_width;
    unsigned legend_line;
    legend_at(&tables[0], tables[0].n_rows - 1, width, &legend_line);
    const unsigned top = MARGIN + 28 + (legend_line + 1) * LEGEND_LINE, height = top + lines * panel_height;
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" viewBox=\"0 0 %u %u\" "
            "font-family=\"Helvetica, Arial, sans-serif\" font-size=\"12\" fill=\"" INK "\">\n"
            "<title>Hits of expert caches in decode, by size and policy</title>\n"
            "<rect width=\"%u\" height=\"%u\" rx=\"6\" fill=\"#ffffff\"/>\n"
            "<text x=\"%d\" y=\"%d\" font-size=\"14\" font-weight=\"bold\">Experts found in the cache while text is "
            "generated</text>\n",
            width, height, width, height, width, height, MARGIN, MARGIN + 12);
    put_legend(f, &tables[0], width);
    for (unsigned i = 0; i < n; i++) {
        const double left = MARGIN + (double)(i % columns * panel_width),
                     up = top + (double)(i / columns * panel_height);
        struct panel p = {.table = &tables[i],
                          .x0 = left + PANEL_LEFT,
                          .x1 = left + panel_width - PANEL_RIGHT,
                          .y0 = up + panel_height - PANEL_BOTTOM,
                          .y1 = up + PANEL_TOP};
        put_panel(f, &p);
    }
}

enum sluice_status replay_plot(const char *path, const struct replay_table *tables, unsigned n_tables,
                               struct sluice_error *err)
{
    struct out_file file;
    enum sluice_status status = out_file_open(&file, path, err);
    if (status) return status;
    put_picture(file.stream, tables, n_tables);
    static const char end[] = "</svg>\n";
    status = out_file_write(&file, end, sizeof end - 1, err);
    if (!status) status = out_file_keep(&file, err);
    if (status) out_file_drop(&file);
    return status;
}
