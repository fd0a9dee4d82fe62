#define TILES gy_tiles_avx512
#include "ops/kernels/tiles.inc"
