/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The short vectors of CUDA C++ that our kernels use, for C and C++, with the toolkit's names,
 * members and alignments.
 */
#ifndef CUDASIM_VECTOR_TYPES_H
#define CUDASIM_VECTOR_TYPES_H

#define CUDASIM_VECTOR(name, element, alignment, ...)                                              \
	struct __attribute__((aligned(alignment))) name {                                          \
		element __VA_ARGS__;                                                               \
	};                                                                                         \
	typedef struct name name

CUDASIM_VECTOR(int2, int, 8, x, y);
CUDASIM_VECTOR(int3, int, 4, x, y, z);
CUDASIM_VECTOR(int4, int, 16, x, y, z, w);
CUDASIM_VECTOR(uint2, unsigned int, 8, x, y);
CUDASIM_VECTOR(uint3, unsigned int, 4, x, y, z);
CUDASIM_VECTOR(uint4, unsigned int, 16, x, y, z, w);
CUDASIM_VECTOR(float2, float, 8, x, y);
CUDASIM_VECTOR(float3, float, 4, x, y, z);
CUDASIM_VECTOR(float4, float, 16, x, y, z, w);
CUDASIM_VECTOR(ushort2, unsigned short, 4, x, y);
CUDASIM_VECTOR(ushort4, unsigned short, 8, x, y, z, w);
CUDASIM_VECTOR(ulonglong2, unsigned long long, 16, x, y);

#undef CUDASIM_VECTOR

struct dim3 {
	unsigned int x, y, z;
#ifdef __cplusplus
	constexpr dim3(unsigned int vx = 1, unsigned int vy = 1, unsigned int vz = 1)
	    : x(vx), y(vy), z(vz)
	{
	}
	constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z)
	{
	}
#endif
};
typedef struct dim3 dim3;

#endif
