/* Makes preferred hosts of the hosts of HDFS blocks. */
#include "flow/memo/near.h"

#include "base/text.h"
#include "flow/memo/key.h"
#include "store/remote/remote.h"

#include <ctype.h>
#include <string.h>

enum { HOSTS_SEEN = 64, HOSTS_REQUESTED = 3, WORTH_BYTES = 1 << 20 };
static const double asking_s = 5, patience_s = 2;

typedef struct host_share {
    char name[GY_HOST_FILE_NAME];
    uint64_t bytes;
} host_share;

/* How many bytes of the prototype's ranges each host has. */
typedef struct shares {
    host_share rows[HOSTS_SEEN];
    size_t count;
    uint64_t begin, end; /* the current range */
} shares;

static bool is_name(const char *name)
{
    const size_t size = strlen(name);
    for (size_t i = 0; i < size; i++) {
        if (!isalnum((unsigned char)name[i]) && strchr(".-_", name[i]) == NULL) {
            return false;
        }
    }
    return size > 0 && size < GY_HOST_FILE_NAME;
}

static void add_share(shares *all, const char *name, uint64_t bytes)
{
    size_t at = 0;
    while (at < all->count && strcmp(all->rows[at].name, name) != 0) {
        at++;
    }
    if (at == HOSTS_SEEN || !is_name(name)) {
        return;
    }
    if (at == all->count) {
        memcpy(all->rows[all->count++].name, name, strlen(name) + 1);
    }
    all->rows[at].bytes += bytes;
}

static gy_status add_block(void *arg, const gy_place_block *block)
{
    shares *all = arg;
    const uint64_t from = GY_MAX(block->at, all->begin),
                   to = GY_MIN(block->at + block->size_bytes, all->end);
    for (size_t i = 0; from < to && i < block->host_count; i++) {
        add_share(all, block->hosts[i], to - from);
    }
    return GY_OK;
}

static gy_status ask(gy_near *near, const gy_file_range *range, uint64_t size, shares *all)
{
    const gy_place_options options = {.patience_s = patience_s};
    gy_place *place = NULL;
    GY_TRY(gy_place_open(near->env, range->path, &options, &place));
    all->begin = range->offset;
    all->end = range->offset + size;
    const gy_status status = gy_place_blocks(place, range->offset, size, add_block, all);
    gy_place_close(place);
    return status;
}

/* Add the shares of one file if it is large enough for a request. */
static gy_status look_at(gy_near *near, const char *text, shares *all)
{
    gy_file_range range;
    gy_place_facts facts;
    GY_TRY(gy_file_range_read(text, &range));
    if (!range.is_object || strncmp(range.path, "s3://", 5) == 0) {
        return GY_OK;
    }
    GY_TRY(gy_store_facts_of(near->env, range.path, &facts));
    const uint64_t left = facts.size_bytes - GY_MIN(range.offset, facts.size_bytes);
    const uint64_t size = GY_MIN(range.size_bytes, left);
    return size >= WORTH_BYTES ? ask(near, &range, size, all) : GY_OK;
}

static const host_share *most_of(shares *all)
{
    host_share *best = NULL;
    for (size_t i = 0; i < all->count; i++) {
        if (all->rows[i].bytes > 0 && (best == NULL || all->rows[i].bytes > best->bytes)) {
            best = &all->rows[i];
        }
    }
    return best;
}

/* The host "dn1.rack.example" may call itself "dn1"; an IP address has no short name. */
static void add_name(gy_text *out, const char *name)
{
    const size_t first = strcspn(name, ".");
    gy_text_add(out, "%s%s", out->size_bytes > 0 ? " " : "", name);
    if (name[first] != '\0' && name[strspn(name, "0123456789.")] != '\0') {
        gy_text_add(out, " %.*s", (int)first, name);
    }
}

static gy_status take_best(shares *all, gy_arena *arena, const char **hosts)
{
    gy_text names = {.data = NULL};
    for (int i = 0; i < HOSTS_REQUESTED; i++) {
        const host_share *best = most_of(all);
        if (best == NULL) {
            break;
        }
        add_name(&names, best->name);
        all->rows[best - all->rows].bytes = 0;
    }
    gy_status status = names.status;
    if (status == GY_OK && names.size_bytes > 0) {
        char *copy = gy_arena_alloc(arena, names.size_bytes + 1);
        status = copy != NULL ? GY_OK : GY_NOMEM;
        if (copy != NULL) {
            *hosts = memcpy(copy, gy_text_get(&names), names.size_bytes + 1);
        }
    }
    gy_text_free(&names);
    return status;
}

gy_status gy_objects_near(gy_near *near, const gy_proto *proto, gy_arena *arena,
                          const char **hosts)
{
    shares *all = gy_alloc_zero("flow.near", 1, sizeof(*all));
    gy_status status = all != NULL ? GY_OK : GY_NOMEM;
    *hosts = NULL;
    if (near->until_ns == 0) {
        near->until_ns = gy_env_deadline(near->env, asking_s).at_ns;
    }
    for (size_t i = 0; status == GY_OK && !near->is_over && proto->files[i] != NULL; i++) {
        status = look_at(near, proto->files[i], all);
        if (status < 0 && status != GY_NOMEM && status != GY_ARG) {
            gy_warn("vertices are placed without the locations of their inputs: %s",
                    gy_error_text());
            near->is_over = true;
            status = GY_OK;
        }
        near->is_over = near->is_over || gy_now_ns(near->env) > near->until_ns;
    }
    if (status == GY_OK) {
        status = take_best(all, arena, hosts);
    }
    gy_free(all);
    return status;
}
