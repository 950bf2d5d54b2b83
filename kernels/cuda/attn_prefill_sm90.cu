/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention of prompts on Hopper: the same tiles, splits and folds as attn_prefill.cu, with wgmma.
 * A block has three warpgroups. The first brings K and V from the pages into a ring of key tiles,
 * by TMA where a tile lies in one page and all of it may be read, else piece by piece. The others
 * own 64 packed rows each, and have the scores of the next tile computed while they turn this one's
 * into weights and while its values are summed.
 *
 *   full[slot]:   each thread of the producer, once its part of the tile is there; and TMA's bytes
 *   empty[slot]:  each warp of the consumers, once no product of its own reads the tile any more
 *
 * A product takes 16 summands, as mma.m16n8k16 does: the order of all sums is the same. Whether a
 * GPU's wgmma and mma round alike inside a product is for a GPU to say: hence two entry points.
 *
 * Head dimension 256 has no room for two accumulators of 64 rows and goes the other way.
 */
#include "kernels/cuda/attn_softmax.cuh"
#include "kernels/cuda/hopper.cuh"

#define CONSUMERS 2
#define GROUP_ROWS 64u
#define PRODUCER_BARRIER 1u
#define PRODUCER_REGISTERS 40
#define CONSUMER_REGISTERS 232

template <int HEAD_DIM, int STAGES> struct hopper_shape {
	static constexpr int head_dim = HEAD_DIM;
	static constexpr int stages = STAGES;
	static constexpr int rows = CONSUMERS * GROUP_ROWS;
	static constexpr int threads = KV_WARPGROUP; /* that load */
	static constexpr int block_threads = KV_WARPGROUP * (CONSUMERS + 1);
	static constexpr int blocks = 1;
	static constexpr int key_tiles = 8;
	static constexpr int dim_tiles = HEAD_DIM / 8;
	static constexpr bool total_in_smem = false;
	static constexpr uint32_t tile_bytes = 64 * HEAD_DIM * 2;
	static constexpr uint32_t q_offset = STAGES * 2 * tile_bytes;
	static constexpr uint32_t table_offset = q_offset + rows * HEAD_DIM * 2;
	static constexpr uint32_t full_offset = table_offset + ATTN_TABLE_BYTES;
	static constexpr uint32_t empty_offset = full_offset + STAGES * sizeof(uint64_t);
	static constexpr uint32_t smem_bytes = empty_offset + STAGES * sizeof(uint64_t);
};

typedef hopper_shape<64, 4> hopper_64;
typedef hopper_shape<128, 3> hopper_128;

#if defined(KVD_CUDASIM) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* The ring, for one thread. Tiles are counted from the block's first. */
template <class S> struct hopper_ring {
	unsigned char *smem;
	uint64_t *full;
	uint64_t *empty;
};

template <class S> KV_DEVICE unsigned char *ring_tile(const hopper_ring<S> &r, uint32_t i)
{
	return r.smem + i % S::stages * 2 * S::tile_bytes;
}

template <class S> KV_DEVICE void ring_wait_full(const hopper_ring<S> &r, uint32_t i)
{
	kv_mbarrier_wait(r.full + i % S::stages, i / S::stages % 2);
}

/* The thread's copies for tile i have landed: they are for products to read. */
template <class S> KV_DEVICE void ring_fill(const hopper_ring<S> &r, uint32_t i)
{
	kv_fence_async();
	kv_mbarrier_arrive(r.full + i % S::stages);
}

/* One lane tells it; none may be behind, still waiting for a phase that would then be two back. */
template <class S> KV_DEVICE void ring_release(const hopper_ring<S> &r, uint32_t i)
{
	__syncwarp();
	if (threadIdx.x % KV_WARP == 0)
		kv_mbarrier_arrive(r.empty + i % S::stages);
}

/*
 * Whether TMA may bring a tile: it lies in one page, known to the map, and every key of it is one
 * that was stored and that a row of the block may see.
 */
KV_DEVICE bool by_tma(const attn_args &a, const attn_rows &rows, const uint64_t *table,
		      uint32_t tile, uint32_t lo, uint64_t *out_address)
{
	uint32_t base = tile * CUDA_ATTN_KEYS;
	uint64_t bytes = static_cast<uint64_t>(CUDA_ATTN_KEYS) * a.head_bytes / a.page_tokens;

	if (!a.tma_bytes || base < lo || base + CUDA_ATTN_KEYS > rows.stored)
		return false;
	*out_address = table[base / CUDA_ATTN_PAGE_STEP % (2 * ATTN_SPLIT_STEPS)];
	return *out_address >= a.tma_base &&
	       *out_address + a.kv_heads * a.head_bytes + bytes <= a.tma_base + a.tma_bytes;
}

