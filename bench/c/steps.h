/* Steps of devices, by products of small matrices in registers. dense.c includes this file once for each kind of
   processor: FOR(name) is the name of the function for it, BYTES the length of its vectors, BLOCK how many rows and
   columns of sums its registers hold, EACH which numbers of them, and EVERY_TILE the same of maps. Every sum is taken in the same order on each of them. */

#include "vectors.h"
#include "sums.h"
#include "maps.h"

/* y[b][o] = sum_i x[b][i] w[o][i] for `rows` b and `columns` o, n numbers each. */
INLINE void FOR(dots)(const float *x, long ldx, const float *w, long ldw, long n, float *y, long ldy, int rows,
                      int columns) {
    vec sum[BLOCK][BLOCK];
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns; c++) sum[r][c] = FOR(zero)();
    long i = 0;
    for (; i + LANES <= n; i += LANES) {
        vec a[BLOCK];
        for (int r = 0; r < rows; r++) a[r] = FOR(load)(x + r * ldx + i);
        for (int c = 0; c < columns; c++) {
            vec b = FOR(load)(w + c * ldw + i);
            for (int r = 0; r < rows; r++) EVERY sum[r][c].p[p] += a[r].p[p] * b.p[p];
        }
    }
    if (i < n)
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < columns; c++) {
                vec a = FOR(first)(x + r * ldx + i, n - i), b = FOR(first)(w + c * ldw + i, n - i);
                EVERY sum[r][c].p[p] += a.p[p] * b.p[p];
            }
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns; c++) y[r * ldy + c] = FOR(total)(sum[r][c]);
}

/* to[r][i] += sum_k s[k down + r right] v[k][i] for `rows` r and `columns` vectors i, of which the last one has only
   `left` numbers where that is not 0. */
INLINE void FOR(spread)(float *to, long ldt, const float *s, long down, long right, const float *v, long ldv, int count,
                        int rows, int columns, long left) {
    vec sum[BLOCK][BLOCK];
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns; c++)
            sum[r][c] = left ? FOR(first)(to + r * ldt, left) : FOR(load)(to + r * ldt + c * LANES);
    for (int k = 0; k < count; k++) {
        vec a[BLOCK];
        for (int c = 0; c < columns; c++)
            a[c] = left ? FOR(first)(v + k * ldv, left) : FOR(load)(v + k * ldv + c * LANES);
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < columns; c++) EVERY sum[r][c].p[p] += s[k * down + r * right] * a[c].p[p];
    }
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns; c++)
            if (left) memcpy(to + r * ldt, &sum[r][c], left * sizeof(float));
            else FOR(store)(to + r * ldt + c * LANES, sum[r][c]);
}

static void FOR(products)(const float *x, long ldx, int batch, const float *w, long ldw, int outer, long n, float *y,
                          long ldy) {
    for (int o = 0; o < outer; o += BLOCK)
        for (int b = 0; b < batch; b += BLOCK) {
#define ONE(rows, columns) FOR(dots)(x + b * ldx, ldx, w + o * ldw, ldw, n, y + b * ldy + o, ldy, rows, columns)
            EACH(batch - b, outer - o)
#undef ONE
        }
}

static void FOR(add_products)(float *to, long ldt, int height, long n, const float *s, long down, long right,
                              const float *v, long ldv, int count) {
    for (int r = 0; r < height; r += BLOCK) {
        long i = 0;
        for (; i + LANES <= n; i += BLOCK * LANES) {
#define ONE(rows, columns) \
    FOR(spread)(to + r * ldt + i, ldt, s + r * right, down, right, v + i, ldv, count, rows, columns, 0)
            EACH(height - r, (n - i) / LANES)
#undef ONE
        }
        i = n / LANES * LANES;
        if (i < n)
            for (int one = r; one < height && one < r + BLOCK; one++)
                FOR(spread)(to + one * ldt + i, ldt, s + one * right, down, right, v + i, ldv, count, 1, 1, n - i);
    }
}

