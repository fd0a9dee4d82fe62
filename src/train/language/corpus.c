#include "train/language/corpus_priv.h"

#include "train/report/gather.h"
#include "train/train_priv.h"

#include <string.h>

struct gy_corpus {
    gy_text texts;     /* of all samples, by (file, line) */
    size_t *begins;    /* of each sample and the end */
    int32_t *files;    /* of each sample */
    int64_t *parts[2]; /* the samples for training, for the test */
    int64_t counts[2];
    corpus_list list;
    gy_corpus_class classes[GY_LANGUAGE_COUNT];
};

const char *gy_language_name(gy_language language)
{
    static const char *const names[] = {
#define GY_X(name, text, folders) text,
        GY_LANGUAGE_LIST(GY_X)
#undef GY_X
    };
    GY_ASSERT((int)language >= 0 && language < GY_LANGUAGE_COUNT);
    return names[language];
}

gy_corpus_options gy_corpus_defaults(const gy_corpus_options *options)
{
    gy_corpus_options full = options != NULL ? *options : (gy_corpus_options){.root = NULL};
    full.root = full.root != NULL ? full.root : "/";
    full.class_bytes = full.class_bytes > 0 ? full.class_bytes : (int64_t)64 << 20;
    full.file_lines = full.file_lines > 0 ? full.file_lines : 60;
    full.class_lines = full.class_lines > 0 ? full.class_lines : 16000;
    full.test_percent = full.test_percent > 0 ? full.test_percent : 20;
    full.smallest_class = full.smallest_class > 0 ? full.smallest_class : 500;
    return full;
}

/* Once for all ranks. */
static void tell_left_out(const gy_corpus_options *options, const corpus_peers *peers,
                          const corpus_list *list)
{
    if (peers->rank == 0 && list->links + list->folders > 0) {
        gy_warn("corpus: left out of '%s': %lld links to files, %lld folders that cannot be "
                "entered",
                options->root, (long long)list->links, (long long)list->folders);
    }
}

/* A file that came or went while the ranks listed would shift every index after it. */
static gy_status check_lists(const corpus_peers *peers, const corpus_list *list)
{
    uint64_t mine[2] = {list->count, 0};
    for (size_t i = 0; i < list->count; i++) {
        mine[1] = gy_hash(list->files[i].path, strlen(list->files[i].path), mine[1]);
    }
    gy_text all = {.data = NULL};
    size_t begins[CORPUS_RANKS + 1];
    gy_status status = peers->gather(peers->arg, mine, sizeof(mine), &all, begins);
    for (int r = 0; r < peers->ranks && status == GY_OK; r++) {
        uint64_t other[2];
        memcpy(other, all.data + begins[r], sizeof(other));
        if (memcmp(other, mine, sizeof(mine)) != 0) {
            status = gy_fail(GY_MISMATCH,
                             "corpus: files changed while they were listed: rank %d found "
                             "%llu, rank %d found %llu: run again",
                             peers->rank, (unsigned long long)mine[0], r,
                             (unsigned long long)other[0]);
        }
    }
    gy_text_free(&all);
    return status;
}

/* Every rank's lines side by side, and the sums of what was read. */
static gy_status gather_lines(const corpus_peers *peers, const corpus_scan *scan,
                              gy_corpus_class *classes, gy_text *all)
{
    size_t begins[CORPUS_RANKS + 1];
    gy_text counts = {.data = NULL};
    gy_status status =
        peers->gather(peers->arg, scan->classes, sizeof(scan->classes), &counts, begins);
    for (int r = 0; r < peers->ranks && status == GY_OK; r++) {
        gy_corpus_class other[GY_LANGUAGE_COUNT];
        memcpy(other, counts.data + begins[r], sizeof(other));
        for (int k = 0; k < GY_LANGUAGE_COUNT; k++) {
            classes[k].files += other[k].files;
            classes[k].lines += other[k].lines;
            classes[k].bytes += other[k].bytes;
            classes[k].unreadable += other[k].unreadable;
            classes[k].binary += other[k].binary;
        }
    }
    gy_text_free(&counts);
    GY_TRY(status);
    return peers->gather(peers->arg, scan->lines, scan->count * sizeof(*scan->lines), all,
                         begins);
}

