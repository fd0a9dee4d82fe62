/**
 * What the files of the stand-in's driver share. All of it is guarded by one lock, which
 * standin_enter takes.
 */
#ifndef GY_TESTS_CUDA_STANDIN_PRIV_H
#define GY_TESTS_CUDA_STANDIN_PRIV_H

#include "standin/standin.h"

#include <string.h>

/* What a library that is closed by now had poisoned where memory is mapped anew. */
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define STANDIN_FORGET(memory, bytes) __asan_unpoison_memory_region(memory, bytes)
#else
#define STANDIN_FORGET(memory, bytes) ((void)(memory))
#endif

/** Events of each stream and of the host that happened before something (Mattern 1989). */
typedef struct standin_clock {
    uint64_t at[STANDIN_STREAMS_MAX + 1];
} standin_clock;

/** A use of a block: who, when by its clock, by which call. */
typedef struct standin_use {
    int stream; /* -1: nobody */
    uint64_t tick;
    const char *by;
} standin_use;

/** Device memory, between guard pages and unreadable but while its work runs. */
typedef struct standin_block {
    gy_cuda_address address;
    size_t size_bytes;
    char *mapping;
    size_t mapping_bytes;
    bool is_alive, is_freed; /* freed: it waits for its stream */
    standin_use written, read[STANDIN_STREAMS_MAX];
} standin_block;

struct gy_cuda_event {
    bool is_alive;
    uint64_t recorded, done; /* generations */
    gy_cuda_stream *stream;  /* of the last record; NULL: it has happened */
    uint64_t place;          /* of the last record in it */
    standin_clock clock;
};

struct gy_cuda_module {
    bool is_alive;
    void *library;
    char words[512]; /* of its kernels' arguments: r, w pointer that is read, written; n number
                      */
};

typedef int (*standin_kernel)(const unsigned grid[3], const unsigned block[3],
                              unsigned shared_bytes, void **parameters);

struct gy_cuda_function {
    bool is_alive;
    gy_cuda_module *module;
    char name[64];
    standin_kernel run;
};

typedef enum standin_kind {
    STANDIN_COPY_IN,
    STANDIN_COPY_OUT,
    STANDIN_COPY_WITHIN,
    STANDIN_SET,
    STANDIN_RECORD,
    STANDIN_WAIT,
    STANDIN_FREE,
    STANDIN_LAUNCH,
    STANDIN_CALL
} standin_kind;

typedef struct standin_work {
    standin_kind kind;
    char *to; /* the host's address of what is device memory, too */
    const char *from;
    size_t size_bytes;
    unsigned char value;
    gy_cuda_event *event; /* that is recorded */
    uint64_t generation;
    gy_cuda_stream *behind; /* a wait: runs when `place` of that stream has; NULL: at once */
    uint64_t place;
    standin_block *blocks[32]; /* that become accessible while it runs */
    int block_count;
    void (*call)(const void *arguments);
    gy_cuda_function *function;
    unsigned grid[3], block[3], shared_bytes;
    uint64_t arguments[STANDIN_ARGUMENT_BYTES / sizeof(uint64_t)];
} standin_work;

struct gy_cuda_stream {
    bool is_alive;
    int index;
    standin_clock clock;
    gy_cuda_graph *graph;   /* that its work goes to while it is captured; else NULL */
    uint64_t begun, pushed; /* work [begun, pushed) waits in its ring */
    standin_work work[STANDIN_WORK_MAX];
};

struct gy_cuda_context {
    int device, holders;
    bool is_lost;
};

extern const gy_cuda_symbols standin_symbol;

/* Declared from the list that the driver is called by, so that the types agree. */
#define GY_X(member, symbol, parameters)                                                       \
    STANDIN_EXPORT int standin_##member parameters __asm__(symbol);
#include "ops/cuda/driver.def"
#undef GY_X

/* driver.c */
/** standin_enter of what works in the context of a device. */
int standin_enter_context(const char *symbol);
/** A complaint about the arguments of a call; its code. */
int standin_refuse(const char *symbol, const char *what);
/** Else a complaint. */
bool standin_is_stream(const gy_cuda_stream *stream, const char *symbol);

/* `work` gives the code when nothing has failed before. */
#define STANDIN(enter, member, parameters, work)                                               \
    int standin_##member parameters                                                            \
    {                                                                                          \
        int code = enter(standin_symbol.member);                                               \
        if (code == 0) {                                                                       \
            code = (work);                                                                     \
        }                                                                                      \
        return standin_leave(code);                                                            \
    }
/* What releases something does so whatever it returns, as the driver says of it. */
#define STANDIN_RELEASE(member, parameters, work)                                              \
    int standin_##member parameters                                                            \
    {                                                                                          \
        const int failure = standin_enter(standin_symbol.member);                              \
        const int code = (work);                                                               \
        return standin_leave(failure != 0 ? failure : code);                                   \
    }

/* order.c */
extern gy_cuda_stream standin_streams[STANDIN_STREAMS_MAX];
uint64_t standin_random(uint64_t bound);
/** Run up to `count` pieces of work that may run, of streams by chance; how many there were. */
int standin_run(int count);
/** The next piece of work of a stream: it is ordered behind what the host knows. */
standin_work *standin_push(gy_cuda_stream *stream, standin_kind kind);
/** The host has seen that this happened. */
void standin_host_saw(const standin_clock *clock);
/** Note that the last work of `stream` uses the block, and complain of what nothing orders. */
void standin_use_block(gy_cuda_stream *stream, standin_block *block, bool writes,
                       const char *by);
void standin_order_reset(uint64_t seed);
uint64_t standin_order_seed(void);
void standin_order_hold(unsigned streams);
/** The device is lost: what waits never runs. */
void standin_order_drop(void);

/* graph.c */
/** Complains where this thread captures a stream and the call is none that may be captured. */
void standin_capture_check(const char *symbol);
/** A call of this thread has failed: what it captures is invalid. */
void standin_capture_failed(void);
standin_work *standin_capture_push(gy_cuda_stream *stream, standin_kind kind);
void standin_capture_use(gy_cuda_stream *stream, const standin_block *block, bool writes,
                         const char *by);

/* memory.c */
/** The block that holds all of [address, address + size_bytes); else a complaint and NULL. */
standin_block *standin_block_of(gy_cuda_address address, size_t size_bytes, const char *by);
gy_status standin_block_new(size_t size_bytes, standin_block **block);
/** Its stream has come to the end of it. */
void standin_block_end(standin_block *block);
void standin_block_open(const standin_block *block, bool is_open);
size_t standin_memory_used(void);
size_t standin_memory_total(void);
int64_t standin_number(const char *variable, int64_t otherwise);

#endif
