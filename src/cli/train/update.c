/* `--update ps:...` of `gyre train`, and the servers that end with it. */
#include "cli/train/update.h"

#include "cli/cli.h"
#include "cli/cluster/common.h"
#include "cli/report.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- The option ---- */

static int refuse(const char *key, const char *value, const char *expected)
{
    return gy_cli_report_usage("gyre train: --update: %s is '%s': expected %s", key, value,
                               expected);
}

static bool read_number(const char *text, long most, int *number)
{
    char *end = NULL;
    const long value = strtol(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || value < 1 || value > most) {
        return false;
    }
    *number = (int)value;
    return true;
}

static bool copy_text(char *out, size_t size_bytes, const char *text)
{
    const int size = snprintf(out, size_bytes, "%s", text);
    return size > 0 && (size_t)size < size_bytes;
}

static int read_addresses(const char *key, const char *value, gy_cli_update *update)
{
    const bool is_lead = strcmp(key, "lead") == 0;
    if (update->addresses[0] != '\0') {
        return refuse(key, value, "one of at and lead, once");
    }
    update->has_lead = update->has_lead || is_lead;
    return copy_text(update->addresses, sizeof(update->addresses), value)
               ? GY_EXIT_OK
               : refuse(key, value,
                        is_lead ? "HOST:PORT,... of leads" : "HOST:PORT,... of the servers");
}

static int read_pair(const char *key, const char *value, gy_cli_update *update)
{
    if (strcmp(key, "k") == 0) {
        return read_number(value, GY_CLI_SERVERS_MAX, &update->count)
                   ? GY_EXIT_OK
                   : refuse(key, value, "1 to 64 servers");
    }
    if (strcmp(key, "at") == 0 || strcmp(key, "lead") == 0) {
        return read_addresses(key, value, update);
    }
    if (strcmp(key, "replicas") == 0) { /* only a lead has them: "at" names leads then */
        update->has_lead = true;
        return read_number(value, 7, &update->replicas)
                   ? GY_EXIT_OK
                   : refuse(key, value, "1 to 7 replicas of each part");
    }
    if (strcmp(key, "fetch") == 0) {
        return read_number(value, 1000000, &update->fetch)
                   ? GY_EXIT_OK
                   : refuse(key, value, "1 to 1000000 batches between two exchanges");
    }
    if (strcmp(key, "name") == 0) {
        return copy_text(update->name, sizeof(update->name), value)
                   ? GY_EXIT_OK
                   : refuse(key, value, "1 to 63 characters");
    }
    if (strcmp(key, "sync") == 0) {
        return gy_ps_sync_read(value, &update->sync) == GY_OK
                   ? GY_EXIT_OK
                   : refuse(key, value, "bsp, asp, ssp:N, backup:N or weighted");
    }
    if (strcmp(key, "codec") == 0) {
        return gy_codec_read(value, &update->codec) == GY_OK
                   ? GY_EXIT_OK
                   : refuse(key, value, "none, bf16, int8 or topk:SHARE");
    }
    return gy_cli_report_usage("gyre train: --update: no setting '%s': expected k, at, lead, "
                               "replicas, sync, fetch, codec or name",
                               key);
}

/* The addresses of "at=" and "lead=" are separated by the commas that separate settings: what
 * has no "=" belongs to the setting before. */
static int read_pairs(char *text, gy_cli_update *update)
{
    for (char *at = text; at != NULL && *at != '\0';) {
        char *end = strchr(at, ',');
        while (end != NULL && end[1 + strcspn(end + 1, "=,")] != '=') {
            end = strchr(end + 1, ',');
        }
        if (end != NULL) {
            *end++ = '\0';
        }
        char *value = strchr(at, '=');
        if (value == NULL) {
            return refuse("a setting", at, "KEY=VALUE");
        }
        *value++ = '\0';
        const int read = read_pair(at, value, update);
        if (read != GY_EXIT_OK) {
            return read;
        }
        at = end;
    }
    return GY_EXIT_OK;
}

int gy_cli_update_read(const char *text, gy_cli_update *update)
{
    char kept[GY_CLI_ADDRESSES_BYTES + 256];
    *update = (gy_cli_update){.fetch = 1};
    if (text == NULL || strcmp(text, "allreduce") == 0) {
        return GY_EXIT_OK;
    }
    if (strncmp(text, "ps:", 3) != 0 || !copy_text(kept, sizeof(kept), text + 3)) {
        return gy_cli_report_usage(
            "gyre train: --update: '%s' is not valid: expected allreduce "
            "or ps:k=N or ps:at=HOST:PORT,... or ps:lead=HOST:PORT,...",
            text);
    }
    update->is_ps = true;
    const int read = read_pairs(kept, update);
    if (read != GY_EXIT_OK) {
        return read;
    }
    if ((update->count > 0) == (update->addresses[0] != '\0')) {
        return gy_cli_report_usage("gyre train: --update: '%s': expected one of k, servers to "
                                   "start, at, servers that run, and lead, theirs",
                                   text);
    }
    if (update->count > 0 && update->has_lead) {
        return gy_cli_report_usage("gyre train: --update: '%s': k servers that the training "
                                   "starts have no lead: expected lead=HOST:PORT,...",
                                   text);
    }
    return GY_EXIT_OK;
}

