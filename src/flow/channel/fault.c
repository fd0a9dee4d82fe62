/* The signal handler of faults. It runs on the faulting thread, on an alternate stack. It
 * first writes the board, which alone decides; then it tries to send a backtrace by datagram;
 * then the process dies by the same signal. The handler neither allocates nor locks, and a
 * fault within the handler kills the process at once. */
#include "base/base.h"
#include "flow/channel/fault_priv.h"

#include <assert.h>
#include <errno.h>
#include <execinfo.h>
#include <link.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    STACK_BYTES = 256 << 10, /* unwinding C++ or sanitized frames takes more than SIGSTKSZ */
    FRAMES_MOST = 48,
    MODULES_MOST = 64,
    TICKS = 4, /* a record times out when so many ticks of the timer saw it */
};

typedef struct module {
    uintptr_t first, end, base;
    char path[256];
} module;

struct gy_fault {
    int socket; /* -1: none */
    struct sigaction before[8];
    int module_count;
    module modules[MODULES_MOST];
};

static const int caught[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM};

static _Atomic(gy_fault *) installed;
static pthread_key_t thread_key;
static pthread_once_t thread_key_once = PTHREAD_ONCE_INIT;

/* What a thread reuses for its next tasks. */
typedef struct fault_thread {
    void *stack;
    stack_t before;
    sigset_t mask_before;
    timer_t timer;
    bool has_timer;
    int64_t period_ns; /* period of the timer; 0: it is stopped */
} fault_thread;

static _Thread_local gy_fault_task *volatile current;

/* ---- the handler ---- */

static void add_text(char *out, size_t *size, size_t capacity, const char *text)
{
    for (; *text != '\0' && *size + 1 < capacity; text++) {
        out[(*size)++] = *text;
    }
    out[*size] = '\0';
}

static void add_hex(char *out, size_t *size, size_t capacity, uintptr_t value)
{
    char digits[20] = "0x";
    int count = 1;
    while (count < 16 && value >> (4 * count) != 0) {
        count++;
    }
    for (int i = 0; i < count; i++) {
        digits[2 + i] = "0123456789abcdef"[value >> (4 * (count - 1 - i)) & 15];
    }
    digits[2 + count] = '\0';
    add_text(out, size, capacity, digits);
}

/* "FILE+0xOFFSET" a line: the receiving process has the files mapped at other addresses. */
static void describe(const gy_fault *fault, void *const *frames, int count,
                     gy_crash_report *crash_report)
{
    size_t size = 0;
    for (int i = 0; i < count; i++) {
        uintptr_t address = (uintptr_t)frames[i];
        const module *in = NULL;
        for (int m = 0; m < fault->module_count && in == NULL; m++) {
            bool is_in = address >= fault->modules[m].first && address < fault->modules[m].end;
            in = is_in ? &fault->modules[m] : NULL;
        }
        add_text(crash_report->backtrace, &size, sizeof(crash_report->backtrace),
                 in != NULL ? in->path : "?");
        add_text(crash_report->backtrace, &size, sizeof(crash_report->backtrace), "+");
        add_hex(crash_report->backtrace, &size, sizeof(crash_report->backtrace),
                address - (in != NULL ? in->base : 0));
        add_text(crash_report->backtrace, &size, sizeof(crash_report->backtrace), "\n");
    }
}

static void copy_path(gy_fault_board *board, const char *path)
{
    size_t size = strlen(path), kept = GY_MIN(size, sizeof(board->text) - 1);
    memcpy(board->text, path + (size - kept), kept + 1);
}