/* The samples' places, without their text. */
static gy_status make_samples(gy_corpus *corpus, const corpus_line *chosen, size_t count)
{
    corpus->begins = gy_alloc_zero("train.corpus", count + 1, sizeof(size_t));
    corpus->files = gy_alloc_zero("train.corpus", count + 1, sizeof(int32_t));
    corpus->parts[0] = gy_alloc_zero("train.corpus", count + 1, sizeof(int64_t));
    corpus->parts[1] = gy_alloc_zero("train.corpus", count + 1, sizeof(int64_t));
    if (corpus->begins == NULL || corpus->files == NULL || corpus->parts[0] == NULL ||
        corpus->parts[1] == NULL) {
        return GY_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        int part = corpus->list.files[chosen[i].file].is_test ? 1 : 0;
        corpus->files[i] = chosen[i].file;
        corpus->parts[part][corpus->counts[part]++] = (int64_t)i;
    }
    return GY_OK;
}

/* The chosen lines of this rank as (length, bytes) one after the other. Both lists are ordered
 * by (file, line). */
static void pack_texts(const corpus_peers *peers, const corpus_scan *scan,
                       const corpus_line *chosen, size_t count, gy_text *packed)
{
    size_t own = 0;
    for (size_t i = 0; i < count; i++) {
        if (chosen[i].file % peers->ranks != peers->rank) {
            continue;
        }
        while (scan->lines[own].file != chosen[i].file ||
               scan->lines[own].line != chosen[i].line) {
            own++;
            GY_ASSERT(own < scan->count);
        }
        uint16_t size = (uint16_t)(scan->begins[own + 1] - scan->begins[own]);
        gy_text_add_bytes(packed, &size, sizeof(size));
        gy_text_add_bytes(packed, scan->texts.data + scan->begins[own], size);
    }
}

static gy_status gather_texts(const corpus_peers *peers, const corpus_scan *scan,
                              const corpus_line *chosen, size_t count, gy_corpus *corpus)
{
    gy_text packed = {.data = NULL}, all = {.data = NULL};
    pack_texts(peers, scan, chosen, count, &packed);
    size_t begins[CORPUS_RANKS + 1];
    gy_status status = packed.status;
    if (status == GY_OK) {
        status = peers->gather(peers->arg, packed.data, packed.size_bytes, &all, begins);
    }
    for (size_t i = 0; i < count && status == GY_OK; i++) {
        size_t *next = &begins[chosen[i].file % peers->ranks];
        uint16_t size = 0;
        memcpy(&size, all.data + *next, sizeof(size));
        corpus->begins[i] = corpus->texts.size_bytes;
        gy_text_add_bytes(&corpus->texts, all.data + *next + sizeof(size), size);
        *next += sizeof(size) + size;
        status = corpus->texts.status;
    }
    corpus->begins[count] = corpus->texts.size_bytes;
    gy_text_free(&packed);
    gy_text_free(&all);
    return status;
}

static gy_status build(const gy_corpus_options *options, const corpus_peers *peers,
                       const corpus_scan *scan, gy_corpus *corpus)
{
    gy_text all = {.data = NULL};
    gy_status status = gather_lines(peers, scan, corpus->classes, &all);
    if (status != GY_OK) {
        gy_text_free(&all);
        return status;
    }
    void *place = all.data;
    corpus_line *lines = place;
    size_t chosen = 0;
    status = gy_corpus_select(options, &corpus->list, lines,
                              all.size_bytes / sizeof(corpus_line), corpus->classes, &chosen);
    if (status == GY_OK) {
        status = make_samples(corpus, lines, chosen);
    }
    if (status == GY_OK) {
        status = gather_texts(peers, scan, lines, chosen, corpus);
    }
    gy_text_free(&all);
    return status;
}

