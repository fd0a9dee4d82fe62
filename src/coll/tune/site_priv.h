/** Inside room coll: where a communicator's ranks run and what was measured there (a site), and
 * which algorithm a call takes there. A site is equal on all ranks of a communicator. */
#ifndef GY_COLL_TUNE_SITE_PRIV_H
#define GY_COLL_TUNE_SITE_PRIV_H

#include "coll/coll.h"

/** The kinds of memory that a call's bytes pass through. */
typedef enum gy_memory {
    GY_MEMORY_PRIVATE, /* private buffers of ranks that share memory */
    GY_MEMORY_REGISTERED,
    GY_MEMORY_MESSAGES, /* ranks that share no memory */
    GY_MEMORY_COUNT
} gy_memory;

/** Classes of element types that combine at one speed. */
typedef enum gy_type_class { GY_TYPE_PLAIN, GY_TYPE_HALF, GY_TYPE_CLASSES } gy_type_class;

typedef enum gy_link_class {
    GY_LINK_WORD,   /* a mark seen by a peer: alpha alone */
    GY_LINK_STAGED, /* a peer's staging */
    GY_LINK_DIRECT, /* a peer's registered memory */
    GY_LINK_RING,   /* messages through shared memory */
    GY_LINK_LOOPBACK,
    GY_LINK_FAR, /* messages between hosts */
    GY_LINK_CLASSES
} gy_link_class;

typedef struct gy_link_figures {
    double alpha, beta; /* s, s per byte */
    bool is_measured;
} gy_link_figures;

/** The algorithm from so many bytes on, until the next rule of its kind. */
typedef struct gy_rule {
    gy_operation operation;
    gy_type_class type;
    gy_memory memory;
    int ranks, hosts;
    int64_t from_bytes; /* of the whole vector */
    const gy_algorithm *row;
    char parameter[GY_PLAN_PARAMETER];
    double seconds; /* measured at the first size that it won */
    int line;       /* of the file */
} gy_rule;

/** The rules of one kind, by their sizes. */
typedef struct gy_rules {
    const gy_rule *first;
    size_t count;
} gy_rules;

enum { GY_MACHINE_BYTES = 200, GY_RULES_MAX = 8192, GY_TABLE_BYTES_MAX = 1 << 20 };

/** A table of `gyre tune`. */
typedef struct gy_tuning {
    char machine[GY_MACHINE_BYTES]; /* the machine that it was measured on */
    gy_link_figures links[GY_LINK_CLASSES];
    double gamma[GY_TYPE_CLASSES]; /* s per byte combined; 0: not measured */
    gy_rule *rules;                /* sorted: rules of one kind follow each other */
    size_t count, capacity;
    uint32_t hash; /* of all fields above */
    char *path;    /* NULL: not from a file */
} gy_tuning;

/** Names that GYRE_COLL forces. */
typedef struct gy_forced {
    const char *names[GY_OPERATION_COUNT]; /* NULL: chosen */
    char *text;
    uint32_t hash; /* 0: nothing is forced */
} gy_forced;

typedef enum gy_reason {
    GY_REASON_NONE, /* no algorithm was found */
    GY_REASON_FORCED,
    GY_REASON_MEASURED,
    GY_REASON_BUILT_IN,
    GY_REASON_MODEL,
    GY_REASON_ONLY, /* the first algorithm that keeps the order */
} gy_reason;

typedef struct gy_pick {
    const gy_algorithm *row;
    char parameter[GY_PLAN_PARAMETER];
    gy_reason reason;
    double seconds; /* measured near this size, or predicted; 0: not known */
} gy_pick;

/** What a pick depends on beside the site. */
typedef struct gy_need_of {
    gy_operation operation;
    gy_plan_order order; /* the order of contributions that the reduction needs */
    gy_type_class type;
    gy_memory memory;
    bool is_known;         /* all ranks know all counts */
    bool is_longest_known; /* all ranks know the longest part, which is enough for staging */
    bool fits_library;     /* the library that started the ranks can run it */
    int64_t bytes;         /* of the whole vector */
} gy_need_of;

