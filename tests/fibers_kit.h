/**
 * Several calls in one thread, each of which can stop in the middle while others go on: every
 * order of their steps can be told. A fiber is used again for the next call.
 */
#ifndef GY_TESTS_FIBERS_KIT_H
#define GY_TESTS_FIBERS_KIT_H

#include <stdbool.h>
#include <ucontext.h>

#include "gy_test.h"

#ifdef GYRE_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef GYRE_TSAN
#include <sanitizer/tsan_interface.h>
#endif

enum { FIBER_STACK_BYTES = 256 << 10 };

typedef struct fiber {
    ucontext_t at;
    char *stack;
    void (*body)(void *arg);
    void *arg;
    bool is_busy; /* its body has begun and not ended */
    void *known;  /* to a sanitizer */
} fiber;

static ucontext_t fibers_home;
static fiber *fiber_now; /* NULL: none, the test itself */
#ifdef GYRE_TSAN
static void *fibers_home_known;
#endif
#ifdef GYRE_ASAN
static const void *fibers_home_stack;
static size_t fibers_home_bytes;
#endif

/* What a sanitizer must be told around a switch; `to` NULL: to the test itself. */
static inline void fiber_switch(fiber *from, fiber *to)
{
    ucontext_t *left = from != NULL ? &from->at : &fibers_home;
    ucontext_t *right = to != NULL ? &to->at : &fibers_home;
    fiber_now = to;
#ifdef GYRE_ASAN
    void *own = NULL;
    __sanitizer_start_switch_fiber(&own, to != NULL ? to->stack : fibers_home_stack,
                                   to != NULL ? (size_t)FIBER_STACK_BYTES : fibers_home_bytes);
    assert_int_equal(swapcontext(left, right), 0);
    __sanitizer_finish_switch_fiber(own, NULL, NULL);
#else
#ifdef GYRE_TSAN
    __tsan_switch_to_fiber(to != NULL ? to->known : fibers_home_known, 0);
#endif
    assert_int_equal(swapcontext(left, right), 0);
#endif
}

static inline void fiber_live(void)
{
    fiber *own = fiber_now;
#ifdef GYRE_ASAN
    __sanitizer_finish_switch_fiber(NULL, &fibers_home_stack, &fibers_home_bytes);
#endif
    for (;;) {
        own->body(own->arg);
        own->is_busy = false;
        fiber_switch(own, NULL);
    }
}

/* Begin a call; nothing of it runs before fiber_step. */
static inline void fiber_begin(fiber *which, void (*body)(void *arg), void *arg)
{
    assert_false(which->is_busy);
    which->body = body;
    which->arg = arg;
    which->is_busy = true;
    if (which->stack != NULL) {
        return;
    }
    which->stack = test_malloc(FIBER_STACK_BYTES);
    assert_int_equal(getcontext(&which->at), 0);
    which->at.uc_stack.ss_sp = which->stack;
    which->at.uc_stack.ss_size = FIBER_STACK_BYTES;
    makecontext(&which->at, fiber_live, 0);
#ifdef GYRE_TSAN
    fibers_home_known = __tsan_get_current_fiber();
    which->known = __tsan_create_fiber(0);
#endif
}

/* Let it go on to its next stop or its end. */
static inline void fiber_step(fiber *which)
{
    assert_true(which->is_busy && fiber_now == NULL);
    fiber_switch(NULL, which);
}

/* In a fiber: stop here; outside of all: nothing. */
static inline void fiber_stop(void)
{
    if (fiber_now != NULL) {
        fiber_switch(fiber_now, NULL);
    }
}

/* Of one that has no call under way. */
static inline void fiber_free(fiber *which)
{
    assert_false(which->is_busy);
    test_free(which->stack);
    which->stack = NULL;
#ifdef GYRE_TSAN
    if (which->known != NULL) {
        __tsan_destroy_fiber(which->known);
    }
#endif
}

#endif
