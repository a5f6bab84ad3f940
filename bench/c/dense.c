/* Local epochs of devices whose model is a row of linear layers, with ReLU in between and cross-entropy at the end, and
   before them, where samples are maps, of convolutions and poolings.
   Everything lies where Python (bench/engine/native.py) put it: models are flat vectors, samples are rows. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#define LANES 16         /* numbers that are added up side by side */
#define MOST (1LL << 30) /* of anything: it is counted in int */
#define TOGETHER (1L << 17) /* numbers of maps that are in the cache at a time */
#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")
typedef float four __attribute__((vector_size(16)));

typedef struct {
    int64_t inner, outer, relu, weight, bias; /* the last two: places of its parameters in a model; bias < 0: none */
    float *inputs, *d;                        /* [batch, inner], the first layer's apart; [batch, outer] */
} Linear;

#include "geometry.h"

typedef struct {
    float *w;
    const float *x;
    const int64_t *y;
    int64_t samples;
    float *m;           /* NULL, as are the next ones, where there is none */
    const float *shift;
    float *last_gradient, *mean_gradient, *epoch; /* of the last step, summed over all steps, over this epoch's */
    double rate, pull, loss;                      /* `loss` is added to */
} Device;

typedef struct {
    int64_t depth, batch, size, numbers, stages; /* layers, samples in a mini-batch, numbers in a model and in a sample */
    const Linear *linears;
    const Stage *maps;          /* NULL, as are the next ones, where there is none */
    float *lanes, *room, *back; /* samples side by side; TALLEST planes to be pooled; by the first layer's inputs */
    const float *mask;         /* NULL: everything is trained */
    float *gradient, *climbed; /* NULL: a step needs no gradient of its own, no second one */
    double momentum, decay, sam;
} Rule;

#define COLUMNS2(r, left) if ((left) > 1) ONE(r, 2); else ONE(r, 1);
#define EACH2(rows, columns) if ((rows) > 1) { COLUMNS2(2, columns) } else { COLUMNS2(1, columns) }
#define COLUMNS4(r, left) if ((left) > 3) ONE(r, 4); else if ((left) == 3) ONE(r, 3); else COLUMNS2(r, left)
#define EACH4(rows, columns) \
    if ((rows) > 3) { COLUMNS4(4, columns) } else if ((rows) == 3) { COLUMNS4(3, columns) } \
    else if ((rows) == 2) { COLUMNS4(2, columns) } else { COLUMNS4(1, columns) }

#define WIDE3(r) TILE(r, 1) TILE(r, 2) TILE(r, 3)
#define WIDE6(r) WIDE3(r) TILE(r, 4) TILE(r, 5) TILE(r, 6)

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define DISPATCHED
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,prefer-vector-width=512")
#define FOR(name) name##_avx512
#define BYTES 64
#define BLOCK 4
#define EACH EACH4
#define TALL 4
#define TALLEST 8
#define WIDE 6
#define EVERY_TILE WIDE6(1) WIDE6(2) WIDE6(3) WIDE6(4) WIDE3(8)
#include "steps.h"
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#define FOR(name) name##_avx2
#define BYTES 32
#define BLOCK 2
#define EACH EACH2
#define TALL 2
#define TALLEST 4
#define WIDE 3
#define EVERY_TILE WIDE3(1) WIDE3(2) TILE(4, 1)
#include "steps.h"
#pragma GCC pop_options
#endif
#define FOR(name) name##_any
#define BYTES 16
#define BLOCK 2
#define EACH EACH2
#define TALL 2
#define TALLEST 4
#define WIDE 3
#define EVERY_TILE WIDE3(1) WIDE3(2) TILE(4, 1)
#include "steps.h"

/* Of three numbers the product, or -1 where one of them or it is none or too many. */
static int64_t volume(int64_t a, int64_t b, int64_t c) {
    if (a < 1 || a > MOST || b < 1 || b > MOST || c < 1 || c > MOST || a * b > MOST || a * b * c > MOST) return -1;
    return a * b * c;
}