/* SIGBUS within a mapped file: the file was shortened, so no record is to blame. */
static bool is_of_a_file(const gy_fault_task *task, const siginfo_t *info)
{
    const char *address = info->si_addr;
    const gy_fault_span *spans = atomic_load_explicit(&task->spans, memory_order_relaxed);
    uint32_t count = atomic_load_explicit(&task->span_count, memory_order_relaxed);
    for (uint32_t i = 0; i < count; i++) {
        const gy_fault_span *span = &spans[i];
        /* the kernel reports the address or the start of its page */
        size_t end = gy_round_up(span->size_bytes, 4096);
        if (address >= span->data && address < span->data + end) {
            gy_fault_board *board = task->board;
            copy_path(board, span->path);
            atomic_store_explicit(&board->input, span->input, memory_order_relaxed);
            atomic_store_explicit(&board->mapped, span->kind, memory_order_relaxed);
            return true;
        }
    }
    return false;
}

static void report_crash(const gy_fault_task *task, int number)
{
    const gy_fault *fault = task->fault;
    const gy_fault_board *board = task->board;
    if (fault->socket < 0) {
        return;
    }
    gy_crash_report crash_report; /* uses 3 KiB of the handler's own stack */
    memset(&crash_report, 0, sizeof(crash_report));
    crash_report.id = task->id;
    crash_report.member = task->member;
    crash_report.signal = number;
    crash_report.place.source = atomic_load_explicit(&board->source, memory_order_relaxed);
    crash_report.place.offset = atomic_load_explicit(&board->offset, memory_order_relaxed);
    void *frames[FRAMES_MOST];
    describe(fault, frames, backtrace(frames, FRAMES_MOST), &crash_report);
    (void)send(fault->socket, &crash_report, sizeof(crash_report),
               /* the datagram may be lost, which costs only the backtrace */
               MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Raise the same signal again, this time with the default action. */
static void die(int number)
{
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t open;
    sigemptyset(&open);
    sigaddset(&open, number);
    (void)sigaction(number, &plain, NULL);
    (void)syscall(SYS_tgkill, getpid(), gettid(), number);
    (void)pthread_sigmask(SIG_UNBLOCK, &open, NULL);
}

static void handle(int number, siginfo_t *info, void *context)
{
    (void)context;
    const gy_fault_task *task = current;
    current = NULL; /* a further fault belongs to no vertex */
    if (task != NULL && task->pid == getpid()) {
        gy_fault_board *board = task->board;
        if (number != SIGBUS || !is_of_a_file(task, info)) {
            atomic_store_explicit(&board->is_timeout, number == SIGALRM, memory_order_relaxed);
        }
        atomic_store_explicit(&board->signal, number, memory_order_release);
        struct sigaction plain = {.sa_handler = SIG_DFL}; /* unwinding may fault */
        for (size_t i = 0; i < GY_COUNT(caught); i++) {
            (void)sigaction(caught[i], &plain, NULL);
        }
        report_crash(task, number);
    }
    die(number);
}

/* A tick of the thread's timer: a record that TICKS ticks saw has timed out. */
static void tick(int number, siginfo_t *info, void *context)
{
    gy_fault_task *task = current;
    if (info->si_code != SI_TIMER) { /* another process sent the signal on purpose */
        handle(number, info, context);
        return;
    }
    if (task == NULL || task->timeout_ns == 0) {
        return;
    }
    uint64_t records = atomic_load_explicit(&task->board->records, memory_order_relaxed);
    bool is_at_work =
        atomic_load_explicit(&task->board->has_place, memory_order_relaxed) != 0 &&
        !atomic_load_explicit(&task->is_waiting, memory_order_relaxed);
    task->ticks = is_at_work && records == task->ticked_records ? task->ticks + 1 : 0;
    task->ticked_records = records;
    if (task->ticks > TICKS) {
        handle(number, info, context);
    }
}

/* ---- a thread ---- */

static void leave_thread(void *arg)
{
    fault_thread *own = arg;
    if (own->has_timer) {
        (void)timer_delete(own->timer);
    }
    (void)sigaltstack(&own->before, NULL);
    (void)pthread_sigmask(SIG_SETMASK, &own->mask_before, NULL);
    GY_ASSERT(munmap(own->stack, STACK_BYTES) == 0);
    gy_free(own);
}

static void make_key(void)
{
    GY_ASSERT(pthread_key_create(&thread_key, leave_thread) == 0);
}

static gy_status enter_thread(fault_thread **out)
{
    fault_thread *own = gy_alloc_zero("flow.fault", 1, sizeof(*own));
    if (own == NULL) {
        return GY_NOMEM;
    }
    own->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (own->stack == MAP_FAILED) {
        gy_free(own);
        return gy_fail(GY_NOMEM, "no memory for a stack of signals");
    }
    stack_t stack = {.ss_sp = own->stack, .ss_size = STACK_BYTES};
    sigset_t open;
    sigemptyset(&open);
    for (size_t i = 0; i < GY_COUNT(caught); i++) {
        sigaddset(&open, caught[i]);
    }
    GY_ASSERT(sigaltstack(&stack, &own->before) == 0);
    GY_ASSERT(pthread_sigmask(SIG_UNBLOCK, &open, &own->mask_before) == 0);
    GY_ASSERT(pthread_setspecific(thread_key, own) == 0);
    *out = own;
    return GY_OK;
}

static gy_status arm(fault_thread *own, int64_t timeout_ns)
{
    int64_t period_ns = timeout_ns > 0 ? GY_MAX(timeout_ns / TICKS, (int64_t)1) : 0;
    if (period_ns == own->period_ns) {
        return GY_OK;
    }
    if (!own->has_timer) {
        struct sigevent event;
        memset(&event, 0, sizeof(event));
        event.sigev_notify = SIGEV_THREAD_ID;
        event.sigev_signo = SIGALRM;
        event._sigev_un._tid = gettid();
        if (timer_create(CLOCK_MONOTONIC, &event, &own->timer) != 0) {
            return gy_fail(GY_IO, "no timer for records: %s", strerrordesc_np(errno));
        }
        own->has_timer = true;
    }
    struct timespec period = {.tv_sec = period_ns / 1000000000,
                              .tv_nsec = period_ns % 1000000000};
    struct itimerspec times = {.it_interval = period, .it_value = period};
    GY_ASSERT(timer_settime(own->timer, 0, &times, NULL) == 0);
    own->period_ns = period_ns;
    return GY_OK;
}

gy_status gy_fault_enter(gy_fault_task *task)
{
    fault_thread *own = pthread_getspecific(thread_key);
    if (own == NULL) {
        GY_TRY(enter_thread(&own));
    }
    GY_ASSERT(own != NULL);
    GY_TRY(arm(own, task->timeout_ns));
    task->is_in = true;
    task->pid = getpid();
    atomic_signal_fence(memory_order_seq_cst);
    current = task;
    return GY_OK;
}

void gy_fault_leave(gy_fault_task *task)
{
    if (task->is_in) {
        current = NULL;
        atomic_signal_fence(memory_order_seq_cst);
        task->is_in = false;
    }
    gy_free(atomic_load_explicit(&task->spans, memory_order_relaxed));
    atomic_store_explicit(&task->spans, NULL, memory_order_relaxed);
}

gy_status gy_fault_watch(gy_fault_task *task, const gy_fault_span *span)
{
    uint32_t count = atomic_load_explicit(&task->span_count, memory_order_relaxed);
    gy_fault_span *old = atomic_load_explicit(&task->spans, memory_order_relaxed);
    if (count == task->span_capacity) { /* the handler may read the old array until then */
        size_t capacity = task->span_capacity > 0 ? task->span_capacity * 2 : 8;
        gy_fault_span *spans = gy_alloc("flow.spans", capacity * sizeof(*spans));
        if (spans == NULL) {
            return GY_NOMEM;
        }
        if (count > 0) {
            memcpy(spans, old, count * sizeof(*spans));
        }
        atomic_store_explicit(&task->spans, spans, memory_order_relaxed);
        task->span_capacity = capacity;
        gy_free(old);
        old = spans;
    }
    old[count] = *span;
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&task->span_count, count + 1, memory_order_relaxed);
    return GY_OK;
}

void gy_fault_unwatch(gy_fault_task *task, const char *data)
{
    uint32_t count = atomic_load_explicit(&task->span_count, memory_order_relaxed);
    gy_fault_span *spans = atomic_load_explicit(&task->spans, memory_order_relaxed);
    for (uint32_t i = 0; i < count; i++) {
        if (spans[i].data == data) {
            atomic_store_explicit(&task->span_count, count - 1, memory_order_relaxed);
            atomic_signal_fence(memory_order_seq_cst);
            spans[i] = spans[count - 1];
            return;
        }
    }
}

/* ---- the process ---- */

static int note_module(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    gy_fault *fault = arg;
    if (fault->module_count == MODULES_MOST) {
        return 1;
    }
    module *to = &fault->modules[fault->module_count];
    to->base = info->dlpi_addr;
    to->first = UINTPTR_MAX;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_LOAD) {
            to->first = GY_MIN(to->first, (uintptr_t)(info->dlpi_addr + part->p_vaddr));
            to->end =
                GY_MAX(to->end, (uintptr_t)(info->dlpi_addr + part->p_vaddr + part->p_memsz));
        }
    }
    if (info->dlpi_name != NULL && info->dlpi_name[0] != '\0') {
        size_t bytes = GY_MIN(strlen(info->dlpi_name), sizeof(to->path) - 1);
        memcpy(to->path, info->dlpi_name, bytes);
    } else if (readlink("/proc/self/exe", to->path, sizeof(to->path) - 1) < 0) {
        memcpy(to->path, "?", 2);
    }
    fault->module_count += to->first < to->end ? 1 : 0;
    return 0;
}