int gy_cli_update_check(const gy_cli_update *update, long long workers)
{
    const bool is_rank = getenv("GYRE_RANK") != NULL;
    if (update->count > 0 && is_rank && getenv("GYRE_SERVERS") == NULL) {
        return gy_cli_report_usage("gyre train: --update: k=%d starts servers for ranks that "
                                   "gyre train starts: expected at=HOST:PORT,... in a launch",
                                   update->count);
    }
    if (!is_rank && update->sync.rule == GY_PS_BACKUP && update->sync.bound >= workers) {
        return gy_cli_report_usage("gyre train: --update: %u backup workers of %lld workers: "
                                   "expected fewer",
                                   update->sync.bound, workers);
    }
    return GY_EXIT_OK;
}

/* ---- Servers ---- */

static void write_address(void *arg, const char *address)
{
    const int file = *(const int *)arg;
    (void)!write(file, address, strlen(address)); /* a reader that is gone is the end, too */
    close(file);
}

/* The child: it serves until its parent ends it, or dies. */
static int serve(int file, pid_t parent)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) {
        return GY_EXIT_FAILURE;
    }
    const gy_ps_server_options options = GY_OPTIONS(gy_ps_server_options, .is_plaintext = true);
    return gy_ps_serve(&options, write_address, &file) < 0 ? GY_EXIT_FAILURE : GY_EXIT_OK;
}

/* Until the address is whole: the child closes the pipe behind it. */
static bool read_address(int file, char *out, size_t size_bytes)
{
    size_t used = 0;
    ssize_t size = 0;
    while (used + 1 < size_bytes &&
           (size = read(file, out + used, size_bytes - 1 - used)) != 0) {
        if (size < 0 && errno != EINTR) {
            break;
        }
        used += size > 0 ? (size_t)size : 0;
    }
    out[used] = '\0';
    return used > 0;
}

static bool start_one(gy_cli_servers *servers, char *address, size_t size_bytes)
{
    int files[2];
    if (pipe(files) != 0) {
        return false;
    }
    const pid_t parent = getpid();
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        close(files[0]);
        _exit(serve(files[1], parent));
    }
    close(files[1]);
    bool is_started = child > 0;
    if (is_started) {
        servers->processes[servers->count++] = child;
        is_started = read_address(files[0], address, size_bytes);
    }
    close(files[0]);
    return is_started;
}

int gy_cli_servers_start(gy_cli_update *update, gy_cli_servers *servers)
{
    servers->count = 0;
    for (int i = 0; i < update->count; i++) {
        const size_t used = strlen(update->addresses);
        char address[64];
        if (!start_one(servers, address, sizeof(address))) {
            gy_print_to(stderr, "gyre train: cannot start parameter server %d of %d: %s\n",
                        i + 1, update->count, strerror(errno));
            gy_cli_servers_end(servers);
            return GY_EXIT_FAILURE;
        }
        (void)snprintf(update->addresses + used, sizeof(update->addresses) - used, "%s%s",
                       i > 0 ? "," : "", address);
    }
    return GY_EXIT_OK;
}

void gy_cli_servers_end(gy_cli_servers *servers)
{
    for (int i = 0; i < servers->count; i++) {
        (void)kill(servers->processes[i], SIGTERM);
        (void)kill(servers->processes[i], SIGCONT); /* one that is stopped hears nothing */
    }
    for (int i = 0; i < servers->count; i++) {
        while (waitpid(servers->processes[i], NULL, 0) < 0 && errno == EINTR) {
        }
    }
    servers->count = 0;
}

/* ---- Workers ---- */

/* The file that worker 0 saves, as it is now. */
static struct stat saved_model(const char *folder)
{
    char path[GY_CLI_ADDRESSES_BYTES];
    struct stat about = {.st_ino = 0};
    (void)snprintf(path, sizeof(path), "%s/model.safetensors", folder);
    (void)stat(path, &about); /* none: all zero */
    return about;
}

int gy_cli_workers_start(const gy_cli_update *update, int workers, const char *folder)
{
    char servers[GY_CLI_ADDRESSES_BYTES + 16];
    const char *const variables[] = {servers, NULL};
    const struct stat before = saved_model(folder);
    (void)snprintf(servers, sizeof(servers), "GYRE_SERVERS=%s", update->addresses);
    const int status = gy_cli_start_run("train", &GY_OPTIONS(gy_run_options, .ranks = workers,
                                                             .environment = variables,
                                                             .on_failure = GY_RUN_CONTINUE));
    const struct stat after = saved_model(folder);
    if (status == GY_EXIT_OK && before.st_ino == after.st_ino &&
        before.st_mtim.tv_sec == after.st_mtim.tv_sec &&
        before.st_mtim.tv_nsec == after.st_mtim.tv_nsec) {
        gy_print_to(stderr, "gyre train: worker 0, which saves the model, has failed\n");
        return GY_EXIT_FAILURE;
    }
    return status;
}