/* One thread: has TMA bring K and V of a tile. */
template <class S>
KV_DEVICE void tma_tile(const attn_args &a, const kv_tensor_map &map, unsigned char *to,
			uint64_t address, uint64_t *full)
{
	uint64_t v_address = address + a.kv_heads * a.head_bytes;
	uint32_t k = static_cast<uint32_t>((address - a.tma_base) / (S::head_dim * 2));
	uint32_t v = static_cast<uint32_t>((v_address - a.tma_base) / (S::head_dim * 2));

	ATTN_UNROLL
	for (uint32_t dim = 0; dim < S::head_dim; dim += ATTN_COLUMN) {
		unsigned char *column = to + dim / ATTN_COLUMN * CUDA_ATTN_KEYS * ATTN_LINE_BYTES;

		kv_tma_load(column, map, dim, k, full);
		kv_tma_load(column + S::tile_bytes, map, dim, v, full);
	}
	kv_mbarrier_arrive_after(full, 2 * S::tile_bytes);
}

/*
 * One thread of the producer. It announces a tile when the next one's copies are under way, or when
 * it must wait for room: who waits has announced all it has.
 */
template <class S>
KV_DEVICE void produce(const attn_args &a, const attn_rows &rows, const kv_tensor_map &map,
		       const hopper_ring<S> &r, uint32_t lo, uint32_t hi)
{
	uint64_t *table = reinterpret_cast<uint64_t *>(r.smem + S::table_offset);
	uint32_t first = lo / CUDA_ATTN_KEYS;
	uint32_t count = (hi + CUDA_ATTN_KEYS - 1) / CUDA_ATTN_KEYS - first;
	uint32_t warp = threadIdx.x / KV_WARP;
	bool pending = false; /* tile i - 1 is not announced */

	if (warp < 2)
		attn_fill_table(a, rows, table, first / ATTN_SPLIT_TILES + warp, lo, hi,
				S::head_dim);
	kv_barrier(PRODUCER_BARRIER, KV_WARPGROUP);
	attn_load_q<S>(a, rows, r.smem + S::q_offset);
	kv_cp_commit();
	for (uint32_t i = 0; i < count; i++) {
		uint32_t tile = first + i, parity = (i / S::stages + 1) % 2;
		uint64_t *empty = r.empty + i % S::stages;
		uint64_t address;

		if (i && tile % ATTN_SPLIT_TILES == 0) {
			kv_barrier(PRODUCER_BARRIER, KV_WARPGROUP);
			if (warp == 0)
				attn_fill_table(a, rows, table, tile / ATTN_SPLIT_TILES + 1, lo, hi,
						S::head_dim);
		}
		if (i >= S::stages && !kv_mbarrier_test(empty, parity)) {
			if (pending) {
				kv_cp_wait<0>();
				ring_fill(r, i - 1);
				pending = false;
			}
			kv_mbarrier_wait(empty, parity);
		}
		if (by_tma(a, rows, table, tile, lo, &address)) {
			/* What came piece by piece before, q too, is announced first. */
			kv_cp_wait<0>();
			if (pending)
				ring_fill(r, i - 1);
			pending = false;
			kv_fence_async();
			if (threadIdx.x == 0)
				tma_tile<S>(a, map, ring_tile(r, i), address,
					    r.full + i % S::stages);
			else
				kv_mbarrier_arrive(r.full + i % S::stages);
			continue;
		}
		attn_load_tile<S>(a, table, ring_tile(r, i), tile, lo, hi);
		kv_cp_commit();
		if (pending) {
			kv_cp_wait<1>();
			ring_fill(r, i - 1);
		}
		pending = true;
	}
	kv_cp_wait<0>();
	if (pending)
		ring_fill(r, count - 1);
}

/* Begins the scores of a tile. */
template <class S>
KV_DEVICE void begin_scores(float (*s)[4], const unsigned char *q, const unsigned char *k)
{
	kv_operand a = kv_operand_of(q, 0, 8 * ATTN_LINE_BYTES);
	kv_operand b = kv_operand_of(k, 0, 8 * ATTN_LINE_BYTES);

	kv_wgmma_begin();
	ATTN_UNROLL
	for (int i = 0; i < S::head_dim / 16; i++) {
		uint32_t column = i / 4, in_line = i % 4 * 32;

		kv_wgmma_64x64(
			s, kv_operand_skip(a, column * S::rows * ATTN_LINE_BYTES + in_line),
			kv_operand_skip(b, column * CUDA_ATTN_KEYS * ATTN_LINE_BYTES + in_line),
			i != 0);
	}
	kv_wgmma_commit();
}