typedef struct gy_site {
    int ranks;
    bool has_shared;     /* all ranks share memory */
    bool is_crowded;     /* their host has fewer cores than ranks */
    int loop_cores;      /* all ranks are on one host and reach each other by its loopback: the
                            number of cores if there are fewer than ranks; else 0 */
    gy_link_class near;  /* messages inside a host */
    gy_topology hosts;   /* hosts.hosts 1: host_of is NULL */
    size_t region_bytes; /* staging of a channel */
    const gy_tuning *tuning; /* NULL: built-in figures */
    const gy_forced *forced; /* NULL: nothing */
    int32_t *host_of;        /* the site's own */
    int32_t *stage_slots; /* (algorithms) staging slots that each uses here; 0: not known yet */
    gy_rules rules[GY_OPERATION_COUNT][GY_TYPE_CLASSES][GY_MEMORY_COUNT];
    uint64_t logged[GY_OPERATION_COUNT]; /* bit set of the sizes that were logged */
} gy_site;

/* site.c */
/** Make a site of ranks on the hosts host_of (ranks); NULL: all on one. The table may change
 * what links cost. GY_NOMEM */
GY_MUST_CHECK gy_status gy_site_init(gy_site *site, int ranks, const int32_t *host_of,
                                     const gy_tuning *tuning);
void gy_site_fini(gy_site *site);
/** Return the topology for plan requests; NULL: one host. */
static inline const gy_topology *gy_site_topology(const gy_site *site)
{
    GY_ASSERT(site->hosts.hosts >= 1);
    return site->hosts.hosts > 1 ? &site->hosts : NULL;
}
/** Return what links cost an algorithm on this site. */
gy_links gy_site_links(const gy_site *site, gy_need need, gy_type_class type);
/** Test whether the algorithm can do what is needed on this site. */
bool gy_site_allows(const gy_site *site, const gy_need_of *need, const gy_algorithm *row);
/** Test whether the row gives the same bits as the other rows. Used for ranks that share
 * memory: all their folds are the left fold by rank, with halves in float32. */
bool gy_row_keeps_bits(const gy_algorithm *row);
/** Pick the algorithm; reason NONE: no algorithm keeps the order. GY_NOMEM */
GY_MUST_CHECK gy_status gy_site_pick(gy_site *site, const gy_need_of *need, gy_pick *pick);
/** Write the pick's name: "staged", "hierarchy:tree+ring". */
const char *gy_pick_name(const gy_pick *pick, char out[64]);
/** Write the pick's reason: "measured, 12 us". */
const char *gy_pick_why(const gy_pick *pick, char out[64]);
/** Return the algorithm by messages that ranks of one host take without a table and a forced
 * name. */
const char *gy_site_message_name(gy_operation operation, int64_t bytes);

/** Find the row of that name, a plan's or the library's; NULL: no row has it. */
const gy_algorithm *gy_row_find(gy_operation operation, const char *name);
/** Like gy_algorithm_parse, and knows the library's row too. */
GY_MUST_CHECK gy_status gy_row_parse(gy_operation operation, const char *text,
                                     const gy_algorithm **row,
                                     char parameter[GY_PLAN_PARAMETER]);
/** Return the row of the library that started the ranks; NULL: it cannot run the operation. */
const gy_algorithm *gy_library_row(gy_operation operation);

/* predict.c */
/** Pick the cheapest of the possible algorithms by the model; reason NONE: no plan could be
 * priced. */
GY_MUST_CHECK gy_status gy_site_predict(gy_site *site, const gy_need_of *need, gy_pick *pick);
/** List the possible algorithms, up to `most`; returns how many. */
int gy_site_candidates(const gy_site *site, const gy_need_of *need, gy_pick *picks, int most);
/** Return the seconds that the model predicts for a pick; INFINITY: its plan is too long. */
GY_MUST_CHECK gy_status gy_site_price(gy_site *site, const gy_need_of *need,
                                      const gy_pick *pick, double *seconds);

