/*
 * Lecture A's question to a web server's log: which are the five most popular pages?
 *
 *     cc popular.c -lgyre -o popular
 *     ./popular LOG FOLDER
 *
 * One graph made by hand, its vertices joined by FIFOs: no file between. popular_jobs.c asks
 * the same by two MapReduce jobs, popular.sql by a query. The answer is written to
 * FOLDER/top-00000 and printed.
 */
#define _GNU_SOURCE
#include <gyre/gyre.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Pass a failure up. */
#define TRY(call)                                                                              \
    do {                                                                                       \
        gy_status status_ = (call);                                                            \
        if (status_ != GY_OK) {                                                                \
            return status_;                                                                    \
        }                                                                                      \
    } while (0)

enum { COUNTERS = 2, TOP = 5, PATH_BYTES = 4096, PART_BYTES = PATH_BYTES + 64 };

/* ---- pages and their numbers of requests ---- */

typedef struct pages {
    struct page {
        char *name; /* (size) bytes of any kind; NULL: a free slot */
        size_t size;
        int64_t count;
    } * items; /* (slots) open addressing */
    size_t slots, used;
} pages;

/* A vertex without memory ends; the job's manager reports which one. */
static void *take(void *memory)
{
    if (memory == NULL) {
        abort();
    }
    return memory;
}

static size_t hash(const char *name, size_t size)
{
    size_t sum = 14695981039346656037u;
    for (size_t i = 0; i < size; i++) {
        sum = (sum ^ (unsigned char)name[i]) * 1099511628211u;
    }
    return sum ^ sum >> 29;
}

static struct page *find(pages *all, const char *name, size_t size)
{
    size_t at = hash(name, size) & (all->slots - 1);
    while (all->items[at].name != NULL &&
           (all->items[at].size != size || memcmp(all->items[at].name, name, size) != 0)) {
        at = (at + 1) & (all->slots - 1);
    }
    return &all->items[at];
}

static void add(pages *all, const char *name, size_t size, int64_t count)
{
    if (all->used * 2 >= all->slots) {
        const pages old = *all;
        all->slots = old.slots > 0 ? old.slots * 2 : 1024;
        all->items = take(calloc(all->slots, sizeof(*all->items)));
        for (size_t i = 0; i < old.slots; i++) {
            if (old.items[i].name != NULL) {
                *find(all, old.items[i].name, old.items[i].size) = old.items[i];
            }
        }
        free(old.items);
    }
    struct page *page = find(all, name, size);
    if (page->name == NULL) {
        page->name = take(malloc(size + 1)); /* never of 0 bytes */
        page->size = size;
        memcpy(page->name, name, size);
        all->used++;
    }
    page->count += count;
}

static int by_count(const void *a, const void *b)
{
    const struct page *x = a, *y = b;
    if (x->name == NULL || y->name == NULL) {
        return (x->name == NULL) - (y->name == NULL);
    }
    if (x->count != y->count) {
        return x->count < y->count ? 1 : -1;
    }
    const int order = memcmp(x->name, y->name, x->size < y->size ? x->size : y->size);
    return order != 0 ? order : (x->size > y->size) - (x->size < y->size);
}

/* "COUNT PAGE" a line, the most popular first, `most` of them; by hash to the outputs. */
static gy_status write_pages(gy_vertex *vertex, pages *all, size_t most)
{
    char number[32];
    if (all->used > 0) { /* else there is nothing to sort */
        qsort(all->items, all->slots, sizeof(*all->items), by_count);
    }
    for (size_t i = 0; i < all->slots && all->items[i].name != NULL && i < most; i++) {
        const struct page *page = &all->items[i];
        const size_t to = hash(page->name, page->size) >> 32;
        const int output = (int)(to % (size_t)gy_vertex_outputs(vertex));
        /* A page's name may have any length, so it is not printed into the buffer. */
        snprintf(number, sizeof(number), "%lld ", (long long)page->count);
        TRY(gy_vertex_write(vertex, output, number, strlen(number)));
        TRY(gy_vertex_write(vertex, output, page->name, page->size));
        TRY(gy_vertex_write(vertex, output, "\n", 1));
    }
    for (size_t i = 0; i < all->slots; i++) {
        free(all->items[i].name);
    }
    free(all->items);
    return GY_OK;
}

