/* The stages of maps, forward and backward: for each LANES samples a convolution with its bias, a pooling and a ReLU,
   of which any may be missing. Lanes without a sample hold zeros. */

/* From n rows of samples to lanes; the other way. */
static void FOR(enter)(float *to, const float *x, long numbers, int n) {
    for (long i = 0; i < numbers; i++)
        for (int b = 0; b < LANES; b++) to[i * LANES + b] = b < n ? x[b * numbers + i] : 0;
}

static void FOR(leave)(float *x, const float *from, long numbers, int n) {
    for (int b = 0; b < n; b++)
        for (long i = 0; i < numbers; i++) x[b * numbers + i] = from[i * LANES + b];
}

/* 0 where `by` is negative or, if `equal`, 0. */
INLINE vec FOR(rectified)(vec v, vec by, int equal) {
    EVERY v.p[p] = FOR(either)(equal ? by.p[p] <= 0 : by.p[p] < 0, (FOR(piece)){0}, v.p[p]);
    return v;
}

/* As in torch the first of equals wins, along a row, then down, and what is not a number wins over all. */
static void FOR(pool)(const Stage *at, const float *from, float *to, int32_t *first, long planes) {
    float count = at->pool_down * at->pool_across;
    for (long plane = 0; plane < planes; plane++, from += at->rows * at->columns * LANES)
        for (long y = 0; y < at->high; y++)
            for (long x = 0; x < at->wide; x++, to += LANES, first += LANES) {
                const float *corner = from + (y * at->pool_step_down * at->columns + x * at->pool_step_across) * LANES;
                vec best = FOR(load)(corner);
                FOR(wholes) place = {0};
                int32_t number = 0;
                if (at->mean) best = FOR(zero)();
                for (long v = 0; v < at->pool_down; v++)
                    for (long h = 0; h < at->pool_across; h++, number++) {
                        vec other = FOR(load)(corner + (v * at->columns + h) * LANES);
                        EVERY {
                            FOR(whole) more = (other.p[p] > best.p[p]) | (other.p[p] != other.p[p]);
                            if (at->mean) best.p[p] += other.p[p];
                            else best.p[p] = FOR(either)(more, other.p[p], best.p[p]);
                            place.p[p] = (more & number) | (~more & place.p[p]);
                        }
                    }
                if (at->mean) EVERY best.p[p] /= count;
                FOR(store)(to, at->relu ? FOR(rectified)(best, best, 0) : best);
                memcpy(first, &place, sizeof place);
            }
}

/* From the derivative by a stage's output to that by what it pools. */
static void FOR(unpool)(const Stage *at, const float *y, const float *d, const int32_t *first, float *to) {
    float count = at->pool_down * at->pool_across;
    int apart = at->pool_step_down >= at->pool_down && at->pool_step_across >= at->pool_across;
    if (!apart || at->high * at->pool_down * at->wide * at->pool_across < at->rows * at->columns)
        memset(to, 0, at->outer * at->rows * at->columns * LANES * sizeof(float));
    for (long plane = 0; plane < at->outer; plane++, to += at->rows * at->columns * LANES)
        for (long row = 0; row < at->high; row++)
            for (long x = 0; x < at->wide; x++, y += LANES, d += LANES, first += LANES) {
                float *corner = to + (row * at->pool_step_down * at->columns + x * at->pool_step_across) * LANES;
                vec g = FOR(load)(d);
                FOR(wholes) place;
                int32_t number = 0;
                if (at->relu) g = FOR(rectified)(g, FOR(load)(y), 1);
                if (at->mean) EVERY g.p[p] /= count;
                memcpy(&place, first, sizeof place);
                for (long v = 0; v < at->pool_down; v++)
                    for (long h = 0; h < at->pool_across; h++, number++) {
                        float *other = corner + (v * at->columns + h) * LANES;
                        vec mine = g;
                        if (!at->mean) EVERY mine.p[p] = FOR(either)(place.p[p] == number, g.p[p], (FOR(piece)){0});
                        if (!apart) {
                            vec before = FOR(load)(other);
                            EVERY mine.p[p] += before.p[p];
                        }
                        FOR(store)(other, mine);
                    }
            }
}

