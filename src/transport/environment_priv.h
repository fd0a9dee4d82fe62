/**
 * Inside room transport: the socket to the launcher.
 */
#ifndef GY_TRANSPORT_ENVIRONMENT_PRIV_H
#define GY_TRANSPORT_ENVIRONMENT_PRIV_H

/** Send later reports to this socket. */
void gy_transport_run_report_to(int socket);

#endif
