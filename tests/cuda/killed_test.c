/*
 * Goal: a training on devices of which any process is killed, or a rank is stopped, at any
 * moment, ends in time and says who it was; nothing is left of it; and resumed it has the bits
 * of one that nobody disturbed. Two cases, forty with GYRE_SOAK.
 */
#include "base/base.h"

#include "command_kit.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>

#include "gy_test.h"

enum { MANY = 96, PROCESSES_MAX = 16, PATIENCE_S = 50 };

/*
 *   t NAME OPTION...  trains mlp, says into NAME.said, saves into NAME. Who is to be disturbed
 *                     waits a shorter time: if that is over without cause it is a disturbance.
 */
static const char words[] =
    "export GYRE_TEST_CUDA_DEVICES=2 GYRE_TEST_CUDA_MULTIPROCESSORS=100 GYRE_TIMEOUT=40; "
    "export GYRE_CACHE_DIR=$PWD/kernels XDG_STATE_HOME=$PWD/state; "
    "t() { name=$1; shift; exec ${GYRE_BIN:-gyre} train mlp -q -d many --steps 12 -b 96 "
    "--optimizer momentum --checkpoint-every 2 -o $name \"$@\" >$name.said 2>&1; }; ";

static const char *const ways[] = {"-n 1 --device 1",
                                   "-n 2 --device auto",
                                   "-n 2 --device auto --zero 3",
                                   "-n 2 --device 0 --mesh model=2",
                                   "-n 2 --device auto --mesh pipe=2 --micro-batches 3",
                                   "-n 3 --device auto --precision bf16"};

typedef struct story {
    const char *way;
    gy_random random;
    char mark[64];
    pid_t command, victim;
    int signal;
    int status; /* how the command ended, as wait says */
} story;

/* ---- processes ---- */

/* Of those that bear the mark, and are no zombies: is it a rank? */
typedef struct found {
    pid_t processes[PROCESSES_MAX];
    bool is_rank[PROCESSES_MAX];
    int count;
} found;

static size_t read_file(const char *folder_name, const char *name, char *text, size_t size)
{
    char path[300];
    snprintf(path, sizeof(path), "/proc/%s/%s", folder_name, name);
    FILE *file = fopen(path, "r");
    const size_t got = file != NULL ? fread(text, 1, size - 1, file) : 0;
    if (file != NULL) {
        fclose(file);
    }
    text[got] = '\0';
    return got;
}

static found find(const char *mark)
{
    static char text[1 << 16];
    found f = {.count = 0};
    DIR *all = opendir("/proc");
    assert_non_null(all);
    for (struct dirent *entry = readdir(all); entry != NULL; entry = readdir(all)) {
        const size_t size = entry->d_name[0] >= '1' && entry->d_name[0] <= '9'
                                ? read_file(entry->d_name, "environ", text, sizeof(text))
                                : 0;
        if (memmem(text, size, mark, strlen(mark)) != NULL && f.count < PROCESSES_MAX) {
            f.is_rank[f.count] = memmem(text, size, "GYRE_RANK=", 10) != NULL;
            f.processes[f.count++] = (pid_t)strtol(entry->d_name, NULL, 10);
        }
    }
    closedir(all);
    return f;
}

/* Wait until the command has ended, and for a moment at most. */
static bool ends_by(story *s, gy_deadline deadline)
{
    while (waitpid(s->command, &s->status, WNOHANG) == 0) {
        if (gy_now_ns(gy_env_real()) >= deadline.at_ns) {
            return false;
        }
        (void)gy_env_poll(gy_env_real(), gy_deadline_after(0.005));
    }
    return true;
}

/* ---- one story ---- */

static double train_whole(const char *way)
{
    char line[256];
    const int64_t begun_ns = gy_now_ns(gy_env_real());
    (void)gy_print(line, sizeof(line), "rm -rf whole cw; (t whole --checkpoints cw %s)", way);
    must(line);
    return (double)(gy_now_ns(gy_env_real()) - begun_ns) * 1e-9;
}

static void start(story *s)
{
    char line[2048];
    must("rm -rf out co");
    (void)gy_print(line, sizeof(line), "cd %s; %s GYRE_TIMEOUT=5; t out --checkpoints co %s",
                   folder, words, s->way);
    fflush(NULL);
    s->command = fork();
    assert_true(s->command >= 0);
    if (s->command == 0) {
        char *mark = s->mark;
        (void)putenv(mark);
        (void)execl("/bin/sh", "sh", "-c", line, NULL);
        _exit(127);
    }
}

/* One of them, by chance; only ranks are stopped, whose others wait for them. */
static void strike(story *s)
{
    const found f = find(s->mark);
    const int at = f.count > 0 ? (int)gy_random_below(&s->random, (uint64_t)f.count) : -1;
    s->victim = at >= 0 ? f.processes[at] : 0;
    s->signal =
        at >= 0 && f.is_rank[at] && gy_random_below(&s->random, 2) == 0 ? SIGSTOP : SIGKILL;
    if (s->victim > 0) {
        (void)kill(s->victim, s->signal);
    }
}

static void tell(uint64_t seed)
{
    story s = {.random = {.key = seed}};
    char line[256];
    s.way = ways[gy_random_below(&s.random, GY_COUNT(ways))];
    snprintf(s.mark, sizeof(s.mark), "GYRE_TEST_MARK=%d.%llu", (int)getpid(),
             (unsigned long long)seed);
    const double whole_s = train_whole(s.way);
    const double after_s = gy_random_unit(&s.random) * whole_s;
    start(&s);
    if (!ends_by(&s, gy_deadline_after(after_s))) {
        strike(&s);
        printf("seed %llu, %s, after %.2f of %.2f s: signal %d for %s\n",
               (unsigned long long)seed, s.way, after_s, whole_s, s.signal,
               s.victim == s.command ? "the command" : "another");
        if (!ends_by(&s, gy_deadline_after(PATIENCE_S))) {
            fail_msg("seed %llu: it does not end", (unsigned long long)seed);
        }
        const gy_deadline soon = gy_deadline_after(10);
        while (find(s.mark).count > 0) {
            if (gy_now_ns(gy_env_real()) >= soon.at_ns) {
                fail_msg("seed %llu: processes are left", (unsigned long long)seed);
            }
            (void)gy_env_poll(gy_env_real(), gy_deadline_after(0.02));
        }
        if (!WIFSIGNALED(s.status) && WEXITSTATUS(s.status) != 0) {
            must("grep -q 'rank [0-9]\\|killed by signal' out.said");
        }
    }
    (void)gy_print(line, sizeof(line),
                   "rm -rf again; (t again --checkpoints co --resume %s) && "
                   "cmp again/model.safetensors whole/model.safetensors",
                   s.way);
    must(line);
    must("! ls co/.gyre* 2>/dev/null");
}

GY_TEST(whoever_is_killed_nothing_is_lost)
{
    const uint64_t seed = gy_test_seed();
    const long cases = gy_test_cases(2);
    for (long i = 0; i < cases; i++) {
        tell(seed + (uint64_t)i);
    }
}

static int make_folder(void **state)
{
    char digits[80];
    if (kit_make_folder(state) != 0 || shell("mkdir many") != 0) {
        return 1;
    }
    (void)gy_print(digits, sizeof(digits), "%s/many", folder);
    kit_write_digits(digits, MANY, SIDE);
    kit_words = words;
    return 0;
}

GY_TEST_MAIN(make_folder, kit_remove_folder)
