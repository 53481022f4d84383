/* Encoders of Q4_K and Q6_K (layouts: k.c; the idea: encode.c). The scale of each sub-block is searched by itself, then
 * all are rounded to multiples of one half-precision scale, neighbours of each rounded scale are tried, and the common
 * scale is fitted once more to the integers found. */
#include "base/assert.h"
#include "quant/encode.h"
#include "quant/formats.h"

static double square(double v) { return v * v; }

/* ---- Q6_K ---- */

#define Q6_SUBS 16
#define Q6_LEN 16

struct q6 {
    uint16_t half;
    double d; /* value of half */
    int scale[Q6_SUBS];
    int8_t q[QUANT_LEN_K];
    double error;
};

/* Given the common scale, the best stored sub-scale near each wanted one, and the integers. */
static void q6_fill(const float *x, const double want[Q6_SUBS], double d, struct q6 *out)
{
    out->half = quant_half_of(d, &out->d);
    out->error = 0.0;
    for (int j = 0; j < Q6_SUBS; j++) {
        int8_t q[Q6_LEN];
        double least = INFINITY;
        int middle = out->d == 0.0 ? 0 : quant_round_clamped(want[j] / out->d, -128, 127);
        for (int s = middle - 1; s <= middle + 1; s++) {
            if (s < -128 || s > 127) continue;
            double error = quant_round_all(x + Q6_LEN * j, Q6_LEN, out->d * s, -32, 31, q);
            if (error >= least) continue;
            least = error;
            out->scale[j] = s;
            memcpy(out->q + Q6_LEN * j, q, sizeof q);
        }
        out->error += least;
    }
}

/* The best common scale for given integers. */
static double q6_refit(const float *x, const struct q6 *b)
{
    double xq = 0.0, qq = 0.0;
    for (int i = 0; i < QUANT_LEN_K; i++) {
        double q = (double)b->scale[i / Q6_LEN] * b->q[i];
        xq += x[i] * q;
        qq += q * q;
    }
    return qq > 0.0 ? xq / qq : 0.0;
}

static void q6_store(const struct q6 *b, uint8_t *p)
{
    for (int h = 0; h < 2; h++)
        for (int l = 0; l < 32; l++) {
            const int8_t *q = b->q + 128 * h + l;
            int v0 = q[0] + 32, v1 = q[32] + 32, v2 = q[64] + 32, v3 = q[96] + 32;
            p[64 * h + l] = (uint8_t)((v0 & 0xf) | (v2 & 0xf) << 4);
            p[64 * h + 32 + l] = (uint8_t)((v1 & 0xf) | (v3 & 0xf) << 4);
            p[128 + 32 * h + l] = (uint8_t)(v0 >> 4 | v1 >> 4 << 2 | v2 >> 4 << 4 | v3 >> 4 << 6);
        }
    for (int j = 0; j < Q6_SUBS; j++) p[192 + j] = (uint8_t)b->scale[j];
    quant_store_u16(p + 208, b->half);
}

static void q6_encode_block(const float *x, uint8_t *p)
{
    struct q6 best = {.half = QUANT_F16_NAN}, other;
    if (quant_all_finite(x, QUANT_LEN_K)) {
        double want[Q6_SUBS], top = 0.0;
        for (int j = 0; j < Q6_SUBS; j++) {
            want[j] = quant_search_scale(x + Q6_LEN * j, Q6_LEN, -32, 31);
            if (fabs(want[j]) > fabs(top)) top = want[j];
        }
        q6_fill(x, want, top / -128.0, &best);
        q6_fill(x, want, q6_refit(x, &best), &other);
        if (other.error < best.error) best = other;
    }
    q6_store(&best, p);
}

void quant_encode_q6_k(const float *x, void *blocks, size_t n)
{
    BASE_ASSERT(n % QUANT_LEN_K == 0, "Q1 a row is a whole number of blocks");
    uint8_t *p = blocks;
    for (size_t b = 0; b < n / QUANT_LEN_K; b++) q6_encode_block(x + b * QUANT_LEN_K, p + 210 * b);
}

/* ---- Q4_K ---- */

#define Q4_SUBS 8
#define Q4_LEN 32
#define Q4_TRIES 11

/* x[i] ~ scale * q[i] - min, both >= 0 */
struct line {
    double scale, min;
};

static double line_round(const float *x, struct line l, int8_t q[Q4_LEN])
{
    double error = 0.0, inverse = l.scale == 0.0 ? 0.0 : 1.0 / l.scale;
    for (int i = 0; i < Q4_LEN; i++) {
        q[i] = (int8_t)quant_round_clamped((x[i] + l.min) * inverse, 0, 15);
        error += square(x[i] - (l.scale * q[i] - l.min));
    }
    return error;
}

/* The least-squares line for given integers; where its minimum would be negative, the best one with minimum 0. Returns
 * false if there is none with a positive scale. */
static bool line_refit(const float *x, const int8_t q[Q4_LEN], struct line *out)
{
    double sx = 0.0, sq = 0.0, sqq = 0.0, sxq = 0.0;
    for (int i = 0; i < Q4_LEN; i++) {
        sx += x[i];
        sq += q[i];
        sqq += q[i] * q[i];
        sxq += (double)x[i] * q[i];
    }
    double det = Q4_LEN * sqq - sq * sq;
    if (det > 0.0) {
        out->scale = (Q4_LEN * sxq - sq * sx) / det;
        out->min = (out->scale * sq - sx) / Q4_LEN;
        if (out->min >= 0.0) return out->scale > 0.0;
    }
    if (sqq == 0.0) return false;
    *out = (struct line){sxq / sqq, 0.0};
    return out->scale > 0.0;
}

