/* What a stage of maps is, and along each of its two axes what sees what. */

typedef struct {
    int64_t channels, height, width, outer, rows, columns; /* of its input; what its convolution makes of it */
    int64_t weight, bias;                                  /* as in Linear; weight < 0: it has no convolution */
    int64_t down, across, step_down, step_across, up, left; /* kernel, stride, zeros above and left */
    int64_t pool_down, pool_across, pool_step_down, pool_step_across; /* 1, 1, 1, 1: it does not pool */
    int64_t high, wide, mean, relu;                                   /* its output; pooled by the mean, not the most */
    float *y, *d, *unpooled; /* for each LANES samples [outer, high, wide, LANES], the same, and before the pooling */
    int32_t *first;          /* place in its window of each maximum */
} Stage;

typedef struct {
    long count, begin, apart;         /* what is summed up: how many, the first's place, from one to the next */
    long first, step, turn, length;   /* what they see: the first's first, from one to the next, from tap to tap */
    long tap, taps, between;          /* the first tap, how many, from one to the next */
} Axis;

typedef struct {
    long from_inner, from_down, from_across, from_pixel, w_inner, w_down, w_across, w_row, w_line, to_row, to_pixel;
} Sum;

typedef struct {
    long blocks, d_block, x_block, d_line, x_line, x_pixel, d_row, to_row;
} Taps;

static long reach_begin(const Axis *axis, long at) {
    long begin = axis->turn > 0 ? -at : at - axis->length + 1;
    return begin > 0 ? begin : 0;
}

static long reach_end(const Axis *axis, long at) {
    long end = axis->turn > 0 ? axis->length - at : at + 1;
    return end < axis->taps ? end : axis->taps;
}

/* How many from x on see something by the same taps. */
static long neighbours(const Axis *axis, long x) {
    long at = x * axis->step + axis->first, begin = reach_begin(axis, at), end = reach_end(axis, at), n = 1;
    for (; x + n < axis->count; n++) {
        at += axis->step;
        if (reach_begin(axis, at) != begin || reach_end(axis, at) != end) break;
    }
    return n;
}

/* A convolution's outputs, and what they see of the input. */
static Axis outputs(long count, long length, long taps, long step, long before) {
    return (Axis){count, 0, 1, -before, step, 1, length, 0, taps, 1};
}

/* Those inputs that are seen by the taps tap, tap + step, ..., and the outputs that see them. */
static Axis inputs(long count, long length, long taps, long step, long before, long tap) {
    long begin = (tap + step - before % step) % step, left = count - begin, own = taps - tap;
    return (Axis){
        left > 0 ? (left + step - 1) / step : 0, begin, step, (begin + before - tap) / step, 1, -1, length, tap,
        own > 0 ? (own + step - 1) / step : 0, step};
}

static int pooled(const Stage *stage) {
    return stage->pool_down * stage->pool_across * stage->pool_step_down * stage->pool_step_across > 1;
}
