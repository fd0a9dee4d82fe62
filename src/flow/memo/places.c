/* Decides on which hosts a prototype's vertices run best. */
#include "flow/memo/places.h"

#include "base/text.h"

#include <string.h>

static bool has(const char *hosts, const char *name, size_t length)
{
    for (const char *at = hosts; *(at += strspn(at, " ")) != '\0'; at += strcspn(at, " ")) {
        if (strcspn(at, " ") == length && memcmp(at, name, length) == 0) {
            return true;
        }
    }
    return false;
}

bool gy_flow_places_have(const char *hosts, const char *name)
{
    return has(hosts, name, strlen(name));
}

/* Keep those of `hosts` that are also among `more`. */
static void intersect(char *hosts, const char *more)
{
    size_t kept = 0;
    for (const char *at = hosts; *(at += strspn(at, " ")) != '\0';) {
        const size_t length = strcspn(at, " ");
        if (has(more, at, length)) {
            if (kept > 0) {
                hosts[kept++] = ' ';
            }
            memmove(hosts + kept, at, length);
            kept += length;
        }
        at += length;
    }
    hosts[kept] = '\0';
}

/* Find the hosts that have all files with a host name; *count: the number of such files. */
static gy_status find_holders(const gy_proto *proto, char hosts[GY_HOST_FILE_HOSTS],
                              uint32_t *count)
{
    *count = 0;
    for (size_t i = 0; proto->files != NULL && proto->files[i] != NULL; i++) {
        gy_file_range range;
        if (!gy_host_file_is(proto->files[i])) {
            continue;
        }
        GY_TRY(gy_file_range_read(proto->files[i], &range));
        if ((*count)++ == 0) {
            memcpy(hosts, range.hosts, strlen(range.hosts) + 1);
        } else {
            intersect(hosts, range.hosts);
        }
        if (hosts[0] == '\0') {
            return gy_fail(GY_ARG, "no host has all of its files: the others are not on %s",
                           range.hosts);
        }
    }
    return GY_OK;
}

static gy_status add_near(const gy_proto *proto, gy_text *hosts)
{
    for (size_t i = 0; proto->preferred_hosts != NULL && proto->preferred_hosts[i] != NULL;
         i++) {
        const size_t length = strlen(proto->preferred_hosts[i]);
        if (length == 0 || length >= GY_HOST_FILE_NAME ||
            strchr(proto->preferred_hosts[i], ' ') != NULL) {
            return gy_fail(GY_ARG, "\"%.80s\" is no name of a host: expected 1 to %d letters",
                           proto->preferred_hosts[i], GY_HOST_FILE_NAME - 1);
        }
        gy_text_add(hosts, "%s%s", i > 0 ? " " : "", proto->preferred_hosts[i]);
    }
    return hosts->status;
}

gy_status gy_flow_places_find(const gy_dag *dag, uint32_t proto, gy_arena *arena,
                              gy_proto_places *places)
{
    const gy_proto *row = &dag->protos[proto];
    char holders[GY_HOST_FILE_HOSTS] = "";
    uint32_t count = 0;
    gy_text hosts = {.data = NULL};
    gy_status status = find_holders(row, holders, &count);
    if (status == GY_OK && count > 0) {
        places->is_pinned = true;
        gy_text_add(&hosts, "%s", holders);
        status = hosts.status;
    } else if (status == GY_OK) {
        status = add_near(row, &hosts);
    }
    if (status == GY_OK && count > 0 && dag->is_running) {
        status = gy_fail(GY_UNSUPPORTED,
                         "a vertex of a refinement reads a file of %s: only vertices from the "
                         "job's start can be bound to hosts",
                         holders);
    }
    if (status == GY_OK && hosts.size_bytes > 0) {
        char *copy = gy_arena_alloc(arena, hosts.size_bytes + 1);
        status = copy != NULL ? GY_OK : GY_NOMEM;
        if (copy != NULL) {
            places->hosts = memcpy(copy, gy_text_get(&hosts), hosts.size_bytes + 1);
        }
    }
    gy_text_free(&hosts);
    return status < 0
               ? gy_fail_within(status, "%s[%u]", dag->stages[row->stage].name, row->base)
               : GY_OK;
}