/* The output of a stage for LANES samples, of which n are there; `room` holds what is pooled of TALLEST channels. */
static void FOR(stage_forward)(const Stage *at, const float *w, const float *x, float *y, int32_t *first, float *room,
                               int n) {
    long plane = at->rows * at->columns * LANES, seen = at->height * at->width * LANES, taps = at->down * at->across;
    long result = at->high * at->wide * LANES;
    Axis down = outputs(at->rows, at->height, at->down, at->step_down, at->up);
    Axis across = outputs(at->columns, at->width, at->across, at->step_across, at->left);
    Sum s = {.from_inner = seen, .w_inner = taps, .w_down = at->across, .w_across = 1, .w_line = at->across,
             .w_row = at->channels * taps, .to_row = plane};
    for (long o = 0; o < at->outer; o += TALLEST) {
        long planes = at->outer - o < TALLEST ? at->outer - o : TALLEST;
        const float *found = x + o * plane;
        if (at->weight >= 0) {
            float *to = pooled(at) ? room : y + o * plane;
            vec start[TALLEST];
            for (int r = 0; r < planes; r++) {
                float bias[LANES] = {0};
                for (int i = 0; i < n && at->bias >= 0; i++) bias[i] = w[at->bias + o + r];
                start[r] = FOR(load)(bias);
            }
            FOR(correlate)(&down, &across, s, to, at->columns, x, at->width, w + at->weight + o * s.w_row,
                           at->channels, start, planes);
            found = to;
        }
        if (pooled(at)) FOR(pool)(at, found, y + o * result, first + o * result, planes);
        else
            for (long k = 0; k < planes * plane && (at->relu || at->weight < 0); k += LANES) {
                vec v = FOR(load)(found + k);
                FOR(store)(y + o * plane + k, at->relu ? FOR(rectified)(v, v, 0) : v);
            }
    }
}

/* From the derivative by a convolution's output to that by its input. */
static void FOR(input_gradient)(const Stage *at, const float *w, const float *d, float *to) {
    long plane = at->rows * at->columns * LANES, seen = at->height * at->width * LANES, taps = at->down * at->across;
    Sum s = {.from_inner = plane, .w_inner = at->channels * taps, .w_down = at->step_down * at->across,
             .w_across = at->step_across, .w_line = at->across, .w_row = taps, .to_row = seen};
    vec start[TALLEST];
    for (int r = 0; r < TALLEST; r++) start[r] = FOR(zero)();
    for (long c = 0; c < at->channels; c += TALLEST)
        for (long v = 0; v < at->step_down; v++)
            for (long h = 0; h < at->step_across; h++) {
                Axis down = inputs(at->height, at->rows, at->down, at->step_down, at->up, v);
                Axis across = inputs(at->width, at->columns, at->across, at->step_across, at->left, h);
                long planes = at->channels - c < TALLEST ? at->channels - c : TALLEST;
                FOR(correlate)(&down, &across, s, to + c * seen, at->width, d, at->columns, w + at->weight + c * taps,
                               at->outer, start, planes);
            }
}

/* to += the derivative by the weights, of so many blocks of LANES samples */
static void FOR(weight_gradient)(const Stage *at, float *to, const float *d, const float *x, long blocks) {
    long plane = at->rows * at->columns * LANES, seen = at->height * at->width * LANES, taps = at->down * at->across;
    Axis across = outputs(at->columns, at->width, at->across, at->step_across, at->left);
    Taps s = {.blocks = blocks, .d_block = at->outer * plane, .x_block = at->channels * seen, .d_row = plane,
              .d_line = at->columns * LANES, .x_line = at->step_down * at->width * LANES,
              .x_pixel = at->step_across * LANES, .to_row = at->channels * taps};
    for (long o = 0, tall; o < at->outer; o += tall) {
        tall = FOR(tall)(at->outer - o, at->across < WIDE ? at->across : WIDE);
        for (long c = 0; c < at->channels; c++)
            for (long v = 0; v < at->down; v++) {
                long above = at->up - v, left = at->height - 1 + above; /* which lines see something by this tap */
                long begin = above > 0 ? (above + at->step_down - 1) / at->step_down : 0;
                long end = left < 0 ? 0 : left / at->step_down + 1;
                end = end < at->rows ? end : at->rows;
                if (begin >= end) continue;
                for (long i = 0, n; i < at->columns; i += n) {
                    long column = i * at->step_across - at->left, last = reach_end(&across, column);
                    n = neighbours(&across, i);
                    for (long t = reach_begin(&across, column); t < last; t += WIDE)
                        FOR(tap_tiles)(
                            &s, to + ((o * at->channels + c) * at->down + v) * at->across + t,
                            d + o * plane + (begin * at->columns + i) * LANES,
                            x + c * seen + ((begin * at->step_down - above) * at->width + column + t) * LANES,
                            end - begin, n, tall, last - t < WIDE ? last - t : WIDE);
                }
            }
    }
}

