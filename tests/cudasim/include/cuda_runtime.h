/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What device code sees beside the functions: vector types and the words of the language that a
 * plain compiler lacks. Launches go through kernels/cuda/common.cuh. C and C++.
 */
#ifndef CUDASIM_CUDA_RUNTIME_H
#define CUDASIM_CUDA_RUNTIME_H

#include <cuda_runtime_api.h>

#define __global__
#define __device__
#define __host__
#define __constant__ static const
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__

/* Each vector is aligned to its size, as a device's wide loads demand. */
#define CUDASIM_VECTOR2(type, name)                                                                \
	struct __align__(2 * sizeof(type)) name                                                    \
	{                                                                                          \
		type x, y;                                                                         \
	};                                                                                         \
	typedef struct name name;                                                                  \
	static inline name make_##name(type x, type y)                                             \
	{                                                                                          \
		name v = {x, y};                                                                   \
		return v;                                                                          \
	}
#define CUDASIM_VECTOR4(type, name)                                                                \
	struct __align__((4 * sizeof(type) < 16 ? 4 * sizeof(type) : 16)) name                     \
	{                                                                                          \
		type x, y, z, w;                                                                   \
	};                                                                                         \
	typedef struct name name;                                                                  \
	static inline name make_##name(type x, type y, type z, type w)                             \
	{                                                                                          \
		name v = {x, y, z, w};                                                             \
		return v;                                                                          \
	}

CUDASIM_VECTOR2(float, float2)
CUDASIM_VECTOR4(float, float4)
CUDASIM_VECTOR2(double, double2)
CUDASIM_VECTOR2(int, int2)
CUDASIM_VECTOR4(int, int4)
CUDASIM_VECTOR2(unsigned int, uint2)
CUDASIM_VECTOR4(unsigned int, uint4)
CUDASIM_VECTOR2(unsigned short, ushort2)
CUDASIM_VECTOR4(unsigned short, ushort4)
CUDASIM_VECTOR2(unsigned long long, ulonglong2)

struct uint3 {
	unsigned int x, y, z;
};
typedef struct uint3 uint3;

#endif
