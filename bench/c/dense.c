/* Local epochs of devices whose model is a row of linear layers, with ReLU in between and cross-entropy at the end.
   Everything lies where Python (bench/engine/native.py) put it: models are flat vectors, samples are rows. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#define LANES 16         /* numbers that are added up side by side */
#define MOST (1LL << 30) /* of anything: it is counted in int */
#define INLINE static inline __attribute__((always_inline))
typedef float four __attribute__((vector_size(16)));

typedef struct {
    int64_t inner, outer, relu, weight, bias; /* the last two: places of its parameters in a model; bias < 0: none */
    float *inputs, *d;                        /* [batch, inner], the first layer's apart; [batch, outer] */
} Linear;

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
    int64_t depth, batch, size; /* layers, samples in a mini-batch, numbers in a model */
    const Linear *linears;
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

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define DISPATCHED
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,prefer-vector-width=512")
#define FOR(name) name##_avx512
#define BYTES 64
#define BLOCK 4
#define EACH EACH4
#include "steps.h"
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#define FOR(name) name##_avx2
#define BYTES 32
#define BLOCK 2
#define EACH EACH2
#include "steps.h"
#pragma GCC pop_options
#endif
#define FOR(name) name##_any
#define BYTES 16
#define BLOCK 2
#define EACH EACH2
#include "steps.h"

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

/* Trains each device on its samples, a step for each mini-batch, with vectors of at most `longest` bytes; or says why
   not, with nothing changed. */
const char *train(const Rule *rule, Device *devices, int64_t count, int longest) {
    const char *why = wrong(rule, devices, count);
    if (why) return why;
#ifdef DISPATCHED
    if (longest >= 64 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
        train_avx512(rule, devices, count);
    else if (longest >= 32 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        train_avx2(rule, devices, count);
    else
#endif
        train_any(rule, devices, count);
    return NULL;
}
