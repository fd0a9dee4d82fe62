/* Clusters: one that need not exist, described as text; the hosts and links of ranks that do.
 */
#include "graph/simulate/simulate.h"

#include "coll/coll.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PER_HOST_MAX = 1024 };

/* ---- the description ---- */

typedef enum key_kind {
    KEY_COUNT,
    KEY_SPEED,
    KEY_TIME,
    KEY_FLOPS,
    KEY_SIZE,
    KEY_WORD
} key_kind;

static const struct {
    const char *name;
    key_kind kind;
    size_t offset;
    double low, high;
    const char *expected;
} keys[] = {
#define PLACE(member) offsetof(gy_virtual_cluster, member)
#define SPEED         "a speed from 1kB/s to 1000TB/s such as 450GB/s or 400Gbit/s"
#define TIME          "a time from 1ns to 1s such as 5us"
    {"hosts", KEY_COUNT, PLACE(hosts), 1, GY_PLAN_RANKS, "1 to 65536"},
    {"gpus", KEY_COUNT, PLACE(ranks_per_host), 1, PER_HOST_MAX, "1 to 1024 ranks of a host"},
    {"near", KEY_SPEED, PLACE(near_bytes_s), 1e3, 1e15, SPEED},
    {"far", KEY_SPEED, PLACE(far_bytes_s), 1e3, 1e15, SPEED},
    {"near-latency", KEY_TIME, PLACE(near_latency_s), 1e-9, 1, TIME},
    {"far-latency", KEY_TIME, PLACE(far_latency_s), 1e-9, 1, TIME},
    {"flops", KEY_FLOPS, PLACE(flops_s), 1e6, 1e18,
     "operations a second from 1M to 1000P such as 400T"},
    {"bandwidth", KEY_SPEED, PLACE(memory_bytes_s), 1e3, 1e15, SPEED},
    {"memory", KEY_SIZE, PLACE(memory_bytes), 1, 1e15, "a size up to 1000TB such as 80GB"},
#undef PLACE
#undef SPEED
#undef TIME
};

static gy_status refuse_key(const char *name)
{
    size_t nearest = 0;
    GY_ASSERT(name != NULL);
    for (size_t i = 1; i < GY_COUNT(keys); i++) {
        if (gy_text_distance(name, keys[i].name, false) <
            gy_text_distance(name, keys[nearest].name, false)) {
            nearest = i;
        }
    }
    return gy_fail(
        GY_ARG,
        "cluster: no setting '%s', the nearest is %s: expected hosts, gpus, near, far, "
        "near-latency, far-latency, flops, bandwidth or memory",
        name, keys[nearest].name);
}