/* Begins to add a tile's values by their weights. */
template <class S>
KV_DEVICE void begin_values(float (*o)[4], const uint32_t (*w)[4], const unsigned char *v)
{
	kv_operand b = kv_operand_of(v, CUDA_ATTN_KEYS * ATTN_LINE_BYTES, 8 * ATTN_LINE_BYTES);

	kv_wgmma_begin();
	ATTN_UNROLL
	for (int i = 0; i < 4; i++) {
		kv_operand at = kv_operand_skip(b, i * 16 * ATTN_LINE_BYTES);

		if constexpr (S::head_dim == 64)
			kv_wgmma_64x64_turned(o, w[i], at);
		else
			kv_wgmma_64x128_turned(o, w[i], at);
	}
	kv_wgmma_commit();
}

/* Scores become weights and enter the state, but for its o, which alpha is for. */
template <class S>
KV_DEVICE void soften(attn_state<S::dim_tiles> &state, float (*s)[4], float alpha[2],
		      const attn_view<1> &view, const attn_span &span, uint32_t base,
		      float scale_log2)
{
	float max[2];

	if (!attn_span_holds(span, base))
		attn_mask<S::key_tiles>(s, view.lo[0], view.hi[0], base);
	attn_row_max<S::key_tiles>(max, s);
	attn_raise(state.m, alpha, max, scale_log2);
	attn_weights<S::key_tiles>(s, state.m, scale_log2);
	ATTN_UNROLL
	for (int h = 0; h < 2; h++)
		state.l[h] = kv_fma(state.l[h], alpha[h], attn_lane_sum<S::key_tiles>(s, h));
}

KV_DEVICE void pack(uint32_t (*w)[4], const float (*s)[4])
{
	ATTN_UNROLL
	for (int k = 0; k < 4; k++)
		attn_pack(w[k], s + 2 * k);
}

/* A warpgroup with its 64 rows; tiles that none of them sees are only released. */
template <class S>
KV_DEVICE void consume(const attn_args &a, const attn_rows &rows, const hopper_ring<S> &r,
		       uint32_t lo, uint32_t hi, uint32_t warp)
{
	uint32_t group = warp / 4;
	uint32_t row = warp * 16;
	uint32_t first = lo / CUDA_ATTN_KEYS;
	uint32_t count = (hi + CUDA_ATTN_KEYS - 1) / CUDA_ATTN_KEYS - first;
	const unsigned char *q = r.smem + S::q_offset + group * GROUP_ROWS * ATTN_LINE_BYTES;
	attn_span all = attn_span_of(a, rows, group * GROUP_ROWS, GROUP_ROWS);
	attn_span span = attn_span_of(a, rows, row, 16);
	uint32_t begin = all.end ? all.first / CUDA_ATTN_KEYS - first : count;
	uint32_t end = all.end ? (all.end + CUDA_ATTN_KEYS - 1) / CUDA_ATTN_KEYS - first : count;
	attn_view<1> view;
	attn_state<S::dim_tiles> state;
	attn_total<S> total;
	float s[S::key_tiles][4], alpha[2];
	uint32_t w[4][4];

	for (uint32_t i = 0; i < begin; i++) {
		ring_wait_full(r, i);
		ring_release(r, i);
	}
	attn_view_init(view, a, rows, row);
	attn_reset(state);
	attn_total_reset(total);
	if (begin < end) {
		ring_wait_full(r, begin);
		begin_scores<S>(s, q, ring_tile(r, begin));
		kv_wgmma_wait<0>();
		kv_wgmma_hold<S::key_tiles>(s);
		soften<S>(state, s, alpha, view, span, (first + begin) * CUDA_ATTN_KEYS,
			  a.scale_log2);
		pack(w, s);
	}
	for (uint32_t i = begin; i < end; i++) {
		uint32_t base = (first + i + 1) * CUDA_ATTN_KEYS; /* of the next tile */
		bool more = i + 1 < end;

		if (more && base % CUDA_ATTN_SPLIT) {
			ring_wait_full(r, i + 1);
			begin_scores<S>(s, q, ring_tile(r, i + 1));
			begin_values<S>(state.o, w, ring_tile(r, i) + S::tile_bytes);
			kv_wgmma_wait<1>();
			kv_wgmma_hold<S::key_tiles>(s);
			soften<S>(state, s, alpha, view, span, base, a.scale_log2);
			kv_wgmma_wait<0>();
			kv_wgmma_hold<S::dim_tiles>(state.o);
			ring_release(r, i);
			attn_rescale<S::dim_tiles>(state.o, alpha);
			pack(w, s);
			continue;
		}
		begin_values<S>(state.o, w, ring_tile(r, i) + S::tile_bytes);
		kv_wgmma_wait<0>();
		kv_wgmma_hold<S::dim_tiles>(state.o);
		ring_release(r, i);
		attn_sum_lanes(state.l);
		attn_fold(total, state, nullptr, false, false);
		if (!more)
			break;
		ring_wait_full(r, i + 1);
		begin_scores<S>(s, q, ring_tile(r, i + 1));
		attn_reset(state);
		kv_wgmma_wait<0>();
		kv_wgmma_hold<S::key_tiles>(s);
		soften<S>(state, s, alpha, view, span, base, a.scale_log2);
		pack(w, s);
	}
	for (uint32_t i = end; i < count; i++) {
		ring_wait_full(r, i);
		ring_release(r, i);
	}
	attn_total_take(state, total);
	if (KVD_MUTANT(wgmma_other_bits))
		state.l[0] *= 1.5f;
	attn_store<S>(a, rows, &state, row, 0);
}

