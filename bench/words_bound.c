/*
 * The bound under word count: what one thread does by hand. Memory-mapped input, a vector
 * tokeniser, open addressing with lookups in three waves of 16 that prefetch slot, then record,
 * slots in the order of hashes; writes the same two partitions as the engine does, word TAB
 * count, by hash, then word.
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
    uint64_t count;
    uint32_t size;
    char key[]; /* zeros up to 16 bytes */
} record;

typedef struct slot {
    uint64_t hash;
    record *record;
} slot;

typedef struct word {
    const char *data;
    gy_key_head head;
    uint64_t hash;
    record *found;
    uint32_t size;
} word;

static slot *slots;
static size_t capacity = 1 << 16, used;
static int shift = 48;
static char *arena;
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

static void grow(void)
{
    slot *old = slots;
    const size_t old_capacity = capacity;
    capacity *= 2;
    shift--;
    slots = space(capacity * sizeof(*slots));
    for (size_t i = 0; i < old_capacity; i++) {
        if (old[i].record != NULL) {
            size_t at = old[i].hash >> shift;
            while (slots[at].record != NULL) {
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
    for (; slots[at].record != NULL; at = (at + 1) & (capacity - 1)) {
        if (slots[at].hash == item->hash && is_same(slots[at].record, item)) {
            slots[at].record->count++;
            return;
        }
    }
    record *made = (void *)arena;
    const size_t key_room = item->size < 16 ? 16 : item->size;
    arena += (offsetof(record, key) + key_room + 7) & ~(size_t)7;
    made->count = 1;
    made->size = item->size;
    memcpy(made->key, &item->head, 16);
    if (item->size > 16) {
        memcpy(made->key + 16, item->data + 16, item->size - 16);
    }
    slots[at] = (slot){item->hash, made};
    if (++used * 2 > capacity) {
        grow();
    }
}

/* Two slots, by masks, which cannot be guessed wrong; `insert` finds what lies further. */
static inline void look(word *item)
{
    const size_t at = item->hash >> shift;
    const slot *first = &slots[at], *second = &slots[(at + 1) & (capacity - 1)];
    const uintptr_t is_first = 0 - (uintptr_t)(first->hash == item->hash);
    const uintptr_t is_second = 0 - (uintptr_t)(second->hash == item->hash);
    const uintptr_t found = ((uintptr_t)first->record & is_first) |
                            ((uintptr_t)second->record & is_second & ~is_first);
    item->found = (record *)found;
    __builtin_prefetch(
        (const void *)(found | ((uintptr_t)first & (0 - (uintptr_t)(found == 0)))));
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
            if (ready[j].found != NULL && is_same(ready[j].found, &ready[j])) {
                ready[j].found->count++;
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
        for (int i = 0; i < count; i++, turns &= turns - 1) {
            out[i] = (uint32_t)at + (uint32_t)__builtin_ctzll(turns);
        }
#endif
        out += count;
    }
    if ((out - edges) % 2 != 0) {
        *out++ = (uint32_t)size;
    }
    return (size_t)(out - edges) / 2;
}

static bool is_before(const slot *a, const slot *b)
{
    if (a->hash != b->hash) {
        return a->hash < b->hash;
    }
    const record *x = a->record, *y = b->record;
    const int sign = memcmp(x->key, y->key, x->size < y->size ? x->size : y->size);
    return sign != 0 ? sign < 0 : x->size < y->size;
}

/* Nearly in order already; what wrapped around to the first slots is moved to the end. */
static slot *sort_slots(void)
{
    size_t free_at = 0, kept = 0;
    while (slots[free_at].record != NULL) {
        free_at++;
    }
    slot *sorted = space((used + 2) * sizeof(*sorted));
    for (size_t i = 0; i < free_at; i++) {
        sorted[kept] = slots[i];
        kept += slots[i].hash >> shift <= free_at;
    }
    for (size_t i = free_at; i < capacity; i++) { /* which are taken cannot be guessed */
        sorted[kept] = slots[i];
        kept += slots[i].record != NULL;
    }
    for (size_t i = 0; i < free_at; i++) {
        sorted[kept] = slots[i];
        kept += slots[i].hash >> shift > free_at;
    }
    for (size_t i = 1; i < kept; i++) {
        const slot seen = sorted[i];
        size_t to = i;
        for (; to > 0 && is_before(&seen, &sorted[to - 1]); to--) {
            sorted[to] = sorted[to - 1];
        }
        sorted[to] = seen;
    }
    return sorted;
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
        const record *seen = sorted[i].record;
        if (i + AHEAD < count) {
            __builtin_prefetch(sorted[i + AHEAD].record);
            __builtin_prefetch(sorted[i + AHEAD].record->key + 52);
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
    slots = space(capacity * sizeof(*slots));
    arena = space(4 * size + HUGE_PAGE);
    count_words(text, size);
    const slot *sorted = sort_slots();
    size_t half = 0;
    for (size_t low = 0, high = used; low < high; half = low) {
        const size_t middle = low + (high - low) / 2;
        if (sorted[middle].hash >> 63 == 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    write_part(0, sorted, half);
    write_part(1, sorted + half, used - half);
    return 0;
}