/* Leaves the logits of n samples in the last layer's d. */
static void FOR(forward)(const Rule *rule, const float *w, const float *x, int n) {
    for (int l = 0; l < rule->depth; l++) {
        const Linear *at = rule->linears + l;
        int last = l + 1 == rule->depth;
        float *y = last ? at->d : at[1].inputs;
        FOR(products)(l ? at->inputs : x, at->inner, n, w + at->weight, at->inner, at->outer, at->inner, y, at->outer);
        if (at->bias >= 0)
            for (int b = 0; b < n; b++)
                for (long o = 0; o < at->outer; o++) y[b * at->outer + o] += w[at->bias + o];
        if (at->relu && !last)
            for (long k = 0; k < n * at->outer; k++) y[k] = y[k] < 0 ? 0 : y[k]; /* keeps what is not a number */
    }
}

/* From logits to `scale` times the derivative of the summed cross-entropy; returns that sum. */
static double FOR(cross_entropy)(const Linear *last, const int64_t *y, int n, float scale) {
    double loss = 0;
    for (int b = 0; b < n; b++) {
        float *z = last->d + b * last->outer, top = z[0], sum = 0, right = z[y[b]];
        for (long o = 1; o < last->outer; o++) top = z[o] > top ? z[o] : top;
        for (long o = 0; o < last->outer; o++) sum += z[o] = expf(z[o] - top);
        loss += log(sum) + (top - right);
        for (long o = 0; o < last->outer; o++) z[o] *= scale / sum;
        z[y[b]] -= scale;
    }
    return loss;
}

/* From the last layer's d to that of all others, and of what the stages of maps leave. */
static void FOR(backward)(const Rule *rule, const float *w, int n) {
    for (int l = rule->depth - 1; l >= !rule->stages; l--) {
        const Linear *at = rule->linears + l, *before = l ? at - 1 : NULL;
        float *d = before ? before->d : rule->back;
        long numbers = n * at->inner;
        memset(d, 0, numbers * sizeof(float));
        FOR(add_products)(d, at->inner, n, at->inner, at->d, 1, at->outer, w + at->weight, at->inner, at->outer);
        if (before && before->relu)
            for (long k = 0; k < numbers; k++) d[k] = at->inputs[k] <= 0 ? 0 : d[k];
    }
}

/* to <- keep to + shift + d' inputs, for every layer */
static void FOR(add)(const Rule *rule, float *to, const float *x, int n, float keep, const float *shift) {
    for (int l = 0; l < rule->depth; l++) {
        const Linear *at = rule->linears + l;
        for (long o = 0; o < at->outer; o += 2 * BLOCK) { /* rows that stay in the cache from the one to the other */
            long rows = at->outer - o < 2 * BLOCK ? at->outer - o : 2 * BLOCK, place = at->weight + o * at->inner;
            FOR(drag)(to, shift, place, rows * at->inner, keep);
            FOR(add_products)(to + place, at->inner, rows, at->inner, at->d + o, at->outer, 1, l ? at->inputs : x,
                              at->inner, n);
        }
        if (at->bias < 0) continue;
        FOR(drag)(to, shift, at->bias, at->outer, keep);
        for (int b = 0; b < n; b++)
            for (long o = 0; o < at->outer; o++) to[at->bias + o] += at->d[b * at->outer + o];
    }
}

/* The mean gradient of n samples at the model w; returns their mean loss. */
static double FOR(gradient)(const Rule *rule, const float *w, const float *x, const int64_t *y, int n) {
    x = FOR(maps_forward)(rule, w, x, n);
    FOR(forward)(rule, w, x, n);
    double loss = FOR(cross_entropy)(rule->linears + rule->depth - 1, y, n, 1.0f / n) / n;
    FOR(backward)(rule, w, n);
    memset(rule->gradient, 0, rule->size * sizeof(float));
    FOR(maps_backward)(rule, w, rule->gradient, n, 1, NULL);
    FOR(add)(rule, rule->gradient, x, n, 1, NULL);
    return loss;
}