/* cut.c */
/** How a vector is cut. */
typedef struct gy_pieces {
    int chunks;        /* of one leg */
    int64_t leg, legs; /* elements (of each part) */
} gy_pieces;
/** Cut `count` elements (of each part) of element_bytes bytes each. */
GY_MUST_CHECK gy_status gy_site_cut(gy_site *site, const gy_pick *pick, int64_t count,
                                    int64_t element_bytes, gy_pieces *pieces);
/** Return the maximum of bytes of a block. */
GY_MUST_CHECK gy_status gy_site_chunk_bytes(gy_site *site, const gy_algorithm *row,
                                            int64_t *bytes);

/* forced.c */
/** Parse GYRE_COLL's value; NULL forces nothing. GY_ARG: its text lists the known names. */
GY_MUST_CHECK gy_status gy_forced_parse(const char *text, gy_forced *forced);
void gy_forced_fini(gy_forced *forced);
/** Parse GYRE_COLL. */
GY_MUST_CHECK gy_status gy_forced_from_environment(gy_forced *forced);

/* table.c */
/** Read a table's text; messages name `path`. GY_FORMAT names the line; GY_NOMEM */
GY_MUST_CHECK gy_status gy_tuning_parse(const char *text, size_t size_bytes, const char *path,
                                        gy_tuning *tuning);
void gy_tuning_print(const gy_tuning *tuning, gy_text *out);
GY_MUST_CHECK gy_status gy_tuning_add(gy_tuning *tuning, const gy_rule *rule);
/** Sort the rules and hash the table. GY_FORMAT: two rules have one kind and size; GY_NOMEM */
GY_MUST_CHECK gy_status gy_tuning_seal(gy_tuning *tuning);
void gy_tuning_fini(gy_tuning *tuning);
/** Select the rules of a kind (operation, type, memory) that were measured with this number of
 * ranks or, on one host, with up to twice or half as many. */
gy_rules gy_tuning_select(const gy_tuning *tuning, const gy_rule *kind, int ranks, int hosts);
/** Return the rule for a size; NULL: `rules` is empty. */
const gy_rule *gy_rules_find(gy_rules rules, int64_t bytes);
const char *gy_memory_name(gy_memory memory);
const char *gy_type_name(gy_type_class type);
const char *gy_link_name(gy_link_class link);

/* show.c */
/** Write what links cost, for people to read. */
void gy_tuning_show_links(const gy_tuning *tuning, gy_text *out);

/* file.c */
/** Write this machine as tables name it. */
const char *gy_machine_text(char out[GY_MACHINE_BYTES]);
/** Write the path of the file that is read where none is named. GY_ARG: neither XDG_CONFIG_HOME
 * nor HOME is set. */
GY_MUST_CHECK gy_status gy_tuning_path(char *out, size_t size_bytes);
/** Return GYRE_TUNE's value; NULL: it is not set or "none". */
const char *gy_tuning_named(void);
/**
 * Open the table at `name`; NULL: GYRE_TUNE's, else the usual file if it exists and is of this
 * machine (`warns`: the log of a table of another machine is a warning, else info). *tuning
 * becomes NULL where no table is used.
 * @return GY_OK; GY_ARG, GY_FORMAT, GY_IO, GY_NOTFOUND
 */
GY_MUST_CHECK gy_status gy_tuning_open(const char *name, gy_env *env, bool warns,
                                       gy_tuning **tuning);
GY_MUST_CHECK gy_status gy_tuning_read(const char *path, gy_env *env, gy_tuning **tuning);
/** Write the file in one rename, so that a reader sees the old table or the new one. */
GY_MUST_CHECK gy_status gy_tuning_write(const gy_tuning *tuning, const char *path, gy_env *env);
void gy_tuning_free(gy_tuning *tuning);

#endif