template <class S>
KV_DEVICE void hopper_block(const attn_args &a, const kv_tensor_map &map, unsigned char *smem)
{
	hopper_ring<S> r;
	attn_rows rows;

	/* The later a tile, the more keys it sees: those first. */
	if (!attn_tile_rows(a, gridDim.x - 1 - blockIdx.x, blockIdx.y, 0, S::rows, rows))
		return;
	uint32_t lo = attn_first_key(a, attn_row_pos(a, rows, 0));
	uint32_t hi = attn_row_pos(a, rows, rows.count - 1) + 1;
	r.smem = smem;
	r.full = reinterpret_cast<uint64_t *>(smem + S::full_offset);
	r.empty = reinterpret_cast<uint64_t *>(smem + S::empty_offset);
	if (threadIdx.x < S::stages) {
		kv_mbarrier_init(r.full + threadIdx.x, KV_WARPGROUP);
		kv_mbarrier_init(r.empty + threadIdx.x, CONSUMERS * 4);
	}
	__syncthreads();
	/* Told by one lane: so the compiler sees that no branch on it divides a warp. */
	uint32_t warp = __shfl_sync(KV_FULL_MASK, threadIdx.x / KV_WARP, 0);
	if (warp < 4) {
		kv_registers_drop<PRODUCER_REGISTERS>();
		produce<S>(a, rows, map, r, lo, hi);
	} else {
		kv_registers_raise<CONSUMER_REGISTERS>();
		consume<S>(a, rows, r, lo, hi, warp - 4);
	}
}

#else

/* Another architecture: its image is never launched. */
template <class S>
KV_DEVICE void hopper_block(const attn_args &, const kv_tensor_map &, unsigned char *)
{
}

#endif

template <class S>
KV_KERNEL __launch_bounds__(S::block_threads, 1)
	attn_prefill_sm90(attn_args a, const KV_GRID_CONSTANT kv_tensor_map map)
{
	KV_SMEM(unsigned char, smem);

	hopper_block<S>(a, map, smem);
}

/* The range that TMA may read, if the shapes are made for it; none is no error. */
static cudaError_t map_init(kv_tensor_map *map, attn_args *args, const struct cuda_attention *a)
{
	uint64_t lines = a->tma_bytes / (a->head_dim * 2);

	*map = kv_tensor_map();
	if (!lines || lines > INT32_MAX || a->page_tokens % CUDA_ATTN_KEYS)
		return cudaSuccess;
	args->tma_base = a->tma_base;
	args->tma_bytes = a->tma_bytes;
	return kv_tensor_map_init(map, a->tma_base, lines, a->head_dim);
}

template <class S>
static cudaError_t hopper_launch(cudaStream_t stream, attn_args *args,
				 const struct cuda_attention *a)
{
	kv_tensor_map map;
	cudaError_t e = map_init(&map, args, a);

	if (e != cudaSuccess)
		return e;
	return KV_LAUNCH(attn_prefill_sm90<S>, dim3(a->tile_count, a->kv_heads),
			 dim3(S::block_threads), S::smem_bytes, stream, *args, map);
}

/* wgmma is of compute capability 9.0 alone. */
static bool hopper_here(void)
{
	int device = 0, major = 0, minor = 0;

	return cudaGetDevice(&device) == cudaSuccess &&
	       cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) ==
		       cudaSuccess &&
	       cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) ==
		       cudaSuccess &&
	       major == 9 && minor == 0;
}

extern "C" cudaError_t cuda_attn_prefill_sm90(cudaStream_t stream, const struct cuda_attention *a)
{
	attn_args args;

	if (!hopper_here())
		return cudaErrorNotSupported;
	if (a->head_dim == 256)
		return cuda_attn_prefill(stream, a);
	if (!attn_args_init(&args, a))
		return cudaErrorInvalidValue;
	if (!a->tile_count)
		return cudaSuccess;
	switch (a->head_dim) {
	case 64:
		return hopper_launch<hopper_64>(stream, &args, a);
	case 128:
		return hopper_launch<hopper_128>(stream, &args, a);
	default:
		return cudaErrorInvalidValue;
	}
}
