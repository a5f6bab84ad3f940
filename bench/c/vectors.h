/* Vectors of LANES numbers, in as many pieces as the processor needs for them. */

#define PIECES (4 * LANES / BYTES)
#define vec FOR(vec)
#define EVERY for (int p = 0; p < PIECES; p++)

typedef float FOR(piece) __attribute__((vector_size(BYTES)));
typedef float FOR(anywhere) __attribute__((vector_size(BYTES), aligned(4)));
typedef struct {
    FOR(piece) p[PIECES];
} vec;
typedef int32_t FOR(whole) __attribute__((vector_size(BYTES)));
typedef struct {
    FOR(whole) p[PIECES];
} FOR(wholes);

INLINE vec FOR(zero)(void) {
    vec v;
    EVERY v.p[p] = (FOR(piece)){0};
    return v;
}

INLINE vec FOR(load)(const float *from) {
    vec v;
    EVERY v.p[p] = *(const FOR(anywhere) *)(from + p * (BYTES / 4));
    return v;
}

INLINE void FOR(store)(float *to, vec v) {
    EVERY *(FOR(anywhere) *)(to + p * (BYTES / 4)) = v.p[p];
}

/* The first n numbers, then zeros. */
INLINE vec FOR(first)(const float *from, long n) {
    vec v = FOR(zero)();
    memcpy(&v, from, n * sizeof(float));
    return v;
}

/* One number where all bits of `which` are set, the other where none is. */
INLINE FOR(piece) FOR(either)(FOR(whole) which, FOR(piece) one, FOR(piece) other) {
    return (FOR(piece))((which & (FOR(whole))one) | (~which & (FOR(whole))other));
}

INLINE float FOR(total)(vec v) {
    union { vec all; four q[4]; } a = {v};
    four c = (a.q[0] + a.q[2]) + (a.q[1] + a.q[3]);
    return (c[0] + c[2]) + (c[1] + c[3]);
}

INLINE void FOR(drag)(float *w, const float *shift, long begin, long n, float keep) {
    if (keep != 1)
        for (long k = begin; k < begin + n; k++) w[k] *= keep;
    if (shift)
        for (long k = begin; k < begin + n; k++) w[k] += shift[k];
}
