/* The shuffle of bench/seeding.py for many streams at once, to the bit (tests/bench/test_seeding.py). */
#include <stdint.h>
#include <string.h>

typedef unsigned __int128 wide;

typedef struct {
    wide state, increment;
    uint32_t kept; /* the upper half of the last 64 bits, where only the lower one was used */
    int has_kept;
} Pcg64;

static void advance(Pcg64 *rng) {
    wide multiplier = ((wide)2549297995355413924ULL << 64) + 4865540595714422341ULL;
    rng->state = rng->state * multiplier + rng->increment;
}

static Pcg64 seeded(const uint64_t *words) {
    Pcg64 rng = {.increment = ((wide)words[2] << 64 | words[3]) << 1 | 1};
    advance(&rng);
    rng.state += (wide)words[0] << 64 | words[1];
    advance(&rng);
    return rng;
}

static uint32_t next(Pcg64 *rng) {
    if (rng->has_kept) {
        rng->has_kept = 0;
        return rng->kept;
    }
    advance(rng);
    uint64_t folded = (uint64_t)(rng->state >> 64) ^ (uint64_t)rng->state;
    unsigned turn = rng->state >> 122;
    uint64_t value = folded >> turn | folded << (-turn & 63);
    rng->kept = value >> 32;
    rng->has_kept = 1;
    return value;
}

/* From 0 to `most`: as many bits as that has, drawn until they are not above it. */
static uint32_t up_to(Pcg64 *rng, uint32_t most) {
    uint32_t bits = UINT32_MAX >> __builtin_clz(most), value;
    do value = next(rng) & bits;
    while (value > most);
    return value;
}

/* What is wrong with what `shuffles` was given; NULL: nothing. */
static const char *wrong(int64_t rows, int64_t held, const int64_t *begins, const int64_t *lengths,
                         const int64_t *times, int64_t room) {
    for (int64_t r = 0; r < rows; r++) {
        if (lengths[r] < 0 || lengths[r] > UINT32_MAX) return "more numbers to shuffle than 32 bits can count";
        if (begins[r] < 0 || begins[r] > held - lengths[r]) return "numbers to shuffle that are not there";
        if (times[r] < 0 || (lengths[r] && times[r] > room / lengths[r])) return "too little room for what is shuffled";
        room -= lengths[r] * times[r];
    }
    return NULL;
}

/* Row r of `seeds` shuffles copies of lengths[r] of the `held` numbers, from begins[r] on: times[r] of them, one after
   the other into `shuffled`, which has `room`; or says why not, with nothing written. */
const char *shuffles(int64_t rows, const uint64_t *seeds, const int64_t *numbers, int64_t held, const int64_t *begins,
                     const int64_t *lengths, const int64_t *times, int64_t *shuffled, int64_t room) {
    const char *why = wrong(rows, held, begins, lengths, times, room);
    if (why) return why;
    for (int64_t r = 0; r < rows; r++) {
        Pcg64 rng = seeded(seeds + 4 * r);
        for (int64_t t = 0; t < times[r]; t++, shuffled += lengths[r]) {
            memcpy(shuffled, numbers + begins[r], lengths[r] * sizeof(int64_t));
            for (int64_t i = lengths[r] - 1; i > 0; i--) {
                int64_t j = up_to(&rng, i), moved = shuffled[i];
                shuffled[i] = shuffled[j];
                shuffled[j] = moved;
            }
        }
    }
    return NULL;
}