static void catch_all(gy_fault *fault)
{
    struct sigaction ours;
    memset(&ours, 0, sizeof(ours));
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigemptyset(&ours.sa_mask);
    for (size_t i = 0; i < GY_COUNT(caught); i++) {
        ours.sa_sigaction = caught[i] == SIGALRM ? tick : handle;
        GY_ASSERT(sigaction(caught[i], &ours, &fault->before[i]) == 0);
    }
}

gy_status gy_fault_open(const char *folder, gy_fault **fault)
{
    static_assert(GY_COUNT(caught) <= 8, "room for what was before");
    gy_fault *none = NULL;
    gy_fault *made = gy_alloc_zero("flow.fault", 1, sizeof(*made));
    if (made == NULL) {
        return GY_NOMEM;
    }
    if (!atomic_compare_exchange_strong_explicit(&installed, &none, made, memory_order_acq_rel,
                                                 memory_order_acquire)) {
        gy_free(made);
        return gy_fail(GY_STATE, "faults are caught in this process already");
    }
    (void)pthread_once(&thread_key_once, make_key);
    made->socket = folder != NULL ? gy_fault_call(folder) : -1;
    (void)dl_iterate_phdr(note_module, made);
    void *frames[2];
    (void)backtrace(frames, 2); /* the first call loads the unwinder, which allocates */
    catch_all(made);
    *fault = made;
    return GY_OK;
}

void gy_fault_close(gy_fault *fault)
{
    if (fault == NULL) {
        return;
    }
    GY_ASSERT(current == NULL);
    for (size_t i = 0; i < GY_COUNT(caught); i++) {
        (void)sigaction(caught[i], &fault->before[i], NULL);
    }
    fault_thread *own = pthread_getspecific(thread_key);
    if (own != NULL) {
        GY_ASSERT(pthread_setspecific(thread_key, NULL) == 0);
        leave_thread(own);
    }
    if (fault->socket >= 0) {
        (void)close(fault->socket);
    }
    atomic_store_explicit(&installed, NULL, memory_order_release);
    gy_free(fault);
}