/* What a unit multiplies by; 0: it is none of the kind. */
static double factor_of(key_kind kind, const char *unit)
{
    GY_ASSERT(unit != NULL);
    static const struct {
        const char *prefix;
        double factor;
    } prefixes[] = {{"", 1},        {"k", 1e3},     {"K", 1e3},    {"M", 1e6},
                    {"G", 1e9},     {"T", 1e12},    {"P", 1e15},   {"Ki", 0x1p10},
                    {"Mi", 0x1p20}, {"Gi", 0x1p30}, {"Ti", 0x1p40}};
    static const struct {
        const char *suffix;
        key_kind kind;
        double factor;
    } suffixes[] = {{"", KEY_FLOPS, 1},
                    {"", KEY_SIZE, 1},
                    {"B", KEY_SIZE, 1},
                    {"B/s", KEY_SPEED, 1},
                    {"bit/s", KEY_SPEED, 0.125}};
    static const struct {
        const char *name;
        double factor;
    } times[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
    for (size_t i = 0; kind == KEY_TIME && i < GY_COUNT(times); i++) {
        if (strcmp(unit, times[i].name) == 0) {
            return times[i].factor;
        }
    }
    for (size_t i = 0; kind != KEY_TIME && i < GY_COUNT(prefixes); i++) {
        const size_t length = strlen(prefixes[i].prefix);
        if (strncmp(unit, prefixes[i].prefix, length) != 0) {
            continue;
        }
        for (size_t k = 0; k < GY_COUNT(suffixes); k++) {
            if (suffixes[k].kind == kind && strcmp(unit + length, suffixes[k].suffix) == 0) {
                return prefixes[i].factor * suffixes[k].factor;
            }
        }
    }
    return kind == KEY_COUNT && *unit == '\0' ? 1 : 0;
}

static bool take_number(size_t key, const char *value, gy_virtual_cluster *cluster)
{
    char *end = NULL;
    GY_ASSERT(key < GY_COUNT(keys));
    GY_ASSERT(keys[key].low > 0);
    if (!isdigit((unsigned char)value[0]) || value[1] == 'x' || value[1] == 'X') {
        return false;
    }
    const double number = strtod(value, &end), scaled = number * factor_of(keys[key].kind, end);
    void *place = (char *)cluster + keys[key].offset;
    if (!(scaled >= keys[key].low && scaled <= keys[key].high)) {
        return false;
    }
    if (keys[key].kind == KEY_COUNT) {
        *(int *)place = (int)scaled;
        return floor(scaled) == scaled;
    }
    if (keys[key].kind == KEY_SIZE) {
        *(uint64_t *)place = (uint64_t)scaled;
    } else {
        *(double *)place = scaled;
    }
    return true;
}

static gy_status take_setting(size_t key, const char *value, gy_virtual_cluster *cluster)
{
    GY_ASSERT(key < GY_COUNT(keys) && value != NULL);
    return take_number(key, value, cluster)
               ? GY_OK
               : gy_fail(GY_ARG, "cluster: %s is '%s': expected %s", keys[key].name, value,
                         keys[key].expected);
}

gy_status gy_simulate_cluster_check(const gy_virtual_cluster *cluster)
{
    GY_ASSERT(cluster->hosts >= 1 && cluster->ranks_per_host >= 1);
    const int64_t ranks = (int64_t)cluster->hosts * cluster->ranks_per_host;
    if (ranks > GY_PLAN_RANKS) {
        return gy_fail(GY_ARG, "cluster: %d hosts of %d ranks are %lld: expected up to %d",
                       cluster->hosts, cluster->ranks_per_host, (long long)ranks,
                       GY_PLAN_RANKS);
    }
    if (cluster->hosts > 1 && cluster->far_bytes_s == 0) {
        return gy_fail(GY_ARG,
                       "cluster: %d hosts and no speed between them: expected such as "
                       "far=50GB/s",
                       cluster->hosts);
    }
    return GY_OK;
}

/* Hosts that do not exist have no shared memory whose speed is known. */
static gy_status check_near(const gy_virtual_cluster *cluster)
{
    GY_ASSERT(cluster->hosts >= 1);
    if (cluster->hosts > 1 && cluster->ranks_per_host > 1 && cluster->near_bytes_s == 0) {
        return gy_fail(GY_ARG,
                       "cluster: %d ranks of a host and no speed between them: expected "
                       "such as near=450GB/s",
                       cluster->ranks_per_host);
    }
    return GY_OK;
}

/* The next "key=value" of the text, which ends at a comma. */
static gy_status parse_setting(char *setting, bool *is_given, gy_virtual_cluster *cluster)
{
    char *value = strchr(setting, '=');
    size_t key = 0;
    GY_ASSERT(is_given != NULL);
    if (value == NULL) {
        return gy_fail(GY_ARG, "cluster: '%s': expected KEY=VALUE, such as gpus=8", setting);
    }
    *value++ = '\0';
    while (key < GY_COUNT(keys) && strcmp(setting, keys[key].name) != 0) {
        key++;
    }
    if (key == GY_COUNT(keys)) {
        return refuse_key(setting);
    }
    if (is_given[key]) {
        return gy_fail(GY_ARG, "cluster: %s is given twice: expected once", setting);
    }
    is_given[key] = true;
    return take_setting(key, value, cluster);
}

/* The settings of the text over those of `made`, which is changed. */
static gy_status parse_all(const char *text, bool *is_given, gy_virtual_cluster *made)
{
    gy_status status = GY_OK;
    char *copy = gy_copy_text("graph.simulate", text);
    if (copy == NULL) {
        return GY_NOMEM;
    }
    char *at = copy;
    GY_ASSERT(made->hosts >= 1);
    while (status >= 0 && at != NULL) {
        char *end = strchr(at, ',');
        if (end != NULL) {
            *end++ = '\0';
        }
        status = parse_setting(at, is_given, made);
        at = end;
    }
    gy_free(copy);
    return status;
}

static const gy_virtual_cluster one_rank = {
    .hosts = 1, .ranks_per_host = 1, .near_latency_s = 2e-6, .far_latency_s = 5e-6};

gy_status gy_virtual_cluster_parse(const char *text, gy_virtual_cluster *cluster)
{
    GY_ASSERT(text != NULL && cluster != NULL);
    bool is_given[GY_COUNT(keys)] = {false};
    gy_virtual_cluster made = one_rank;
    GY_TRY(parse_all(text, is_given, &made));
    GY_TRY(gy_simulate_cluster_check(&made));
    GY_TRY(check_near(&made));
    *cluster = made;
    return GY_OK;
}

gy_status gy_virtual_cluster_adjust(const char *text, gy_virtual_cluster *cluster)
{
    enum { HOSTS, GPUS };
    GY_ASSERT(text != NULL && cluster != NULL);
    bool is_given[GY_COUNT(keys)] = {false};
    gy_virtual_cluster made = *cluster;
    const int ranks = gy_virtual_cluster_ranks(cluster);
    GY_ASSERT(strcmp(keys[HOSTS].name, "hosts") == 0 && strcmp(keys[GPUS].name, "gpus") == 0);
    GY_TRY(parse_all(text, is_given, &made));
    if (is_given[HOSTS] != is_given[GPUS]) { /* one follows from the other */
        made.hosts = is_given[HOSTS] ? made.hosts : GY_MAX(ranks / made.ranks_per_host, 1);
        made.ranks_per_host =
            is_given[HOSTS] ? GY_MAX(ranks / made.hosts, 1) : made.ranks_per_host;
    }
    if ((int64_t)made.hosts * made.ranks_per_host != ranks) {
        return gy_fail(GY_ARG,
                       "cluster: %d host%s of %d rank%s, and there are %d ranks: expected such "
                       "as hosts=%d,gpus=%d",
                       made.hosts, made.hosts == 1 ? "" : "s", made.ranks_per_host,
                       made.ranks_per_host == 1 ? "" : "s", ranks, cluster->hosts,
                       cluster->ranks_per_host);
    }
    GY_TRY(gy_simulate_cluster_check(&made));
    *cluster = made;
    return GY_OK;
}

/* Are hosts' ranks as many on each, and side by side? */
static bool is_even(const gy_comm *comm)
{
    const int ranks = gy_comm_size(comm), hosts = gy_comm_host_count(comm);
    GY_ASSERT(hosts >= 1 && hosts <= ranks);
    for (int rank = 0; rank < ranks && ranks % hosts == 0; rank++) {
        if (gy_comm_host(comm, rank) != rank / (ranks / hosts)) {
            return false;
        }
    }
    return ranks % hosts == 0;
}

/* Of ranks of one host that do not share memory. */
static void take_near(const gy_comm *comm, gy_virtual_cluster *cluster)
{
    const gy_links links = gy_coll_links(comm);
    GY_ASSERT(gy_comm_host_count(comm) == 1);
    if (gy_comm_size(comm) > 1 && links.alpha > 0 && links.beta > 0) {
        cluster->near_latency_s = links.alpha;
        cluster->near_bytes_s = 1 / links.beta;
    }
}

gy_status gy_virtual_cluster_of(gy_comm *comm, gy_virtual_cluster *cluster)
{
    gy_virtual_cluster made = one_rank;
    GY_ASSERT(cluster != NULL);
    made.ranks_per_host = comm != NULL ? gy_comm_size(comm) : 1;
    if (made.ranks_per_host > 1 && gy_comm_host_count(comm) == 1) {
        take_near(comm, &made);
    } else if (made.ranks_per_host > 1) {
        gy_comm *host = NULL;
        const gy_links far = gy_coll_links(comm);
        GY_ASSERT(far.alpha > 0 && far.beta > 0);
        made.hosts = is_even(comm) ? gy_comm_host_count(comm) : gy_comm_size(comm);
        made.ranks_per_host = gy_comm_size(comm) / made.hosts;
        made.far_latency_s = far.alpha;
        made.far_bytes_s = 1 / far.beta;
        GY_TRY(gy_comm_split(comm, gy_comm_host(comm, gy_comm_rank(comm)), gy_comm_rank(comm),
                             &host));
        take_near(host, &made);
        gy_comm_free(host);
    }
    *cluster = made;
    return GY_OK;
}

int gy_virtual_cluster_ranks(const gy_virtual_cluster *cluster)
{
    GY_ASSERT(cluster->hosts >= 1 && cluster->ranks_per_host >= 1);
    return cluster->hosts * cluster->ranks_per_host;
}