/* ---- vertices ---- */

typedef void (*line_work)(pages *all, const char *line, size_t size);

/* The beginning of a line whose end is in a later chunk of the input. */
typedef struct begun {
    char *data;
    size_t used, room;
} begun;

static void keep(begun *line, const char *data, size_t size)
{
    if (line->room - line->used < size) {
        line->room = 2 * (line->used + size);
        line->data = take(realloc(line->data, line->room));
    }
    memcpy(line->data + line->used, data, size);
    line->used += size;
}

/* Call for each line of an input, which is read in chunks; the last line may have no end. */
static gy_status each_line(gy_vertex *vertex, int input, line_work work, pages *all)
{
    begun line = {0};
    size_t size = 1;
    while (size > 0) {
        const void *data = NULL;
        const gy_status status = gy_vertex_read(vertex, input, &data, &size);
        if (status < 0) {
            free(line.data);
            return status;
        }
        for (const char *at = data, *end = at + size; at < end;) {
            const char *stop = memchr(at, '\n', (size_t)(end - at));
            const size_t more = (size_t)((stop != NULL ? stop : end) - at);
            if (line.used == 0 && stop != NULL) {
                work(all, at, more);
            } else {
                keep(&line, at, more);
                if (stop != NULL) {
                    work(all, line.data, line.used);
                    line.used = 0;
                }
            }
            at += more + (stop != NULL);
        }
    }
    if (line.used > 0) {
        work(all, line.data, line.used);
    }
    free(line.data);
    return GY_OK;
}

/* …"GET /page HTTP/1.1"… */
static void count_page(pages *all, const char *line, size_t size)
{
    const char *get = memmem(line, size, "\"GET ", 5);
    if (get != NULL) {
        const char *page = get + 5;
        const char *end = memchr(page, ' ', (size_t)(line + size - page));
        add(all, page, (size_t)((end != NULL ? end : line + size) - page), 1);
    }
}

static void add_page(pages *all, const char *line, size_t size)
{
    const char *blank = memchr(line, ' ', size);
    if (blank != NULL) {
        add(all, blank + 1, (size_t)(line + size - blank - 1), strtoll(line, NULL, 10));
    }
}

/* Count the pages of a part of the log. */
static gy_status count(gy_vertex *vertex)
{
    pages all = {0};
    TRY(each_line(vertex, 0, count_page, &all));
    gy_vertex_count(vertex, "pages seen by counters", (int64_t)all.used);
    return write_pages(vertex, &all, SIZE_MAX);
}

/* Sum the counts of all inputs; the parameter is the number of pages to output. */
static gy_status sum(gy_vertex *vertex)
{
    pages all = {0};
    size_t bytes = 0;
    const int64_t *most = gy_vertex_parameter(vertex, &bytes);
    for (int i = 0; i < gy_vertex_inputs(vertex); i++) {
        TRY(each_line(vertex, i, add_page, &all));
    }
    return write_pages(vertex, &all, (size_t)*most);
}

/* ---- graphs ---- */

/* The log in COUNTERS parts that end with lines: "path:offset:size". */
static int split(const char *path, char parts[COUNTERS][PART_BYTES])
{
    uint64_t size = 0; /* of the version that the job will read */
    if (gy_flow_input(path, &size) < 0) {
        fprintf(stderr, "%s\n", gy_error_text());
        return 1;
    }
    FILE *log = fopen(path, "r");
    if (log == NULL) {
        perror(path);
        return 1;
    }
    int64_t begin = 0;
    for (int i = 0; i < COUNTERS; i++) {
        int64_t end = (int64_t)size;
        if (i + 1 < COUNTERS && fseek(log, (long)(size / COUNTERS) * (i + 1), SEEK_SET) == 0) {
            for (int letter = 0; letter != '\n' && letter != EOF;) {
                letter = fgetc(log);
            }
            end = ftell(log) < end ? ftell(log) : end;
            end = end > begin ? end : begin;
        }
        if (snprintf(parts[i], PART_BYTES, "%s:%lld:%lld", path, (long long)begin,
                     (long long)(end - begin)) >= PART_BYTES) {
            fprintf(stderr, "%s: the path is too long\n", path);
            fclose(log);
            return 1;
        }
        begin = end;
    }
    return fclose(log);
}