static const char *wrong_stage(const Rule *rule, const Stage *at) {
    const int first = at == rule->maps;
    const int64_t taps = volume(at->down, at->across, at->channels), inputs = volume(at->channels, at->height, at->width);
    if (taps < 0 || inputs < 0 || volume(at->outer, at->rows, at->columns) < 0 || volume(at->outer, at->high, at->wide) < 0)
        return "a map without pixels or with too many";
    if (first ? inputs != rule->numbers
              : at->channels != at[-1].outer || at->height != at[-1].high || at->width != at[-1].wide)
        return "a map with other inputs than the outputs before it";
    if (volume(at->step_down, at->step_across, 1) < 0 || at->up < 0 || at->up > MOST || at->left < 0 || at->left > MOST)
        return "a convolution whose stride or padding cannot be";
    if (at->weight < 0 && (at->outer != at->channels || at->rows != at->height || at->columns != at->width))
        return "a map that changes without a convolution";
    if (at->weight >= 0 && (volume(taps, at->outer, 1) < 0 || at->weight > rule->size - taps * at->outer ||
                            at->bias > rule->size - at->outer))
        return "a convolution whose parameters lie outside the model";
    if (volume(at->pool_down, at->pool_across, 1) < 0 || volume(at->pool_step_down, at->pool_step_across, 1) < 0 ||
        (at->high - 1) * at->pool_step_down + at->pool_down > at->rows ||
        (at->wide - 1) * at->pool_step_across + at->pool_across > at->columns)
        return "a pooling of more than there is";
    if (!pooled(at) && (at->high != at->rows || at->wide != at->columns)) return "a map that changes without a pooling";
    return at->y && at->d && (!pooled(at) || (at->unpooled && at->first)) ? NULL : "a map without buffers";
}

static const char *wrong_maps(const Rule *rule) {
    if (rule->stages < 0 || rule->stages > MOST || (rule->stages && !rule->maps)) return "a number of maps that cannot be";
    int64_t inputs = rule->numbers;
    for (int64_t l = 0; l < rule->stages; l++) {
        const Stage *at = rule->maps + l;
        const char *why = wrong_stage(rule, at);
        if (why) return why;
        inputs = at->outer * at->high * at->wide;
    }
    if (rule->linears->inner != inputs) return "a first layer with other inputs than what is before it";
    if (rule->stages && !(rule->linears->inputs && rule->lanes && rule->room && rule->back)) return "maps without buffers";
    return NULL;
}

/* What is wrong with what `train` was given, which reads and writes wherever it is told to; NULL: nothing. That vectors
   are as long as they should be is for Python to see. */
static const char *wrong(const Rule *rule, const Device *devices, int64_t count) {
    if (count < 0 || rule->depth < 1 || rule->depth > MOST || rule->batch < 1 || rule->batch > MOST || rule->size < 1)
        return "a number of devices, layers, samples or parameters that cannot be";
    for (const Linear *at = rule->linears; at < rule->linears + rule->depth; at++) {
        int first = at == rule->linears;
        if (at->inner < 1 || at->inner > MOST || at->outer < 1 || at->outer > MOST)
            return "a layer whose inputs or outputs are none or too many";
        if (!first && at->inner != at[-1].outer) return "a layer with other inputs than the outputs before it";
        if (at->weight < 0 || at->weight > rule->size - at->inner * at->outer || at->bias > rule->size - at->outer)
            return "a layer whose parameters lie outside the model";
        if (!at->d || !(first || at->inputs)) return "a layer without buffers";
    }
    const char *why = wrong_maps(rule);
    if (why) return why;
    if (rule->sam ? !rule->gradient || !rule->climbed : rule->mask && !rule->gradient)
        return "a rule without buffers for its gradient";
    const uint64_t classes = rule->linears[rule->depth - 1].outer;
    for (const Device *device = devices; device < devices + count; device++) {
        if (!device->w || device->samples < 0 || device->samples > MOST || (device->samples && !(device->x && device->y)))
            return "a device without a model or samples";
        if (!rule->gradient && (device->m || device->last_gradient || device->mean_gradient || device->epoch))
            return "a device whose gradients have no buffer";
        int outside = 0;
        for (int64_t i = 0; i < device->samples; i++) outside |= (uint64_t)device->y[i] >= classes;
        if (outside) return "a label that is no class";
    }
    return NULL;
}

#ifdef DISPATCHED
#define WITH(name, longest, ...) \
    if (longest >= 64 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && \
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")) \
        name##_avx512(__VA_ARGS__); \
    else if (longest >= 32 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) \
        name##_avx2(__VA_ARGS__); \
    else \
        name##_any(__VA_ARGS__)
#else
#define WITH(name, longest, ...) name##_any(__VA_ARGS__)
#endif

/* Trains each device on its samples, a step for each mini-batch, with vectors of at most `longest` bytes; or says why
   not, with nothing changed. */
const char *train(const Rule *rule, Device *devices, int64_t count, int longest) {
    const char *why = wrong(rule, devices, count);
    if (why) return why;
    WITH(train, longest, rule, devices, count);
    return NULL;
}

/* The logits of samples by the model w; or why not. */
const char *answer(const Rule *rule, const float *w, const float *x, int64_t samples, float *logits, int longest) {
    const char *why = wrong(rule, NULL, 0);
    if (why) return why;
    if (samples < 0 || samples > MOST || !w || !x || !logits) return "no samples, model or room for answers";
    WITH(answer, longest, rule, w, x, samples, logits);
    return NULL;
}
