/**
 * What a C++ compiler needs to check that a kernel's text is what NVRTC reads: the keywords and
 * built-in names of CUDA C as declarations alone. Passed with -include before the text and
 * -fsyntax-only; nothing is compiled to code.
 */
#ifndef GY_TESTS_CUDA_DEVICE_CHECK_H
#define GY_TESTS_CUDA_DEVICE_CHECK_H

#define __global__ __attribute__((used))
#define __device__
#define __forceinline__  inline
#define __shared__       static
#define __align__(bytes) __attribute__((aligned(bytes)))

struct gy_check_dim3 {
    unsigned x, y, z;
};
extern const gy_check_dim3 threadIdx, blockIdx, blockDim, gridDim;

struct float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

void __syncthreads();
void __syncwarp();
unsigned __shfl_sync(unsigned mask, unsigned x, int lane);
float __shfl_xor_sync(unsigned mask, float x, int bits);
int __syncthreads_or(int is_true);
unsigned __float_as_uint(float x);
float __uint_as_float(unsigned bits);
long long __double_as_longlong(double x);
double __longlong_as_double(long long bits);
unsigned long long atomicMin(unsigned long long *at, unsigned long long value);

#define GY_CHECK_FUNCTION(name)                                                                \
    double name(double x);                                                                     \
    float name##f(float x);
#define GY_CHECK_PAIR(name)                                                                    \
    double name(double x, double y);                                                           \
    float name##f(float x, float y);
GY_CHECK_FUNCTION(exp)
GY_CHECK_FUNCTION(exp2)
GY_CHECK_FUNCTION(log)
GY_CHECK_FUNCTION(log2)
GY_CHECK_FUNCTION(log1p)
GY_CHECK_FUNCTION(sqrt)
GY_CHECK_FUNCTION(tanh)
GY_CHECK_FUNCTION(erf)
GY_CHECK_FUNCTION(erfc)
GY_CHECK_FUNCTION(sin)
GY_CHECK_FUNCTION(cos)
GY_CHECK_FUNCTION(fabs)
GY_CHECK_FUNCTION(floor)
GY_CHECK_FUNCTION(ceil)
GY_CHECK_FUNCTION(rint)
GY_CHECK_PAIR(pow)
GY_CHECK_PAIR(fmax)
double fma(double x, double y, double z);
float fmaf(float x, float y, float z);

#endif