static struct line line_search(const float *x)
{
    double low = 0.0, high = -INFINITY, least;
    int8_t q[Q4_LEN];
    for (int i = 0; i < Q4_LEN; i++) {
        if (x[i] < low) low = x[i];
        if (x[i] > high) high = x[i];
    }
    struct line best = {0.0, -low};
    if (high <= low) return best; /* constant and not positive */
    least = line_round(x, best, q);
    for (int t = 0; t < Q4_TRIES; t++) {
        struct line l = {(high - low) / (15.0 + 0.3 * (t - Q4_TRIES / 2)), -low};
        for (int pass = 0; pass < 3; pass++) {
            double error = line_round(x, l, q);
            if (error < least) {
                least = error;
                best = l;
            }
            if (!line_refit(x, q, &l)) break;
        }
    }
    return best;
}

struct q4 {
    uint16_t half, half_min;
    double d, dmin;
    int scale[Q4_SUBS], min[Q4_SUBS];
    int8_t q[QUANT_LEN_K];
    double error;
};

/* The best stored scale and minimum of one sub-block near the wanted ones. */
static double q4_fill_sub(const float *x, struct line want, int j, struct q4 *out)
{
    int scale = out->d == 0.0 ? 0 : quant_round_clamped(want.scale / out->d, 0, 63);
    int min = out->dmin == 0.0 ? 0 : quant_round_clamped(want.min / out->dmin, 0, 63);
    double least = INFINITY;
    int8_t q[Q4_LEN];
    for (int s = scale - 1; s <= scale + 1; s++)
        for (int m = min - 1; m <= min + 1; m++) {
            if (s < 0 || s > 63 || m < 0 || m > 63) continue;
            double error = line_round(x, (struct line){out->d * s, out->dmin * m}, q);
            if (error >= least) continue;
            least = error;
            out->scale[j] = s;
            out->min[j] = m;
            memcpy(out->q + Q4_LEN * j, q, sizeof q);
        }
    return least;
}

static void q4_fill(const float *x, const struct line want[Q4_SUBS], double d, double dmin, struct q4 *out)
{
    out->half = quant_half_of(d, &out->d);
    out->half_min = quant_half_of(dmin, &out->dmin);
    out->error = 0.0;
    for (int j = 0; j < Q4_SUBS; j++) out->error += q4_fill_sub(x + Q4_LEN * j, want[j], j, out);
}

/* The best d and dmin for given integers; leaves them if they are not determined or would be negative. */
static void q4_refit(const float *x, const struct q4 *b, double *d, double *dmin)
{
    double aa = 0.0, ab = 0.0, bb = 0.0, xa = 0.0, xb = 0.0; /* x ~ d * a - dmin * m */
    for (int i = 0; i < QUANT_LEN_K; i++) {
        double a = (double)b->scale[i / Q4_LEN] * b->q[i], m = b->min[i / Q4_LEN];
        aa += a * a;
        ab += a * m;
        bb += m * m;
        xa += x[i] * a;
        xb += x[i] * m;
    }
    double det = aa * bb - ab * ab;
    if (det > 0.0) {
        double new_d = (xa * bb - xb * ab) / det, new_dmin = (xa * ab - xb * aa) / det;
        if (new_d >= 0.0 && new_dmin >= 0.0) {
            *d = new_d;
            *dmin = new_dmin;
        }
    } else if (aa > 0.0 && xa > 0.0) {
        *d = xa / aa;
    }
}

static void q4_store(const struct q4 *b, uint8_t *p)
{
    quant_store_u16(p, b->half);
    quant_store_u16(p + 2, b->half_min);
    for (int j = 0; j < 4; j++) {
        p[4 + j] = (uint8_t)(b->scale[j] | b->scale[j + 4] >> 4 << 6);
        p[8 + j] = (uint8_t)(b->min[j] | b->min[j + 4] >> 4 << 6);
        p[12 + j] = (uint8_t)((b->scale[j + 4] & 0xf) | (b->min[j + 4] & 0xf) << 4);
    }
    for (int c = 0; c < 4; c++)
        for (int l = 0; l < 32; l++) p[16 + 32 * c + l] = (uint8_t)(b->q[64 * c + l] | b->q[64 * c + 32 + l] << 4);
}

static void q4_encode_block(const float *x, uint8_t *p)
{
    struct q4 best = {.half = QUANT_F16_NAN}, other;
    if (quant_all_finite(x, QUANT_LEN_K)) {
        struct line want[Q4_SUBS];
        double d = 0.0, dmin = 0.0;
        for (int j = 0; j < Q4_SUBS; j++) {
            want[j] = line_search(x + Q4_LEN * j);
            if (want[j].scale > d) d = want[j].scale;
            if (want[j].min > dmin) dmin = want[j].min;
        }
        d /= 63.0;
        dmin /= 63.0;
        q4_fill(x, want, d, dmin, &best);
        q4_refit(x, &best, &d, &dmin);
        q4_fill(x, want, d, dmin, &other);
        if (other.error < best.error) best = other;
    }
    q4_store(&best, p);
}

void quant_encode_q4_k(const float *x, void *blocks, size_t n)
{
    BASE_ASSERT(n % QUANT_LEN_K == 0, "Q1 a row is a whole number of blocks");
    uint8_t *p = blocks;
    for (size_t b = 0; b < n / QUANT_LEN_K; b++) q4_encode_block(x + b * QUANT_LEN_K, p + 144 * b);
}
