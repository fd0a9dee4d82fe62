/*
 * Links and places as a file names them, one fact a line; `#` begins a comment line.
 *
 *   gyre links 1
 *   link ring ALPHA BETA           us, ns per byte: between ranks of one host
 *   link far ALPHA BETA            between hosts
 *   combine plain NS               ns per byte combined or copied
 *   host NAME RANKS                0-3,8: all ranks, each on one host; a host may have more
 * lines between HOST HOST ALPHA BETA   instead of far; back as well, unless that has its own
 * line
 *
 * The first three are lines of the table of `gyre tune`, which is read too (its first line says
 * which it is): what it says of other links and of choices is left out.
 */
#include "plan/plan_priv.h"

#include "base/base.h"
#include "base/lines.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES = 1 << 20, HOSTS = 1024, NAME_BYTES = 64 };

typedef struct pair_line {
    int32_t from, to;
    double alpha, beta;
} pair_line;

struct gy_plan_links {
    gy_links links;
    double beta_across;
    int ranks, hosts; /* 0: none are named */
    int32_t *host_of; /* (ranks); -1: not yet */
    size_t rank_capacity;
    double *alpha_between, *beta_between; /* (hosts, hosts); NULL: all alike */
};

typedef struct reader {
    gy_lines lines;
    gy_plan_links *made;
    bool is_table, has_near, has_far, has_gamma;
    char (*names)[NAME_BYTES]; /* (hosts) */
    size_t name_capacity;
    pair_line *pairs;
    size_t pair_count, pair_capacity;
} reader;

static gy_status read_figures(char *const words[2], double *alpha, double *beta)
{
    GY_TRY(gy_word_number(words[0], "alpha", alpha));
    GY_TRY(gy_word_number(words[1], "beta", beta));
    *alpha *= 1e-6;
    *beta *= 1e-9;
    return GY_OK;
}

static gy_status read_link(reader *from)
{
    static const char *const names[] = {"ring", "far", "word", "staged", "direct", "loopback"};
    enum { OF_MESSAGES = 2 };
    double alpha = 0, beta = 0;
    int link = 0;
    int count = from->is_table ? (int)GY_COUNT(names) : OF_MESSAGES;
    GY_TRY(gy_word_index(from->lines.words[1], "the link", names, count, &link));
    GY_TRY(read_figures(&from->lines.words[2], &alpha, &beta));
    bool *has = link == 0 ? &from->has_near : &from->has_far;
    if (link >= OF_MESSAGES) {
        return GY_OK;
    }
    if (*has) {
        return gy_fail(GY_FORMAT, "link %s is given twice", names[link]);
    }
    *has = true;
    if (link == 0) {
        from->made->links.alpha = alpha;
        from->made->links.beta = beta;
    } else {
        from->made->links.alpha_across = alpha;
        from->made->beta_across = beta;
    }
    return GY_OK;
}

static gy_status read_combine(reader *from)
{
    static const char *const names[] = {"plain", "half"};
    double gamma = 0;
    int type = 0;
    GY_TRY(
        gy_word_index(from->lines.words[1], "the type", names, from->is_table ? 2 : 1, &type));
    GY_TRY(gy_word_number(from->lines.words[2], "gamma", &gamma));
    if (type == 0 && from->has_gamma) {
        return gy_fail(GY_FORMAT, "combine plain is given twice");
    }
    if (type == 0) {
        from->has_gamma = true;
        from->made->links.gamma = gamma * 1e-9;
    }
    return GY_OK;
}

/* The number of a host; that of a new one is the number of those there are. */
static int host_number(const reader *from, const char *name)
{
    int host = 0;
    while (host < from->made->hosts && strcmp(from->names[host], name) != 0) {
        host++;
    }
    return host;
}

static gy_status add_host(reader *from, const char *name)
{
    size_t size = strlen(name);
    if (size >= NAME_BYTES) {
        return gy_fail(GY_FORMAT, "a host's name has %zu characters, at most %d", size,
                       NAME_BYTES - 1);
    }
    if (from->made->hosts == HOSTS) {
        return gy_fail(GY_FORMAT, "more than %d hosts", HOSTS);
    }
    GY_TRY(
        GY_GROW("plan.links", from->names, from->name_capacity, (size_t)from->made->hosts + 1));
    memcpy(from->names[from->made->hosts++], name, size + 1);
    return GY_OK;
}

