/*
 * The bound under word count: what one thread does by hand. Memory-mapped input, a vector
 * tokeniser, open addressing with lookups in three waves of 16 that prefetch slot, then record,
 * slots in the order of hashes; writes the same two partitions as the engine does, word TAB
 * count, by hash, then word. Touches as little memory as it can (8 bytes a slot, 8 a record
 * beside its key, sorted in place): on machines lent by a hypervisor a page's first use costs
 * up to 2 ns a byte.
 *
 * usage: bench_words_bound FILE FOLDER
 * A word is a maximal run of bytes other than blank, tab and newline. Counts what must be done
 * and nothing else: no budget, no failure but of system calls, no other keys or values.
 */
#include "mapreduce/hash.h"

#include <fcntl.h>
#include <immintrin.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    WAVE = 16,
    CHUNK = 64 << 10,
    OUT_BYTES = 256 << 10,
    AHEAD = 24,
    HUGE_PAGE = 2 << 20,
    GUESS = 84
};

typedef struct record {
    uint64_t size : 24, count : 40;
    char key[]; /* zeros up to 16 bytes */
} record;

/* The upper half of a hash, above the place of its record in the arena, in units; 0: free. */
typedef uint64_t slot;

typedef struct word {
    const char *data;
    gy_key_head head;
    uint64_t hash;
    uint32_t size, found; /* in the arena, 0: nowhere yet */
} word;

static slot *slots;
static size_t capacity = 1 << 16, used;
static int shift = 48;
static uint64_t *arena;
static size_t arena_used = 1;
static const char *folder;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void *space(size_t bytes)
{
    char *data = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) {
        die("mmap");
    }
    data += -(uintptr_t)data & (HUGE_PAGE - 1);
    (void)madvise(data, bytes, MADV_HUGEPAGE);
    return data;
}

static inline record *record_of(slot seen)
{
    return (void *)(arena + (uint32_t)seen);
}

static void grow(void)
{
    slot *old = slots;
    const size_t old_capacity = capacity;
    capacity *= 2;
    shift--;
    slots = space(capacity * sizeof(*slots));
    for (size_t i = 0; i < old_capacity; i++) {
        if (old[i] != 0) {
            size_t at = old[i] >> shift;
            while (slots[at] != 0) {
                at = (at + 1) & (capacity - 1);
            }
            slots[at] = old[i];
        }
    }
    (void)munmap(old, old_capacity * sizeof(*old));
}

static inline bool is_same(const record *seen, const word *item)
{
    uint64_t low, high;
    memcpy(&low, seen->key, 8);
    memcpy(&high, seen->key + 8, 8);
    const uint64_t differs =
        (seen->size ^ item->size) | (low ^ item->head.low) | (high ^ item->head.high);
    return differs == 0 &&
           (item->size <= 16 || memcmp(seen->key + 16, item->data + 16, item->size - 16) == 0);
}

static void insert(const word *item)
{
    size_t at = item->hash >> shift;
    for (; slots[at] != 0; at = (at + 1) & (capacity - 1)) {
        if (slots[at] >> 32 == item->hash >> 32 && is_same(record_of(slots[at]), item)) {
            record_of(slots[at])->count++;
            return;
        }
    }
    slots[at] = (item->hash >> 32 << 32) | arena_used;
    record *made = record_of(slots[at]);
    const size_t key_room = item->size < 16 ? 16 : item->size;
    arena_used += 1 + (key_room + 7) / 8;
    made->count = 1;
    made->size = item->size & 0xffffff;
    memcpy(made->key, &item->head, 16);
    if (item->size > 16) {
        memcpy(made->key + 16, item->data + 16, item->size - 16);
    }
    if (++used > capacity / 8 * 5) {
        grow();
    }
}

/* Two slots, by masks, which cannot be guessed wrong; `insert` finds what lies further. */
static inline void look(word *item)
{
    const size_t at = item->hash >> shift;
    const slot first = slots[at], second = slots[(at + 1) & (capacity - 1)];
    const uint64_t is_first = 0 - (uint64_t)(first >> 32 == item->hash >> 32);
    const uint64_t is_second = 0 - (uint64_t)(second >> 32 == item->hash >> 32);
    item->found = (uint32_t)((first & is_first) | (second & is_second & ~is_first));
    __builtin_prefetch(arena + item->found);
}

static inline size_t wave_size(size_t count, size_t from)
{
    return from >= count ? 0 : count - from < WAVE ? count - from : WAVE;
}