static gy_part counters(gy_dag *dag, char parts[COUNTERS][PART_BYTES])
{
    const char *files[COUNTERS][2];
    gy_vertex_options options[COUNTERS];
    for (int i = 0; i < COUNTERS; i++) {
        files[i][0] = parts[i];
        files[i][1] = NULL;
        options[i] =
            (gy_vertex_options){.function = "count", .outputs = COUNTERS, .files = files[i]};
    }
    return gy_dag_vertices(dag, options, COUNTERS);
}

static gy_part sums(gy_dag *dag, const char *stage)
{
    static const int64_t most = TOP;
    return gy_dag_vertex(dag, &(gy_vertex_options){.function = "sum",
                                                   .stage = stage,
                                                   .parameter = &most,
                                                   .parameter_bytes = sizeof(most),
                                                   .inputs = GY_PORTS_ANY,
                                                   .outputs = 1});
}

/* count >> sum >= top, all at once: counters and sums in pairs, by the pages' hash. */
static gy_status one_graph(gy_flow *flow, char parts[COUNTERS][PART_BYTES], const char *folder)
{
    gy_dag *dag = NULL;
    TRY(gy_dag_new(flow, "popular pages", &dag));
    gy_part sum_each = gy_part_clone(sums(dag, "sum"), COUNTERS);
    gy_part all = gy_part_bipartite(counters(dag, parts), sum_each, GY_CHANNEL_FIFO);
    all = gy_part_pointwise(all, sums(dag, "top"), GY_CHANNEL_FIFO);
    gy_part_output(all, "top");
    gy_flow_bars bars = {.file = STDERR_FILENO}; /* drawn on a terminal alone */
    const gy_flow_options options = {.output = folder,
                                     .processes = 2 * COUNTERS + 1,
                                     .progress = gy_flow_bars_draw,
                                     .progress_arg = &bars};
    const gy_status status = gy_flow_run(flow, dag, &options, NULL);
    gy_dag_free(dag);
    return status;
}

int main(int argc, char **argv)
{
    static const gy_function functions[] = {GY_VERTEX("count", count), GY_VERTEX("sum", sum)};
    gy_flow *flow = NULL;
    const gy_status started = gy_flow_start(&argc, &argv, functions, 2, &flow);
    if (started !=
        GY_OK) { /* GY_DONE: this process has run vertices of the job, all it is for */
        return started < 0 ? fprintf(stderr, "popular: %s\n", gy_error_text()), 1 : 0;
    }
    static char parts[COUNTERS][PART_BYTES];
    char path[PART_BYTES];
    if (argc != 3) {
        return fprintf(stderr, "usage: popular LOG FOLDER\n"), 2;
    }
    const char *folder = argv[2];
    if (strlen(folder) + 16 > PATH_BYTES) {
        return fprintf(stderr, "popular: the path of the folder is too long\n"), 2;
    }
    if (split(argv[1], parts) != 0) {
        return 1;
    }
    if (one_graph(flow, parts, folder) < 0) {
        return fprintf(stderr, "popular: %s\n", gy_error_text()), 1;
    }
    gy_flow_end(flow);
    snprintf(path, sizeof(path), "%s/top-00000", folder);
    FILE *top = fopen(path, "r");
    for (int letter = top != NULL ? fgetc(top) : EOF; letter != EOF; letter = fgetc(top)) {
        putchar(letter);
    }
    return top == NULL || fclose(top) != 0;
}