static gy_status place(gy_plan_links *made, int rank, int host)
{
    GY_TRY(GY_GROW("plan.links", made->host_of, made->rank_capacity,
                   (size_t)GY_MAX(rank + 1, made->ranks)));
    while (made->ranks <= rank) {
        made->host_of[made->ranks++] = -1;
    }
    if (made->host_of[rank] >= 0) {
        return gy_fail(GY_FORMAT, "rank %d is placed twice", rank);
    }
    made->host_of[rank] = host;
    return GY_OK;
}

/* "3" or "0-3", cut off at a comma. */
static gy_status read_ranks(reader *from, char *text, int host)
{
    const int64_t all[2] = {0, GY_PLAN_RANKS - 1};
    char *dash = strchr(text, '-');
    int64_t first = 0, last = 0;
    if (dash != NULL) {
        *dash = '\0';
    }
    GY_TRY(gy_word_count(text, "the rank", all, &first));
    last = first;
    if (dash != NULL) {
        GY_TRY(
            gy_word_count(dash + 1, "the last rank", (const int64_t[]){first, all[1]}, &last));
    }
    for (int64_t rank = first; rank <= last; rank++) {
        GY_TRY(place(from->made, (int)rank, host));
    }
    return GY_OK;
}

static gy_status read_host(reader *from)
{
    int host = host_number(from, from->lines.words[1]);
    if (host == from->made->hosts) {
        GY_TRY(add_host(from, from->lines.words[1]));
    }
    for (char *at = from->lines.words[2]; at != NULL;) {
        char *comma = strchr(at, ',');
        if (comma != NULL) {
            *comma = '\0';
        }
        GY_TRY(read_ranks(from, at, host));
        at = comma == NULL ? NULL : comma + 1;
    }
    return GY_OK;
}

static gy_status read_between(reader *from)
{
    int hosts[2];
    for (int i = 0; i < 2; i++) {
        hosts[i] = host_number(from, from->lines.words[1 + i]);
        if (hosts[i] == from->made->hosts) {
            return gy_fail(GY_FORMAT, "no line above names a host \"%s\"",
                           from->lines.words[1 + i]);
        }
    }
    if (hosts[0] == hosts[1]) {
        return gy_fail(GY_FORMAT, "\"%s\" twice: what links cost inside hosts is link ring",
                       from->lines.words[1]);
    }
    GY_TRY(GY_GROW("plan.links", from->pairs, from->pair_capacity, from->pair_count + 1));
    pair_line *pair = &from->pairs[from->pair_count++];
    *pair = (pair_line){.from = hosts[0], .to = hosts[1]};
    return read_figures(&from->lines.words[3], &pair->alpha, &pair->beta);
}

static gy_status read_fact(reader *from)
{
    static const struct {
        const char *name;
        int words; /* 0: of the other form, or left out */
        int words_of_table;
        gy_status (*read)(reader *from);
    } kinds[] = {{"link", 4, 4, read_link}, {"combine", 3, 3, read_combine},
                 {"host", 3, 0, read_host}, {"between", 5, 0, read_between},
                 {"machine", 0, -1, NULL},  {"take", 0, -1, NULL},
                 {"end", 0, -1, NULL}};
    const char *name = from->lines.words[0];
    for (size_t i = 0; i < GY_COUNT(kinds); i++) {
        int words = from->is_table ? kinds[i].words_of_table : kinds[i].words;
        if (words == 0 || strcmp(name, kinds[i].name) != 0) {
            continue;
        }
        if (words < 0) {
            return GY_OK;
        }
        return from->lines.count == words
                   ? kinds[i].read(from)
                   : gy_fail(GY_FORMAT, "\"%s\" has %d words, expected %d", name,
                             from->lines.count, words);
    }
    return gy_fail(GY_FORMAT, "\"%s\" begins no line, expected %s", name,
                   from->is_table ? "link, combine, machine, take or end"
                                  : "link, combine, host or between");
}

static gy_status read_line(reader *from)
{
    const char *line = from->lines.line;
    if (from->lines.number == 1) {
        from->is_table = strcmp(line, "gyre tune 1") == 0;
        return from->is_table || strcmp(line, "gyre links 1") == 0
                   ? GY_OK
                   : gy_fail(GY_FORMAT, "expected \"gyre links 1\", or \"gyre tune 1\"");
    }
    bool is_left_out = line[0] == '#' || (from->is_table && strncmp(line, "machine ", 8) == 0);
    if (is_left_out) {
        return GY_OK;
    }
    GY_TRY(gy_line_split(&from->lines));
    return from->lines.count > 0 ? read_fact(from) : GY_OK;
}

