/** gyre script: its files share these. */
#ifndef GY_CLI_SCRIPTS_SCRIPTS_PRIV_H
#define GY_CLI_SCRIPTS_SCRIPTS_PRIV_H

#include <gyre/script.h>

/** Show why the script, or its last input, failed. script may be NULL. */
void gy_cli_show_report(const gy_script *script, gy_status status);
/** Take statements from the terminal until its end; their failures are shown and end nothing.
 */
void gy_cli_terminal(gy_script *script);

#endif
