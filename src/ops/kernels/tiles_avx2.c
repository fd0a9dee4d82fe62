#define TILES gy_tiles_avx2
#include "ops/kernels/tiles.inc"