/* Lines of one way are kept; where there is none the one of the way back holds. */
static gy_status fill_pairs(reader *from)
{
    gy_plan_links *made = from->made;
    size_t hosts = (size_t)made->hosts;
    uint8_t *given = gy_alloc_zero("plan.links", hosts * hosts, 1);
    made->alpha_between = gy_alloc("plan.links", hosts * hosts * sizeof(double));
    made->beta_between = gy_alloc("plan.links", hosts * hosts * sizeof(double));
    gy_status status =
        given == NULL || made->alpha_between == NULL || made->beta_between == NULL ? GY_NOMEM
                                                                                   : GY_OK;
    for (size_t i = 0; status == GY_OK && i < hosts * hosts; i++) {
        bool is_one = i / hosts == i % hosts;
        made->alpha_between[i] = is_one ? made->links.alpha : made->links.alpha_across;
        made->beta_between[i] = is_one ? made->links.beta : made->beta_across;
    }
    for (size_t i = 0; status == GY_OK && i < 2 * from->pair_count; i++) {
        const pair_line *pair = &from->pairs[i % from->pair_count];
        bool is_back = i >= from->pair_count;
        size_t at = is_back ? (size_t)pair->to * hosts + (size_t)pair->from
                            : (size_t)pair->from * hosts + (size_t)pair->to;
        if (given[at] != 0 && !is_back) {
            status = gy_fail(GY_FORMAT, "between %s and %s is given twice",
                             from->names[pair->from], from->names[pair->to]);
        } else if (given[at] == 0) {
            given[at] = !is_back;
            made->alpha_between[at] = pair->alpha;
            made->beta_between[at] = pair->beta;
        }
    }
    gy_free(given);
    return status;
}

static gy_status seal(reader *from)
{
    gy_plan_links *made = from->made;
    if (!from->has_near) {
        return gy_fail(GY_FORMAT, "the file ends without a line \"link ring\"");
    }
    for (int rank = 0; rank < made->ranks; rank++) {
        if (made->host_of[rank] < 0) {
            return gy_fail(GY_FORMAT, "rank %d is on no host, rank %d is", rank,
                           made->ranks - 1);
        }
    }
    if (!from->has_far) {
        made->links.alpha_across = made->links.alpha;
        made->beta_across = made->links.beta;
    }
    return from->pair_count > 0 ? fill_pairs(from) : GY_OK;
}

static gy_status read_all(reader *from)
{
    gy_status status = GY_OK;
    if (from->lines.size_bytes > FILE_BYTES) {
        return gy_fail(GY_FORMAT, "%zu bytes, at most %d", from->lines.size_bytes, FILE_BYTES);
    }
    while ((status = gy_line_next(&from->lines)) == GY_OK) {
        GY_TRY(read_line(from));
    }
    return status < 0 ? status : seal(from);
}

gy_status gy_plan_links_parse(const char *text, size_t size_bytes, const char *path,
                              gy_plan_links **links)
{
    reader from = {.lines = {.text = text, .size_bytes = size_bytes}};
    from.made = gy_alloc_zero("plan.links", 1, sizeof(*from.made));
    gy_status status = from.made == NULL ? GY_NOMEM : GY_OK;
    if (status == GY_OK) {
        from.made->links.gamma = -1; /* not given */
        status = read_all(&from);
    }
    gy_free(from.names);
    gy_free(from.pairs);
    if (status < 0) {
        gy_plan_links_free(from.made);
        return gy_fail_within(status == GY_NOMEM ? status : GY_FORMAT, "%s:%d", path,
                              from.lines.number);
    }
    *links = from.made;
    return GY_OK;
}

gy_status gy_plan_links_use(const gy_plan_links *links, gy_plan_query *query)
{
    bool is_placed = links->hosts > 0;
    if (is_placed && query->ranks != 0 && query->ranks != links->ranks) {
        return gy_fail(GY_ARG, "%d ranks, but the file of links places %d", query->ranks,
                       links->ranks);
    }
    double gamma = links->links.gamma < 0 ? query->links.gamma : links->links.gamma;
    query->links = links->links;
    query->links.gamma = gamma;
    query->beta_across = links->beta_across;
    if (is_placed) {
        query->ranks = links->ranks;
        query->hosts = links->hosts;
        query->host_of = links->host_of;
        query->beta_between = links->beta_between;
        query->links.alpha_between = links->alpha_between;
    }
    return GY_OK;
}

void gy_plan_links_free(gy_plan_links *links)
{
    if (links != NULL) {
        gy_free(links->host_of);
        gy_free(links->alpha_between);
        gy_free(links->beta_between);
        gy_free(links);
    }
}
