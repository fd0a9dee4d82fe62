/* The methods of clusters with a lead. */
#include "ps/map/map.h"

void gy_ps_methods_fill(const gy_ps_method_row *rows, uint32_t count, uint32_t first,
                        gy_rpc_method *methods)
{
    for (uint32_t i = 0; i < count; i++) {
        methods[i] = (gy_rpc_method){.type = first + i,
                                     .name = rows[i].name,
                                     .flags = rows[i].flags,
                                     .request = rows[i].request,
                                     .answer = rows[i].answer,
                                     .request_bytes_max = rows[i].request_bytes_max,
                                     .answer_bytes_max = rows[i].answer_bytes_max,
                                     .request_beside_max = rows[i].request_beside_max,
                                     .answer_beside_max = rows[i].answer_beside_max};
    }
}

void gy_ps_led_methods(gy_rpc_method methods[GY_PS_LED_METHODS])
{
    enum { SMALL = 4096 };
    static const gy_ps_method_row rows[GY_PS_LED_METHODS] = {
        {"take an event", &gy__ps__event__descriptor, &gy__ps__taken__descriptor, 0, 2 * SMALL,
         SMALL, GY_RPC_BESIDE_MAX, 0},
        {"take a copy", &gy__ps__copy__descriptor, &gy__ps__done__descriptor, 0, SMALL, SMALL,
         GY_RPC_BESIDE_MAX, 0},
        {"renew", &gy__ps__renew__descriptor, &gy__ps__done__descriptor, GY_RPC_REPEATABLE,
         SMALL, SMALL, 0, 0},
        {"read the map", &gy__ps__ask_map__descriptor, &gy__ps__map__descriptor, GY_RPC_READS,
         SMALL, GY_PS_MAP_BYTES, 0, 0},
        {"drain a server", &gy__ps__drain__descriptor, &gy__ps__drained__descriptor,
         GY_RPC_REPEATABLE, SMALL, SMALL, 0, 0},
    };
    gy_ps_methods_fill(rows, GY_PS_LED_METHODS, GY_PS_EVENT, methods);
}