static void FOR(bias_gradient)(const Stage *at, float *to, const float *d, long blocks) {
    long plane = at->rows * at->columns * LANES;
    for (long o = 0; o < at->outer; o++) {
        vec sum = FOR(zero)();
        for (long b = 0; b < blocks; b++)
            for (long k = 0; k < plane; k += LANES) {
                vec more = FOR(load)(d + (b * at->outer + o) * plane + k);
                EVERY sum.p[p] += more.p[p];
            }
        to[o] += FOR(total)(sum);
    }
}

/* What the linear layers begin with, of n samples. */
static const float *FOR(maps_forward)(const Rule *rule, const float *w, const float *x, int n) {
    if (!rule->stages) return x;
    long inputs = rule->numbers * LANES;
    for (long b = 0; b * LANES < n; b++) {
        int here = n - b * LANES < LANES ? n - b * LANES : LANES;
        float *from = rule->lanes + b * inputs;
        FOR(enter)(from, x + b * inputs, rule->numbers, here);
        for (const Stage *at = rule->maps; at < rule->maps + rule->stages; at++) {
            long results = at->outer * at->high * at->wide * LANES;
            FOR(stage_forward)(at, w, from, at->y + b * results, at->first ? at->first + b * results : NULL, rule->room, here);
            from = at->y + b * results;
        }
        FOR(leave)(rule->linears->inputs + b * LANES * rule->linears->inner, from, rule->linears->inner, here);
    }
    return rule->linears->inputs;
}

/* to <- keep to + shift + the derivative by the parameters of the stages, which may be those in w */
static void FOR(maps_backward)(const Rule *rule, const float *w, float *to, int n, float keep, const float *shift) {
    if (!rule->stages) return;
    const Stage *trained = rule->maps, *end = rule->maps + rule->stages;
    while (trained < end && trained->weight < 0) trained++;
    for (const Stage *at = end - 1; at >= trained; at--) {
        long results = at->outer * at->high * at->wide * LANES, found = at->outer * at->rows * at->columns * LANES;
        long inputs = at->channels * at->height * at->width * LANES, blocks = (n + LANES - 1) / LANES;
        long together = TOGETHER / (inputs + found) > 1 ? TOGETHER / (inputs + found) : 1;
        /* what is seen by no stage before goes from cache to cache; else `to` may be the w that others still need */
        long many = at == trained && together < blocks ? together : blocks;
        for (long begin = 0; begin < blocks; begin += many) {
            long some = blocks - begin < many ? blocks - begin : many;
            float *d = pooled(at) ? at->unpooled : at->d + begin * results;
            for (long b = begin; b < begin + some; b++) {
                float *mine = at->d + b * results, *y = at->y + b * results, *own = d + (b - begin) * found;
                int here = n - b * LANES < LANES ? n - b * LANES : LANES;
                if (at == end - 1) FOR(enter)(mine, rule->back + b * results, results / LANES, here);
                if (pooled(at)) FOR(unpool)(at, y, mine, at->first + b * results, own);
                else if (at->relu)
                    for (long k = 0; k < results; k += LANES)
                        FOR(store)(mine + k, FOR(rectified)(FOR(load)(mine + k), FOR(load)(y + k), 1));
                if (at == trained) continue;
                if (at->weight < 0) memcpy(at[-1].d + b * inputs, own, inputs * sizeof(float));
                else FOR(input_gradient)(at, w, own, at[-1].d + b * inputs);
            }
            if (at->weight < 0) continue;
            const float *x = (at == rule->maps ? rule->lanes : at[-1].y) + begin * inputs;
            if (!begin) {
                FOR(drag)(to, shift, at->weight, at->outer * at->channels * at->down * at->across, keep);
                if (at->bias >= 0) FOR(drag)(to, shift, at->bias, at->outer, keep);
            }
            for (long b = 0; b < some; b += together)
                FOR(weight_gradient)(at, to + at->weight, d + b * found, x + b * inputs,
                                     some - b < together ? some - b : together);
            if (at->bias >= 0) FOR(bias_gradient)(at, to + at->bias, d, some);
        }
    }
}
