/* Receives the datagrams of faults, and finds the function names for the offsets in their
 * backtraces. */
#include "base/base.h"
#include "flow/channel/fault_priv.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

struct gy_fault_context {
    int socket;
    char *path;
    ino_t made; /* inode of the socket's file: another manager may put its own socket there */
};

#define SOCKET_NAME "faults"

/* A socket's path may have 107 bytes, and a folder's path may be longer, so the path goes
 * through a descriptor under /proc. */
static gy_status address_in(const char *folder, int *descriptor, struct sockaddr_un *address)
{
    int opened = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (opened < 0) {
        return gy_fail(GY_IO, "cannot open folder %s: %s", folder, strerrordesc_np(errno));
    }
    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    (void)snprintf(address->sun_path, sizeof(address->sun_path), "/proc/self/fd/%d/%s", opened,
                   SOCKET_NAME);
    *descriptor = opened;
    return GY_OK;
}

int gy_fault_call(const char *folder)
{
    struct sockaddr_un address;
    int opened = -1;
    if (address_in(folder, &opened, &address) < 0) {
        return -1;
    }
    int made = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (made >= 0 && connect(made, (struct sockaddr *)&address, sizeof(address)) != 0) {
        (void)close(made);
        made = -1;
    }
    (void)close(opened);
    return made;
}

gy_status gy_fault_listen(const char *folder, gy_fault_context **door)
{
    struct sockaddr_un address;
    int opened = -1;
    GY_TRY(address_in(folder, &opened, &address));
    gy_fault_context *made = gy_alloc_zero("flow.door", 1, sizeof(*made));
    gy_text path = {.data = NULL};
    gy_text_add(&path, "%s/%s", folder, SOCKET_NAME);
    if (made != NULL) {
        made->socket = -1;
    }
    gy_status status = made != NULL ? path.status : GY_NOMEM;
    if (status == GY_OK) {
        made->path = path.data;
        made->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)unlink(path.data); /* the socket of a manager that was killed */
        struct stat about = {.st_ino = 0};
        if (made->socket < 0 ||
            bind(made->socket, (struct sockaddr *)&address, sizeof(address)) != 0 ||
            lstat(path.data, &about) != 0) {
            status =
                gy_fail(GY_IO, "cannot listen at %s: %s", path.data, strerrordesc_np(errno));
        }
        made->made = about.st_ino;
    } else {
        gy_text_free(&path);
    }
    (void)close(opened);
    if (status < 0) {
        gy_fault_context_free(made);
        return status;
    }
    *door = made;
    return GY_OK;
}

bool gy_fault_handle(gy_fault_context *door, gy_crash_report *crash_report)
{
    ssize_t got = 0;
    do {
        got = recv(door->socket, crash_report, sizeof(*crash_report), MSG_DONTWAIT);
    } while (got >= 0 && got != sizeof(*crash_report)); /* not a datagram of this program */
    crash_report->backtrace[sizeof(crash_report->backtrace) - 1] = '\0';
    return got == sizeof(*crash_report);
}

void gy_fault_context_free(gy_fault_context *door)
{
    if (door == NULL) {
        return;
    }
    if (door->socket >= 0) {
        (void)close(door->socket);
    }
    struct stat about;
    if (door->path != NULL && lstat(door->path, &about) == 0 && about.st_ino == door->made) {
        (void)unlink(door->path);
    }
    gy_free(door->path);
    gy_free(door);
}

/* ---- names ---- */

typedef struct image {
    const unsigned char *data;
    size_t size_bytes;
    char path[256];
} image;

static void close_image(image *of)
{
    if (of->data != NULL) {
        void *data = NULL;
        memcpy(&data, &of->data, sizeof(data)); /* drops the const */
        GY_ASSERT(munmap(data, of->size_bytes) == 0);
    }
    *of = (image){.data = NULL};
}

static void open_image(image *of, const char *path)
{
    close_image(of);
    (void)snprintf(of->path, sizeof(of->path), "%s", path);
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) {
        return;
    }
    if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
        void *data = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
        of->data = data != MAP_FAILED ? data : NULL;
        of->size_bytes = data != MAP_FAILED ? (size_t)status.st_size : 0;
    }
    (void)close(file);
}

static bool copy_at(const image *from, uint64_t offset, void *out, size_t size_bytes)
{
    if (offset > from->size_bytes || size_bytes > from->size_bytes - offset) {
        return false;
    }
    memcpy(out, from->data + offset, size_bytes);
    return true;
}

/* The function in a symbol table that contains `address`. */
static const char *symbol_in(const image *from, const Elf64_Shdr *table,
                             const Elf64_Shdr *strings, uint64_t address)
{
    for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table->sh_size; at += sizeof(Elf64_Sym)) {
        Elf64_Sym symbol;
        if (!copy_at(from, table->sh_offset + at, &symbol, sizeof(symbol))) {
            return NULL;
        }
        bool is_it = ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && address >= symbol.st_value &&
                     address - symbol.st_value < symbol.st_size;
        if (is_it && symbol.st_name < strings->sh_size &&
            strings->sh_offset <= from->size_bytes &&
            strings->sh_size <= from->size_bytes - strings->sh_offset) {
            const char *name = (const char *)from->data + strings->sh_offset + symbol.st_name;
            size_t left = (size_t)(strings->sh_size - symbol.st_name);
            return memchr(name, '\0', left) != NULL ? name : NULL;
        }
    }
    return NULL;
}

static const char *symbol_at(const image *from, uint64_t address)
{
    Elf64_Ehdr head;
    if (from->data == NULL || !copy_at(from, 0, &head, sizeof(head)) ||
        memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
        head.e_shentsize != sizeof(Elf64_Shdr)) {
        return NULL;
    }
    const char *name = NULL;
    for (uint32_t i = 0; i < head.e_shnum && name == NULL; i++) {
        Elf64_Shdr table, strings;
        if (!copy_at(from, head.e_shoff + (uint64_t)i * sizeof(table), &table, sizeof(table))) {
            return NULL;
        }
        if ((table.sh_type == SHT_SYMTAB || table.sh_type == SHT_DYNSYM) &&
            copy_at(from, head.e_shoff + (uint64_t)table.sh_link * sizeof(strings), &strings,
                    sizeof(strings))) {
            name = symbol_in(from, &table, &strings, address);
        }
    }
    return name;
}

void gy_fault_names(const char *backtrace, gy_text *out)
{
    image last = {.data = NULL};
    while (*backtrace != '\0') {
        const char *end = strchrnul(backtrace, '\n');
        const char *plus = memrchr(backtrace, '+', (size_t)(end - backtrace));
        char path[256] = "";
        unsigned long long offset = 0;
        if (plus != NULL && (size_t)(plus - backtrace) < sizeof(path) &&
            sscanf(plus, "+0x%llx", &offset) == 1) {
            memcpy(path, backtrace, (size_t)(plus - backtrace));
            path[plus - backtrace] = '\0';
        }
        if (path[0] == '/' && strcmp(path, last.path) != 0) {
            open_image(&last, path);
        }
        /* a return address lies behind its call instruction, so subtract one to stay within
         * the function */
        const char *name =
            path[0] == '/' && offset > 0 ? symbol_at(&last, (uint64_t)offset - 1) : NULL;
        gy_text_add(out, "%.*s%s%s\n", (int)(end - backtrace), backtrace,
                    name != NULL ? " " : "", name != NULL ? name : "");
        backtrace = *end != '\0' ? end + 1 : end;
    }
    close_image(&last);
}