static void FOR(climb)(const Rule *rule, const float *w) {
    const float *g = rule->gradient;
    double part[LANES] = {0}, square = 0;
    long k = 0;
    for (; k + LANES <= rule->size; k += LANES)
        for (int i = 0; i < LANES; i++) part[i] += (double)g[k + i] * g[k + i];
    for (; k < rule->size; k++) square += (double)g[k] * g[k];
    for (int i = 0; i < LANES; i++) square += part[i];
    float far = square > 0 ? rule->sam / sqrt(square) : square; /* a zero gradient does not move */
    for (k = 0; k < rule->size; k++) rule->climbed[k] = w[k] + far * g[k];
}

/* A step whose rule needs the gradient itself. */
static double FOR(whole_step)(const Rule *rule, const Device *device, const float *x, const int64_t *y, int n) {
    float *w = device->w, *g = rule->gradient, *m = device->m;
    float momentum = rule->momentum, decay = rule->decay, rate = device->rate, pull = device->pull;
    long size = rule->size;
    double loss = FOR(gradient)(rule, w, x, y, n);
    if (rule->sam) {
        FOR(climb)(rule, w);
        FOR(gradient)(rule, rule->climbed, x, y, n);
    }
    if (device->last_gradient) memcpy(device->last_gradient, g, size * sizeof(float));
    if (device->mean_gradient)
        for (long k = 0; k < size; k++) device->mean_gradient[k] += g[k];
    if (device->epoch)
        for (long k = 0; k < size; k++) device->epoch[k] += g[k];
    if (m) {
        for (long k = 0; k < size; k++) m[k] = momentum * m[k] + g[k] + decay * w[k];
        g = m;
    }
    if (rule->mask)
        for (long k = 0; k < size; k++) w[k] -= rule->mask[k] * (rate * g[k] + pull * w[k]);
    else
        for (long k = 0; k < size; k++) w[k] -= rate * g[k] + pull * w[k];
    FOR(drag)(w, device->shift, 0, size, 1);
    return loss;
}

static double FOR(step)(const Rule *rule, const Device *device, const float *x, const int64_t *y, int n) {
    x = FOR(maps_forward)(rule, device->w, x, n);
    FOR(forward)(rule, device->w, x, n);
    double loss = FOR(cross_entropy)(rule->linears + rule->depth - 1, y, n, -device->rate / n) / n;
    FOR(backward)(rule, device->w, n);
    FOR(maps_backward)(rule, device->w, device->w, n, 1 - device->pull, device->shift);
    FOR(add)(rule, device->w, x, n, 1 - device->pull, device->shift);
    return loss;
}

static void FOR(train)(const Rule *rule, Device *devices, int64_t count) {
    for (Device *device = devices; device < devices + count; device++)
        for (int64_t begin = 0; begin < device->samples; begin += rule->batch) {
            int64_t left = device->samples - begin, n = left < rule->batch ? left : rule->batch;
            const float *x = device->x + begin * rule->numbers;
            device->loss += (rule->gradient ? FOR(whole_step) : FOR(step))(rule, device, x, device->y + begin, n);
        }
}

static void FOR(answer)(const Rule *rule, const float *w, const float *x, int64_t samples, float *logits) {
    const Linear *last = rule->linears + rule->depth - 1;
    for (int64_t begin = 0; begin < samples; begin += rule->batch) {
        int64_t left = samples - begin, n = left < rule->batch ? left : rule->batch;
        FOR(forward)(rule, w, FOR(maps_forward)(rule, w, x + begin * rule->numbers, n), n);
        memcpy(logits + begin * last->outer, last->d, n * last->outer * sizeof(float));
    }
}

#undef PIECES
#undef vec
#undef EVERY
#undef FOR
#undef BYTES
#undef BLOCK
#undef EACH
#undef TALL
#undef TALLEST
#undef WIDE
#undef EVERY_TILE
