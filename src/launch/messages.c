/* What reaper and keeper log is for the launcher's log: packets of a kind and a line. */
#include "launch/launch_priv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CAUSE = 'c', FIRST_LEVEL = 'l', LINE_ROOM = 8448 };

static int own_socket = -1;

static bool send_line(char kind, const char *line)
{
    char packet[LINE_ROOM];
    const size_t size = gy_print(packet, sizeof(packet), "%c%s", kind, line);
    return send(own_socket, packet, size, MSG_NOSIGNAL) > 0;
}

/* Without the launcher nobody reads them but whoever has standard error. */
static void pass_line(void *arg, gy_log_level level, const char *line)
{
    (void)arg;
    if (!send_line((char)(FIRST_LEVEL + (int)level), line)) {
        gy_print_to(stderr, "%s\n", line);
    }
}

gy_status gy_launch_messages_open(int sockets[2])
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
        return gy_fail(GY_LIMIT, "cannot make a socket: %s", strerror(errno));
    }
    return GY_OK;
}

void gy_launch_messages_send_to(int socket)
{
    GY_ASSERT(socket >= 0);
    own_socket = socket;
    gy_log_set_handler(pass_line, NULL);
}

void gy_launch_messages_cause(const char *cause)
{
    GY_ASSERT(own_socket >= 0);
    (void)send_line(CAUSE, cause); /* the log has it as well */
}

bool gy_launch_messages_pass(int socket, gy_run_report *report)
{
    char packet[LINE_ROOM];
    GY_ASSERT(socket >= 0);
    const ssize_t size = recv(socket, packet, sizeof(packet) - 1, MSG_DONTWAIT);
    if (size <= 0) {
        return size < 0 && (errno == EAGAIN || errno == EINTR);
    }
    packet[size] = '\0';
    if (packet[0] == CAUSE) {
        (void)snprintf(report->cause, sizeof(report->cause), "%.1000s", packet + 1);
    } else {
        gy_base_log_pass((gy_log_level)(packet[0] - FIRST_LEVEL), packet + 1);
    }
    return true;
}
