/* The sums of a convolution over maps [channels][height][width][LANES], in which a lane is a sample: of neighbouring
   pixels and some channels at a time, in registers. Each is taken over its terms in one order, however many of them are
   taken together, and over nothing that lies outside a map. */

/* For `rows` planes and `pixels` neighbours: start[r] + sum over the terms of w times what lies there. */
INLINE void FOR(tile)(const Sum *s, float *to, const float *from, const float *w, long inner, long down, long across,
                      const vec *start, int rows, int pixels) {
    vec sum[TALLEST][WIDE];
    UNROLL for (int r = 0; r < rows; r++)
        UNROLL for (int i = 0; i < pixels; i++) sum[r][i] = start[r];
    for (long c = 0; c < inner; c++, from += s->from_inner, w += s->w_inner) {
        const float *row = from, *w_row = w;
        for (long v = 0; v < down; v++, row += s->from_down, w_row += s->w_down) {
            const float *at = row, *one = w_row;
            for (long h = 0; h < across; h++, at += s->from_across, one += s->w_across) {
                vec x[WIDE];
                UNROLL for (int i = 0; i < pixels; i++) x[i] = FOR(load)(at + i * s->from_pixel);
                UNROLL for (int r = 0; r < rows; r++) {
                    float weight = one[r * s->w_row];
                    UNROLL for (int i = 0; i < pixels; i++) EVERY sum[r][i].p[p] += weight * x[i].p[p];
                }
            }
        }
    }
    UNROLL for (int r = 0; r < rows; r++)
        UNROLL for (int i = 0; i < pixels; i++) FOR(store)(to + r * s->to_row + i * s->to_pixel, sum[r][i]);
}

/* For `rows` planes of d and `taps` neighbours: sum over blocks and pixels of d times what the tap sees; adds it up
   over the lanes, too, to `to`. */
INLINE void FOR(tap_tile)(const Taps *s, float *to, const float *d, const float *x, long lines, long pixels, int rows,
                          int taps) {
    vec sum[TALLEST][WIDE];
    UNROLL for (int r = 0; r < rows; r++)
        UNROLL for (int t = 0; t < taps; t++) sum[r][t] = FOR(zero)();
    for (long b = 0; b < s->blocks; b++, d += s->d_block, x += s->x_block) {
        const float *d_line = d, *x_line = x;
        for (long y = 0; y < lines; y++, d_line += s->d_line, x_line += s->x_line) {
            const float *g = d_line, *at = x_line;
            for (long i = 0; i < pixels; i++, g += LANES, at += s->x_pixel) {
                vec seen[WIDE];
                UNROLL for (int t = 0; t < taps; t++) seen[t] = FOR(load)(at + t * LANES);
                UNROLL for (int r = 0; r < rows; r++) {
                    vec a = FOR(load)(g + r * s->d_row);
                    UNROLL for (int t = 0; t < taps; t++) EVERY sum[r][t].p[p] += a.p[p] * seen[t].p[p];
                }
            }
        }
    }
    UNROLL for (int r = 0; r < rows; r++)
        UNROLL for (int t = 0; t < taps; t++) to[r * s->to_row + t] += FOR(total)(sum[r][t]);
}

#define TILE(r, n) case 8 * (r) + (n): FOR(tile)(s, to, from, w, inner, down, across, start, r, n); break;
static void FOR(tiles)(const Sum *s, float *to, const float *from, const float *w, long inner, long down, long across,
                       const vec *start, int rows, int pixels) {
    switch (8 * rows + pixels) { EVERY_TILE }
}
#undef TILE
#define TILE(r, n) case 8 * (r) + (n): FOR(tap_tile)(s, to, d, x, lines, pixels, r, n); break;
static void FOR(tap_tiles)(const Taps *s, float *to, const float *d, const float *x, long lines, long pixels, int rows,
                           int taps) {
    switch (8 * rows + taps) { EVERY_TILE }
}
#undef TILE

/* How many of `left` planes are taken together with so many neighbours. */
INLINE int FOR(tall)(long left, int neighbours) {
    int most = 2 * neighbours <= WIDE ? TALLEST : TALL;
    return left >= most ? most : left < TALL ? left : TALL;
}

/* Into each pixel of planes the sum over channels and taps of w times what the tap sees. */
static void FOR(correlate)(const Axis *down, const Axis *across, Sum s, float *to, long width, const float *from,
                           long from_width, const float *w, long inner, const vec *start, long rows) {
    s.from_pixel = across->step * LANES, s.to_pixel = across->apart * LANES;
    s.from_across = across->turn * LANES, s.from_down = down->turn * from_width * LANES;
    for (long y = 0; y < down->count; y++) {
        long line = y * down->step + down->first, top = reach_begin(down, line), bottom = reach_end(down, line);
        for (long x = 0, n; x < across->count; x += n) {
            long column = x * across->step + across->first;
            long left = reach_begin(across, column), right = reach_end(across, column);
            long run = neighbours(across, x);
            n = (run + WIDE - 1) / WIDE, n = (run + n - 1) / n;
            float *place = to + ((down->begin + y * down->apart) * width + across->begin + x * across->apart) * LANES;
            const float *at = from + ((line + top * down->turn) * from_width + column + left * across->turn) * LANES;
            const float *weight = w + (down->tap + top * down->between) * s.w_line + across->tap + left * across->between;
            int seen = top < bottom && left < right;
            for (int r = 0, tall; r < rows; r += tall) {
                tall = FOR(tall)(rows - r, n);
                FOR(tiles)(&s, place + r * s.to_row, seen ? at : from, seen ? weight + r * s.w_row : w, seen ? inner : 0,
                           bottom - top, right - left, start + r, tall, n);
            }
        }
    }
}