static void add(const char *text, const uint32_t *edges, size_t count)
{
    word waves[3][WAVE], *fresh = waves[0], *looked = waves[1], *ready = waves[2];
    for (size_t i = 0; i < count + 2 * WAVE; i += WAVE) {
        for (size_t j = 0; j < wave_size(count, i); j++) {
            word *item = &fresh[j];
            item->data = text + edges[2 * (i + j)];
            item->size = edges[2 * (i + j) + 1] - edges[2 * (i + j)];
            item->head = gy_key_head_of(item->data, item->size);
            item->hash = gy_key_hash(item->data, item->size, item->head);
            __builtin_prefetch(&slots[item->hash >> shift]);
        }
        for (size_t j = 0; i >= WAVE && j < wave_size(count, i - WAVE); j++) {
            look(&looked[j]);
        }
        for (size_t j = 0; i >= 2 * WAVE && j < wave_size(count, i - 2 * WAVE); j++) {
            record *found = record_of(ready[j].found);
            if (ready[j].found != 0 && is_same(found, &ready[j])) {
                found->count++;
            } else {
                insert(&ready[j]);
            }
        }
        word *last = ready;
        ready = looked;
        looked = fresh;
        fresh = last;
    }
}

/* Where words begin and end, from bits of 64 bytes. */
static size_t find(const char *text, size_t size, uint32_t *edges)
{
    uint32_t *out = edges;
    uint64_t before = 0;
    for (size_t at = 0; at < size; at += 64) {
        char rest[64];
        const char *block = text + at;
        if (size - at < 64) {
            memset(rest, ' ', 64);
            block = memcpy(rest, block, size - at);
        }
#if defined(__AVX512VBMI2__) && defined(__AVX512BW__)
        const __m512i v = _mm512_loadu_si512(block);
        const uint64_t bits = ~(_mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8(' ')) |
                                _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8('\t')) |
                                _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8('\n')));
#else
        uint64_t bits = 0;
        for (int half = 0; half < 64; half += 32) {
            const __m256i v = _mm256_loadu_si256((const void *)(block + half));
            const __m256i blank =
                _mm256_or_si256(_mm256_or_si256(_mm256_cmpeq_epi8(v, _mm256_set1_epi8(' ')),
                                                _mm256_cmpeq_epi8(v, _mm256_set1_epi8('\t'))),
                                _mm256_cmpeq_epi8(v, _mm256_set1_epi8('\n')));
            bits |= (uint64_t)(uint32_t)~_mm256_movemask_epi8(blank) << half;
        }
#endif
        uint64_t turns = bits ^ (bits << 1 | before);
        before = bits >> 63;
        const int count = __builtin_popcountll(turns);
#if defined(__AVX512VBMI2__) && defined(__AVX512BW__)
        static const unsigned char places[64] = {
            0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
            16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
            32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47,
            48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};
        const __m512i packed = _mm512_maskz_compress_epi8(turns, _mm512_loadu_si512(places));
        const __m512i base = _mm512_set1_epi32((int)at);
#define STORE(i)                                                                               \
    _mm512_storeu_si512(                                                                       \
        out + 16 * (i),                                                                        \
        _mm512_add_epi32(base, _mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(packed, i))))
        STORE(0);
        if (__builtin_expect(count > 16, 0)) {
            STORE(1);
            STORE(2);
            STORE(3);
        }
#else
        for (int done = 0; done == 0 || done < count; done += 16) {
            for (int i = 0; i < 16; i++, turns &= turns - 1) { /* too many are overwritten */
                out[done + i] = (uint32_t)at + (uint32_t)_tzcnt_u64(turns);
            }
        }
#endif
        out += count;
    }
    if ((out - edges) % 2 != 0) {
        *out++ = (uint32_t)size;
    }
    return (size_t)(out - edges) / 2;
}

static bool is_before(slot a, slot b)
{
    if (a >> 32 != b >> 32) {
        return a >> 32 < b >> 32;
    }
    const record *x = record_of(a), *y = record_of(b);
    const uint64_t left = gy_key_hash(x->key, x->size, gy_key_head_within(x->key, x->size));
    const uint64_t right = gy_key_hash(y->key, y->size, gy_key_head_within(y->key, y->size));
    if (left != right) {
        return left < right;
    }
    const int sign = memcmp(x->key, y->key, x->size < y->size ? x->size : y->size);
    return sign != 0 ? sign < 0 : x->size < y->size;
}

