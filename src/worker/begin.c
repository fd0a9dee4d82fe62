/* The first steps of a process that another process started to serve. */
#include "worker/serve_priv.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int gy_worker_serve(int socket, const gy_worker_ops *ops)
{
    static char bytes[GY_PACKET_BYTES];
    gy_packet packet = {.data = bytes, .size_bytes = sizeof(bytes)};
    gy_role role;
    int status = 1;
    GY_ASSERT(ops->run != NULL);
    /* Processes that this one starts must not serve. */
    (void)unsetenv("GYRE_VERTEX");
    (void)fcntl(socket, F_SETFD, FD_CLOEXEC);
    if (gy_packet_receive(socket, &packet, true) < 0) {
        gy_log_message("cannot serve a job: %s", gy_error_text());
        close(socket);
        return 1;
    }
    if (packet.size_bytes >= sizeof(role)) {
        memcpy(&role, bytes, sizeof(role));
    } else {
        role = (gy_role){.kind = 0};
        packet.size_bytes = sizeof(role);
    }
    gy_sandbox_paths sandbox = {.parts = role.kind == GY_ROLE_FORK_SERVER ? role.parts : 0,
                                .paths = bytes + sizeof(role),
                                .paths_bytes = packet.size_bytes - sizeof(role)};
    bool is_fork_server = role.kind == GY_ROLE_FORK_SERVER && packet.file_count == 1 &&
                          role.processes > 0 && role.threads > 0 &&
                          (sandbox.paths_bytes == 0 || bytes[packet.size_bytes - 1] == '\0');
    if (is_fork_server && sandbox.parts != 0 &&
        gy_sandbox_close_files(socket, packet.files[0]) < 0) {
        gy_worker_fork_server_refuse(socket);
        return 1;
    }
    if (is_fork_server) {
        status = gy_worker_fork_server_run(socket, &role, &sandbox, packet.files[0], ops);
    } else if (role.kind == GY_ROLE_GANG && ops->gang != NULL) {
        status = ops->gang(socket, &role, &packet, bytes + sizeof(role));
    } else {
        gy_log_message("cannot serve a job: GYRE_VERTEX is set by something else");
        close(socket);
    }
    return status;
}