gy_status gy_corpus_read_with(const gy_corpus_options *options, const corpus_peers *peers,
                              gy_corpus **corpus)
{
    if (peers->ranks > CORPUS_RANKS) {
        return gy_fail(GY_LIMIT, "corpus: %d ranks, at most %d can share the reading",
                       peers->ranks, CORPUS_RANKS);
    }
    gy_corpus_options full = gy_corpus_defaults(options);
    gy_corpus *made = gy_alloc_zero("train.corpus", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    corpus_scan scan = {.count = 0};
    gy_status status = gy_corpus_list_files(&full, &made->list);
    if (status == GY_OK) {
        status = check_lists(peers, &made->list);
        tell_left_out(&full, peers, &made->list);
    }
    if (status == GY_OK) {
        status = gy_corpus_scan_files(&full, &made->list, peers->rank, peers->ranks, &scan);
    }
    if (status == GY_OK) {
        status = build(&full, peers, &scan, made);
    }
    gy_corpus_scan_free(&scan);
    if (status != GY_OK) {
        gy_corpus_free(made);
        return status;
    }
    *corpus = made;
    return GY_OK;
}

void gy_corpus_free(gy_corpus *corpus)
{
    if (corpus == NULL) {
        return;
    }
    gy_text_free(&corpus->texts);
    gy_free(corpus->begins);
    gy_free(corpus->files);
    gy_free(corpus->parts[0]);
    gy_free(corpus->parts[1]);
    gy_corpus_list_free(&corpus->list);
    gy_free(corpus);
}

int64_t gy_corpus_count(const gy_corpus *corpus, bool is_test)
{
    return corpus->counts[is_test ? 1 : 0];
}

gy_sample gy_corpus_sample(const gy_corpus *corpus, bool is_test, int64_t index)
{
    int part = is_test ? 1 : 0;
    GY_ASSERT(index >= 0 && index < corpus->counts[part]);
    int64_t place = corpus->parts[part][index];
    int32_t file = corpus->files[place];
    return (gy_sample){
        .text = corpus->texts.data + corpus->begins[place],
        .size_bytes = (int32_t)(corpus->begins[place + 1] - corpus->begins[place]),
        .label = corpus->list.files[file].label,
        .file = file,
    };
}

const gy_corpus_class *gy_corpus_class_of(const gy_corpus *corpus, gy_language language)
{
    GY_ASSERT((int)language >= 0 && language < GY_LANGUAGE_COUNT);
    return &corpus->classes[language];
}

const char *gy_corpus_path(const gy_corpus *corpus, int32_t file)
{
    GY_ASSERT(file >= 0 && (size_t)file < corpus->list.count);
    return corpus->list.files[file].path;
}

static gy_status gather_over_comm(void *arg, const void *mine, size_t size_bytes, gy_text *all,
                                  size_t *begins)
{
    return gy_train_gather_bytes(arg, mine, size_bytes, all, begins);
}

gy_status gy_corpus_read(const gy_corpus_options *options, gy_corpus **corpus)
{
    gy_comm *comm = options != NULL ? options->comm : NULL;
    corpus_peers peers = {.ranks = 1, .gather = gather_over_comm, .arg = comm};
    if (comm != NULL) {
        peers.rank = gy_comm_rank(comm);
        peers.ranks = gy_comm_size(comm);
    }
    gy_status status = gy_corpus_read_with(options, &peers, corpus);
    /* Too few files, or lists that differ, are seen by all; the rest by one rank alone. */
    bool is_common = status == GY_NOTFOUND || status == GY_MISMATCH || status == GY_LIMIT;
    return is_common ? status : gy_train_tell(comm, status);
}