/* Nearly in order already; what wrapped around to the first slots is moved to the end. */
static void sort_slots(void)
{
    size_t free_at = 0, kept = 0, moved = 0;
    while (slots[free_at] != 0) {
        free_at++;
    }
    slot *wrapped = malloc((free_at + 1) * sizeof(*wrapped));
    if (wrapped == NULL) {
        die("malloc");
    }
    for (size_t i = 0; i < free_at; i++) {
        const bool is_wrapped = slots[i] >> shift > free_at;
        wrapped[moved] = slots[i];
        slots[kept] = slots[i];
        moved += is_wrapped;
        kept += !is_wrapped;
    }
    for (size_t i = free_at; i < capacity; i++) { /* which are taken cannot be guessed */
        slots[kept] = slots[i];
        kept += slots[i] != 0;
    }
    memcpy(slots + kept, wrapped, moved * sizeof(*wrapped));
    free(wrapped);
    for (size_t i = 1; i < used; i++) {
        const slot seen = slots[i];
        size_t to = i;
        for (; to > 0 && is_before(seen, slots[to - 1]); to--) {
            slots[to] = slots[to - 1];
        }
        slots[to] = seen;
    }
}

static void flush(int file, const char *data, size_t size)
{
    while (size > 0) {
        const ssize_t done = write(file, data, size);
        if (done < 0) {
            die("write");
        }
        data += done;
        size -= (size_t)done;
    }
}

static void write_part(int number, const slot *sorted, size_t count)
{
    static char out[OUT_BYTES];
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/part-%05d", folder, number);
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (file < 0) {
        die(path);
    }
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const record *seen = record_of(sorted[i]);
        if (i + AHEAD < count) {
            __builtin_prefetch(record_of(sorted[i + AHEAD]));
            __builtin_prefetch(record_of(sorted[i + AHEAD])->key + 56);
        }
        if (at + seen->size + 24 > OUT_BYTES) {
            flush(file, out, at);
            at = 0;
        }
        if (seen->size + 24 > OUT_BYTES) {
            flush(file, seen->key, seen->size);
        } else {
            memcpy(out + at, seen->key, seen->size);
            at += seen->size;
        }
        char digits[20];
        int first = sizeof(digits);
        uint64_t count_left = seen->count;
        do {
            digits[--first] = (char)('0' + count_left % 10);
            count_left /= 10;
        } while (count_left > 0);
        out[at++] = '\t';
        while (first < (int)sizeof(digits)) {
            out[at++] = digits[first++];
        }
        out[at++] = '\n';
    }
    flush(file, out, at);
    (void)close(file);
}

static void count_words(const char *text, size_t size)
{
    static uint32_t edges[CHUNK + 128];
    while (size > 0) {
        size_t part = size < CHUNK ? size : CHUNK;
        while (part < size && text[part - 1] != ' ' && text[part - 1] != '\n' &&
               text[part - 1] != '\t') {
            if (--part == 0) {
                (void)fprintf(stderr, "a word of more than %d bytes\n", CHUNK);
                exit(1);
            }
        }
        add(text, edges, find(text, part, edges));
        text += part;
        size -= part;
    }
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        (void)fprintf(stderr, "usage: bench_words_bound FILE FOLDER\n");
        return 2;
    }
    folder = argv[2];
    const int file = open(argv[1], O_RDONLY);
    struct stat about;
    if (file < 0 || fstat(file, &about) < 0) {
        die(argv[1]);
    }
    const size_t size = (size_t)about.st_size;
    const char *text =
        size == 0 ? "" : mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
    if (text == MAP_FAILED) {
        die(argv[1]);
    }
    for (; capacity < size / GUESS; capacity *= 2) { /* so that text hardly makes it grow */
        shift--;
    }
    if (size >= (size_t)8 << 30) {
        (void)fprintf(stderr, "a file of more than 8 GiB\n");
        return 1;
    }
    slots = space(capacity * sizeof(*slots));
    arena = space(4 * size + HUGE_PAGE);
    count_words(text, size);
    sort_slots();
    size_t half = 0;
    for (size_t low = 0, high = used; low < high; half = low) {
        const size_t middle = low + (high - low) / 2;
        if (slots[middle] >> 63 == 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    write_part(0, slots, half);
    write_part(1, slots + half, used - half);
    return 0;
}
