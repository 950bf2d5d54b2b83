/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runtime's functions that the CUDA modules use, for machines without a toolkit. Names and
 * numbers are CUDA's; structs hold only the fields that are read here, so nothing compiled
 * against this header may meet the real library. C and C++.
 */
#ifndef CUDASIM_CUDA_RUNTIME_API_H
#define CUDASIM_CUDA_RUNTIME_API_H

#include <stddef.h>
#include <stdint.h>

#define CUDART_VERSION 13000

#ifdef __cplusplus
#define CUDASIM_DEFAULT(x) = x
extern "C" {
#else
#define CUDASIM_DEFAULT(x)
#endif

/* Name, number, words. The list is made once for the enum, the names and the strings. */
#define CUDASIM_ERRORS(X)                                                                          \
	X(Success, 0, "no error")                                                                  \
	X(ErrorInvalidValue, 1, "invalid argument")                                                \
	X(ErrorMemoryAllocation, 2, "out of memory")                                               \
	X(ErrorInitializationError, 3, "initialization error")                                     \
	X(ErrorCudartUnloading, 4, "driver shutting down")                                         \
	X(ErrorInvalidConfiguration, 9, "invalid configuration argument")                          \
	X(ErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy")                    \
	X(ErrorInsufficientDriver, 35,                                                             \
	  "CUDA driver version is insufficient for CUDA runtime version")                          \
	X(ErrorInvalidDeviceFunction, 98, "invalid device function")                               \
	X(ErrorNoDevice, 100, "no CUDA-capable device is detected")                                \
	X(ErrorInvalidDevice, 101, "invalid device ordinal")                                       \
	X(ErrorDeviceUninitialized, 201, "invalid device context")                                 \
	X(ErrorMapBufferObjectFailed, 205, "mapping of buffer object failed")                      \
	X(ErrorOperatingSystem, 304, "OS call failed or operation not supported on this OS")       \
	X(ErrorInvalidResourceHandle, 400, "invalid resource handle")                              \
	X(ErrorIllegalState, 401, "the operation cannot be performed in the present state")        \
	X(ErrorSymbolNotFound, 500, "named symbol not found")                                      \
	X(ErrorNotReady, 600, "device not ready")                                                  \
	X(ErrorIllegalAddress, 700, "an illegal memory access was encountered")                    \
	X(ErrorLaunchOutOfResources, 701, "too many resources requested for launch")               \
	X(ErrorLaunchTimeout, 702, "the launch timed out and was terminated")                      \
	X(ErrorAssert, 710, "device-side assert triggered")                                        \
	X(ErrorHostMemoryAlreadyRegistered, 712,                                                   \
	  "part or all of the requested memory range is already mapped")                           \
	X(ErrorHostMemoryNotRegistered, 713,                                                       \
	  "pointer does not correspond to a registered memory region")                             \
	X(ErrorHardwareStackError, 714, "hardware stack error")                                    \
	X(ErrorIllegalInstruction, 715, "an illegal instruction was encountered")                  \
	X(ErrorMisalignedAddress, 716, "misaligned address")                                       \
	X(ErrorInvalidAddressSpace, 717, "operation not supported on global/shared address space") \
	X(ErrorInvalidPc, 718, "invalid program counter")                                          \
	X(ErrorLaunchFailure, 719, "unspecified launch failure")                                   \
	X(ErrorNotPermitted, 800, "operation not permitted")                                       \
	X(ErrorNotSupported, 801, "operation not supported")                                       \
	X(ErrorStreamCaptureUnsupported, 900, "operation not permitted when stream is capturing")  \
	X(ErrorStreamCaptureInvalidated, 901,                                                      \
	  "operation failed due to a previous error during capture")                               \
	X(ErrorStreamCaptureMerge, 902, "operation would result in a merge of separate captures")  \
	X(ErrorStreamCaptureUnmatched, 903, "capture was not initiated in this stream")            \
	X(ErrorStreamCaptureUnjoined, 904, "capturing stream has unjoined work")                   \
	X(ErrorStreamCaptureIsolation, 905,                                                        \
	  "dependency created on uncaptured work in another stream")                               \
	X(ErrorStreamCaptureImplicit, 906,                                                         \
	  "operation would make the legacy stream depend on a capturing blocking stream")          \
	X(ErrorCapturedEvent, 907,                                                                 \
	  "operation not permitted on an event last recorded in a capture")                        \
	X(ErrorStreamCaptureWrongThread, 908, "a capture must end in the thread that began it")    \
	X(ErrorGraphExecUpdateFailure, 910, "the graph update violates a constraint of its kind")  \
	X(ErrorUnknown, 999, "unknown error")

enum cudaError {
#define CUDASIM_X(name, value, words) cuda##name = value,
	CUDASIM_ERRORS(CUDASIM_X)
#undef CUDASIM_X
};
typedef enum cudaError cudaError_t;

typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraphNode_st *cudaGraphNode_t;
typedef struct CUgraphExec_st *cudaGraphExec_t;
typedef void (*cudaHostFn_t)(void *arg);

#define cudaStreamDefault 0x00
#define cudaStreamNonBlocking 0x01
#define cudaStreamLegacy ((cudaStream_t)0x1)
#define cudaStreamPerThread ((cudaStream_t)0x2)
#define cudaEventDefault 0x00
#define cudaEventBlockingSync 0x01
#define cudaEventDisableTiming 0x02
#define cudaEventInterprocess 0x04
#define cudaHostAllocDefault 0x00
#define cudaHostAllocPortable 0x01
#define cudaHostAllocMapped 0x02
#define cudaHostRegisterDefault 0x00
#define cudaHostRegisterPortable 0x01
#define cudaHostRegisterMapped 0x02
#define cudaHostRegisterReadOnly 0x08
#define cudaIpcMemLazyEnablePeerAccess 0x01
#define cudaDeviceScheduleBlockingSync 0x04
#define cudaDeviceMapHost 0x08
#define CUDA_IPC_HANDLE_SIZE 64
#define cudaCpuDeviceId ((int)-1)
#define cudaInvalidDeviceId ((int)-2)

enum cudaMemcpyKind {
	cudaMemcpyHostToHost = 0,
	cudaMemcpyHostToDevice = 1,
	cudaMemcpyDeviceToHost = 2,
	cudaMemcpyDeviceToDevice = 3,
	cudaMemcpyDefault = 4,
};

enum cudaMemoryType {
	cudaMemoryTypeUnregistered = 0,
	cudaMemoryTypeHost = 1,
	cudaMemoryTypeDevice = 2,
	cudaMemoryTypeManaged = 3,
};

enum cudaStreamCaptureMode {
	cudaStreamCaptureModeGlobal = 0,
	cudaStreamCaptureModeThreadLocal = 1,
	cudaStreamCaptureModeRelaxed = 2,
};

enum cudaStreamCaptureStatus {
	cudaStreamCaptureStatusNone = 0,
	cudaStreamCaptureStatusActive = 1,
	cudaStreamCaptureStatusInvalidated = 2,
};

enum cudaGraphExecUpdateResult {
	cudaGraphExecUpdateSuccess = 0,
	cudaGraphExecUpdateError = 1,
	cudaGraphExecUpdateErrorTopologyChanged = 2,
	cudaGraphExecUpdateErrorNodeTypeChanged = 3,
};

typedef struct cudaGraphExecUpdateResultInfo_st {
	enum cudaGraphExecUpdateResult result;
	cudaGraphNode_t errorNode;
	cudaGraphNode_t errorFromNode;
} cudaGraphExecUpdateResultInfo;

enum cudaDriverEntryPointQueryResult {
	cudaDriverEntryPointSuccess = 0,
	cudaDriverEntryPointSymbolNotFound = 1,
	cudaDriverEntryPointVersionNotSufficent = 2,
};
#define cudaEnableDefault 0x0

enum cudaFuncAttribute {
	cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
	cudaFuncAttributePreferredSharedMemoryCarveout = 9,
};

struct cudaFuncAttributes {
	size_t sharedSizeBytes;
	size_t constSizeBytes;
	size_t localSizeBytes;
	int maxThreadsPerBlock;
	int numRegs;
	int ptxVersion;
	int binaryVersion;
	int maxDynamicSharedSizeBytes;
};

enum cudaDeviceAttr {
	cudaDevAttrMaxThreadsPerBlock = 1,
	cudaDevAttrMaxSharedMemoryPerBlock = 8,
	cudaDevAttrWarpSize = 10,
	cudaDevAttrMaxRegistersPerBlock = 12,
	cudaDevAttrClockRate = 13,
	cudaDevAttrMultiProcessorCount = 16,
	cudaDevAttrIntegrated = 18,
	cudaDevAttrCanMapHostMemory = 19,
	cudaDevAttrConcurrentKernels = 31,
	cudaDevAttrPciBusId = 33,
	cudaDevAttrPciDeviceId = 34,
	cudaDevAttrMemoryClockRate = 36,
	cudaDevAttrGlobalMemoryBusWidth = 37,
	cudaDevAttrL2CacheSize = 38,
	cudaDevAttrMaxThreadsPerMultiProcessor = 39,
	cudaDevAttrAsyncEngineCount = 40,
	cudaDevAttrUnifiedAddressing = 41,
	cudaDevAttrPciDomainId = 50,
	cudaDevAttrComputeCapabilityMajor = 75,
	cudaDevAttrComputeCapabilityMinor = 76,
	cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
	cudaDevAttrMaxRegistersPerMultiprocessor = 82,
	cudaDevAttrCanUseHostPointerForRegisteredMem = 91,
	cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
	cudaDevAttrHostRegisterSupported = 99,
	cudaDevAttrReservedSharedMemoryPerBlock = 111,
	cudaDevAttrMemoryPoolsSupported = 115,
	cudaDevAttrIpcEventSupport = 125,
};

#ifndef CUDASIM_UUID
#define CUDASIM_UUID
typedef struct CUuuid_st {
	char bytes[16];
} CUuuid;
#endif
typedef CUuuid cudaUUID_t;

struct cudaDeviceProp {
	char name[256];
	cudaUUID_t uuid;
	size_t totalGlobalMem;
	size_t sharedMemPerBlock;
	int regsPerBlock;
	int warpSize;
	int maxThreadsPerBlock;
	int maxThreadsDim[3];
	int maxGridSize[3];
	int major;
	int minor;
	int multiProcessorCount;
	int integrated;
	int canMapHostMemory;
	int concurrentKernels;
	int pciBusID;
	int pciDeviceID;
	int pciDomainID;
	int asyncEngineCount;
	int unifiedAddressing;
	int memoryBusWidth;
	int l2CacheSize;
	int maxThreadsPerMultiProcessor;
	size_t sharedMemPerMultiprocessor;
	int regsPerMultiprocessor;
	size_t sharedMemPerBlockOptin;
	size_t reservedSharedMemPerBlock;
	int hostRegisterSupported;
	int memoryPoolsSupported;
	int ipcEventSupported;
};

struct cudaPointerAttributes {
	enum cudaMemoryType type;
	int device;
	void *devicePointer;
	void *hostPointer;
};

typedef struct cudaIpcMemHandle_st {
	char reserved[CUDA_IPC_HANDLE_SIZE];
} cudaIpcMemHandle_t;

#ifdef __cplusplus
struct dim3 {
	unsigned int x, y, z;
	constexpr dim3(unsigned int vx = 1, unsigned int vy = 1, unsigned int vz = 1)
	    : x(vx), y(vy), z(vz)
	{
	}
};
#else
struct dim3 {
	unsigned int x, y, z;
};
typedef struct dim3 dim3;
#endif

cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags);
cudaError_t cudaSetDeviceFlags(unsigned int flags);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device);
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device);
cudaError_t cudaDeviceGetPCIBusId(char *pciBusId, int len, int device);
cudaError_t cudaDeviceCanAccessPeer(int *canAccessPeer, int device, int peerDevice);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaMemGetInfo(size_t *free, size_t *total);

cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
const char *cudaGetErrorName(cudaError_t error);
const char *cudaGetErrorString(cudaError_t error);

cudaError_t cudaMalloc(void **devPtr, size_t size);
cudaError_t cudaFree(void *devPtr);
cudaError_t cudaHostAlloc(void **pHost, size_t size, unsigned int flags);
cudaError_t cudaMallocHost(void **ptr, size_t size);
cudaError_t cudaFreeHost(void *ptr);
cudaError_t cudaHostRegister(void *ptr, size_t size, unsigned int flags);
cudaError_t cudaHostUnregister(void *ptr);
cudaError_t cudaHostGetDevicePointer(void **pDevice, void *pHost, unsigned int flags);
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *ptr);
cudaError_t cudaMemcpy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
			    cudaStream_t stream CUDASIM_DEFAULT(0));
cudaError_t cudaMemset(void *devPtr, int value, size_t count);
cudaError_t cudaMemsetAsync(void *devPtr, int value, size_t count,
			    cudaStream_t stream CUDASIM_DEFAULT(0));

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *devPtr);
cudaError_t cudaIpcOpenMemHandle(void **devPtr, cudaIpcMemHandle_t handle, unsigned int flags);
cudaError_t cudaIpcCloseMemHandle(void *devPtr);

cudaError_t cudaStreamCreate(cudaStream_t *stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int priority);
cudaError_t cudaDeviceGetStreamPriorityRange(int *leastPriority, int *greatestPriority);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
				unsigned int flags CUDASIM_DEFAULT(0));
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *userData);

cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream CUDASIM_DEFAULT(0));
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end);

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *pGraph);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream,
				  enum cudaStreamCaptureStatus *pCaptureStatus);
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *numNodes);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *pGraphExec, cudaGraph_t graph,
				 unsigned long long flags CUDASIM_DEFAULT(0));
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t hGraphExec, cudaGraph_t hGraph,
				cudaGraphExecUpdateResultInfo *resultInfo);
cudaError_t cudaGraphUpload(cudaGraphExec_t graphExec, cudaStream_t stream);
cudaError_t cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t stream);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graphExec);

cudaError_t cudaGetDriverEntryPointByVersion(
	const char *symbol, void **funcPtr, unsigned int cudaVersion, unsigned long long flags,
	enum cudaDriverEntryPointQueryResult *driverStatus CUDASIM_DEFAULT(0));

/* Of the simulator's execution half. */
cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attr, int value);
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *func);
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, const void *func,
							  int blockSize, size_t dynamicSMemSize);

#ifdef __cplusplus
}
#endif
#endif
