#define TILES gy_tiles_baseline
#include "ops/kernels/tiles.inc"
