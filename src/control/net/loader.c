/* Finds the system's loader of a program and its libraries: ELF's PT_INTERP, elf(5). */
#include "control/net/net.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static gy_status read_name(int file, const char *program, const Elf64_Phdr *part,
                           char loader[GY_NET_PATH_BYTES])
{
    ssize_t size = part->p_filesz < GY_NET_PATH_BYTES
                       ? pread(file, loader, (size_t)part->p_filesz, (off_t)part->p_offset)
                       : -1;
    if (size <= 0 || size != (ssize_t)part->p_filesz || loader[size - 1] != '\0') {
        loader[0] = '\0';
        return gy_fail(GY_FORMAT, "%s names no loader that can be", program);
    }
    return GY_OK;
}

gy_status gy_net_find_loader(const char *program, char loader[GY_NET_PATH_BYTES])
{
    Elf64_Ehdr head;
    gy_status status = GY_OK;
    loader[0] = '\0';
    int file = open(program, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return gy_fail(errno == ENOENT ? GY_NOTFOUND : GY_IO, "cannot open %s: %s", program,
                       strerror(errno));
    }
    bool is_elf = pread(file, &head, sizeof(head), 0) == (ssize_t)sizeof(head) &&
                  memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 &&
                  head.e_ident[EI_CLASS] == ELFCLASS64 &&
                  head.e_phentsize == sizeof(Elf64_Phdr);
    for (int i = 0; is_elf && i < head.e_phnum && loader[0] == '\0' && status == GY_OK; i++) {
        Elf64_Phdr part;
        off_t at = (off_t)(head.e_phoff + (uint64_t)i * sizeof(part));
        if (pread(file, &part, sizeof(part), at) != (ssize_t)sizeof(part)) {
            status = gy_fail(GY_FORMAT, "%s is cut off", program);
        } else if (part.p_type == PT_INTERP) {
            status = read_name(file, program, &part, loader);
        }
    }
    close(file);
    return status;
}