int gy_cli_update_find(const gy_cli_update *update, const char *key, bool is_plaintext,
                       char kept[GY_CLI_ADDRESSES_BYTES], gy_train_servers *servers)
{
    const char *started = getenv("GYRE_SERVERS");
    const uint32_t worker = servers->worker, workers = servers->workers;
    *servers = GY_OPTIONS(gy_train_servers, .replicas = (uint32_t)update->replicas,
                          .is_plaintext = true, .worker = worker, .workers = workers,
                          .sync = update->sync, .fetch = update->fetch, .codec = update->codec);
    if (update->name[0] != '\0') {
        servers->name = update->name;
    }
    if (update->count > 0) {
        servers->servers = started != NULL ? started : update->addresses;
        return GY_EXIT_OK;
    }
    *(update->has_lead ? &servers->lead : &servers->servers) = update->addresses;
    servers->is_plaintext = is_plaintext;
    return gy_cli_find_key("train", key, is_plaintext, kept, &servers->key_file);
}

/* ---- Pins ---- */

bool gy_cli_mesh_is_auto(const char *mesh)
{
    return mesh != NULL && strcmp(mesh, "auto") == 0;
}

bool gy_cli_mesh_has(const char *mesh, const char *axis)
{
    if (gy_cli_mesh_is_auto(mesh)) {
        return strcmp(axis, "auto") != 0;
    }
    const char *at = mesh != NULL ? mesh : "data=1";
    const size_t length = strlen(axis);
    for (; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, axis, length) == 0 && at[length] == '=') {
            return true;
        }
    }
    return false;
}

bool gy_cli_pin_read(const char *text, gy_cli_pins *pins)
{
    char *name = pins->texts[pins->count];
    gy_parameter_pin *pin = &pins->list[pins->count];
    if (snprintf(name, GY_CLI_PIN_BYTES, "%s", text) >= GY_CLI_PIN_BYTES) {
        return false;
    }
    char *axis = strrchr(name, ':'), *equals = strrchr(name, '=');
    if (axis == NULL || equals == NULL || axis == name || axis > equals) {
        return false;
    }
    *axis++ = *equals++ = '\0';
    char *end = equals + 1;
    const long dim = *equals == 'S' ? strtol(equals + 1, &end, 10) : 0;
    const bool is_cut = *equals == 'S' && end > equals + 1;
    if ((!is_cut && *equals != 'R') || *end != '\0' || dim < 0 || dim >= GY_TENSOR_RANK_MAX) {
        return false;
    }
    *pin = (gy_parameter_pin){.name = name, .axis = axis};
    if (is_cut) {
        pin->placement = (gy_placement){.kind = GY_SHARD, .dim = (uint8_t)dim};
    }
    pins->count++;
    return true;
}

/* ---- ranks and pins ---- */

/* A mesh says how many ranks there are, unless `gyre run` started them. */
int gy_cli_ranks_check(const char *mesh, long long *ranks)
{
    const char *running = getenv("GYRE_SIZE");
    const long long launched = running != NULL ? strtoll(running, NULL, 10) : 0;
    if (launched > 0 && *ranks > 0 && launched != *ranks) {
        return gy_cli_report_usage("gyre train: --ranks: '%lld' is not valid: expected %s, the "
                                   "number of ranks of this launch",
                                   *ranks, running);
    }
    if (mesh == NULL || gy_cli_mesh_is_auto(mesh)) {
        return GY_EXIT_OK;
    }
    int places = 0;
    if (gy_mesh_places(mesh, &places) < 0) {
        return gy_cli_report_usage("gyre train: --mesh: %s", gy_error_text());
    }
    if (*ranks > 0 && *ranks != places) {
        return gy_cli_report_usage("gyre train: --mesh: the product of '%s' is %d, but --ranks "
                                   "is %lld",
                                   mesh, places, *ranks);
    }
    if (launched > 0 && launched != places) {
        return gy_cli_report_usage("gyre train: --mesh: the product of '%s' is %d, but this "
                                   "launch has %s ranks",
                                   mesh, places, running);
    }
    *ranks = places;
    return GY_EXIT_OK;
}

int gy_cli_pins_check(const gy_option_list *given, const char *mesh, gy_cli_pins *pins)
{
    for (int i = 0; given->items[i] != NULL; i++) {
        const char *text = given->items[i];
        if (!gy_cli_pin_read(text, pins)) {
            return gy_cli_report_usage("gyre train: --pin: '%s' is not valid: expected "
                                       "NAME:AXIS=S0, S1, ... or NAME:AXIS=R",
                                       text);
        }
        const char *axis = pins->list[pins->count - 1].axis;
        if (gy_cli_options_choice("data|model|auto", axis) < 0) {
            return gy_cli_report_usage("gyre train: --pin: '%s': no axis '%s': expected data, "
                                       "model or auto",
                                       text, axis);
        }
        if (!gy_cli_mesh_has(mesh, axis)) {
            return gy_cli_report_usage("gyre train: --pin: '%s': the mesh '%s' has no axis %s",
                                       text, mesh != NULL ? mesh : "data", axis);
        }
    }
    return GY_EXIT_OK;
}
