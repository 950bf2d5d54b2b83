/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the directory of a GGUF file: metadata first, then the tensor list, then (aligned) data.
 *
 * The file is hostile until proven otherwise. Every count is bounded by a constant and by the
 * bytes that are left, before memory is taken for it; sizes are multiplied with overflow checks;
 * names are unique; tensors lie in the file and do not overlap. After gguf_open() nothing needs
 * checking again except the meaning of values. Lookups are binary searches over arrays sorted
 * once, so no file can make loading quadratic.
 *
 * Names and values point into the map. A struct gguf is immutable: any thread may read it.
 */
#include "engine/model/dequant.h"
#include "engine/model/fail.h"
#include "engine/model/gguf_file.h"

#include <base/bits.h>
#include <base/bytes.h>
#include <base/log.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define VERSION 3u
#define KEYS_MAX (1u << 16)
#define TENSORS_MAX (1u << 16)
#define KEY_BYTES_MAX 65535u
#define NAME_BYTES_MAX 255u
#define ALIGNMENT_DEFAULT 32u
#define ALIGNMENT_MAX (1u << 20)
/* The least that one entry takes in the file. */
#define KEY_ENTRY_BYTES 14u
#define TENSOR_ENTRY_BYTES 33u

struct reader {
	struct gguf *g;
	struct bytes in;
	uint64_t tensor_count;
	uint64_t kv_count;
	char *error;
	size_t error_size;
};

#define FAIL(r, status, ...) fail_with((r)->error, (r)->error_size, (status), __VA_ARGS__)

/* Room for a name of the file, made printable for a sentence. */
struct shown {
	char text[80];
};

static const char *show(const struct gguf_string *s, struct shown *out)
{
	return log_safe(s->text, s->bytes, out->text, sizeof(out->text));
}

static int compare_strings(const struct gguf_string *a, const char *text, size_t bytes)
{
	int order = memcmp(a->text, text, BITS_MIN(a->bytes, bytes));

	return order ? order : (a->bytes > bytes) - (a->bytes < bytes);
}

static int by_key(const void *a, const void *b)
{
	const struct gguf_kv *x = a, *y = b;

	return compare_strings(&x->key, y->key.text, y->key.bytes);
}

static int by_tensor_name(const void *a, const void *b)
{
	const struct gguf_tensor *const *x = a, *const *y = b;

	return compare_strings(&(*x)->name, (*y)->name.text, (*y)->name.bytes);
}

static int by_address(const void *a, const void *b)
{
	const struct gguf_tensor *const *x = a, *const *y = b;

	return ((*x)->data > (*y)->data) - ((*x)->data < (*y)->data);
}

/* Bytes of one element; 0: not a scalar. */
static size_t scalar_bytes(enum gguf_type type)
{
	static const uint8_t bytes[GGUF_TYPES] = {
		[GGUF_U8] = 1,	[GGUF_I8] = 1,	[GGUF_U16] = 2, [GGUF_I16] = 2,
		[GGUF_U32] = 4, [GGUF_I32] = 4, [GGUF_F32] = 4, [GGUF_BOOL] = 1,
		[GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8};

	return bytes[type];
}

static struct gguf_string read_string(struct bytes *in)
{
	uint64_t bytes = bytes_u64(in);
	const uint8_t *text = bytes_take(in, bytes);

	return (struct gguf_string){(const char *)text, text ? (size_t)bytes : 0};
}

/* Steps over `count` values of one type. */
static void skip_values(struct bytes *in, enum gguf_type type, uint64_t count)
{
	size_t bytes = scalar_bytes(type);

	if (bytes && count > bytes_left(in) / bytes) {
		in->failed = true;
	} else if (bytes) {
		(void)bytes_take(in, count * bytes);
	} else {
		for (uint64_t i = 0; i < count && !in->failed; i++)
			(void)read_string(in);
	}
}

static int read_value(struct reader *r, struct gguf_kv *kv)
{
	struct shown name;
	uint32_t type = bytes_u32(&r->in);
	uint32_t element = type;

	kv->count = 1;
	if (type == GGUF_ARRAY) {
		element = bytes_u32(&r->in);
		kv->count = bytes_u64(&r->in);
	}
	if (!r->in.failed && (type >= GGUF_TYPES || element >= GGUF_TYPES || element == GGUF_ARRAY))
		return FAIL(r, -EINVAL, "the value of key \"%s\" has type %u of %u, unknown here",
			    show(&kv->key, &name), type, element);
	kv->type = (enum gguf_type)type;
	kv->element = (enum gguf_type)element;
	kv->data = r->in.pos;
	if (!r->in.failed)
		skip_values(&r->in, kv->element, kv->count);
	if (r->in.failed)
		return FAIL(r, -EINVAL, "the file ends inside the value of key \"%s\"",
			    show(&kv->key, &name));
	kv->bytes = (size_t)(r->in.pos - kv->data);
	return 0;
}

static int read_keys(struct reader *r)
{
	struct gguf *g = r->g;
	struct shown name;

	g->kv = calloc(r->kv_count ? r->kv_count : 1, sizeof(*g->kv));
	if (!g->kv)
		return FAIL(r, -ENOMEM, "no memory for %llu metadata keys",
			    (unsigned long long)r->kv_count);
	for (uint64_t i = 0; i < r->kv_count; i++) {
		struct gguf_kv *kv = &g->kv[i];

		kv->key = read_string(&r->in);
		if (r->in.failed || !kv->key.bytes || kv->key.bytes > KEY_BYTES_MAX)
			return FAIL(r, -EINVAL, "metadata key %llu has no valid name",
				    (unsigned long long)i);
		int status = read_value(r, kv);
		if (status)
			return status;
	}
	g->kv_count = (uint32_t)r->kv_count;
	qsort(g->kv, g->kv_count, sizeof(*g->kv), by_key);
	for (uint32_t i = 1; i < g->kv_count; i++) {
		if (by_key(&g->kv[i - 1], &g->kv[i]) == 0)
			return FAIL(r, -EINVAL, "the metadata key \"%s\" appears twice",
				    show(&g->kv[i].key, &name));
	}
	return 0;
}

/* Number of bytes of a tensor's shape and type. */
static int tensor_bytes(struct reader *r, struct gguf_tensor *t)
{
	struct shown name;
	const struct dequant_type *type = dequant_find(t->type);
	uint64_t elements = 1;

	if (!type)
		return FAIL(r, -ENOTSUP, "tensor \"%s\" has type %u, which is not one of %s",
			    show(&t->name, &name), t->type, dequant_names());
	for (uint32_t i = 0; i < 4; i++) {
		if (t->ne[i] == 0 || __builtin_mul_overflow(elements, t->ne[i], &elements))
			return FAIL(r, -EINVAL, "tensor \"%s\" has an impossible shape",
				    show(&t->name, &name));
	}
	if (t->ne[0] % type->block_elements)
		return FAIL(r, -EINVAL, "rows of tensor \"%s\" are not whole %s blocks of %u",
			    show(&t->name, &name), type->name, type->block_elements);
	if (__builtin_mul_overflow(elements / type->block_elements, (uint64_t)type->block_bytes,
				   &t->bytes))
		return FAIL(r, -EINVAL, "tensor \"%s\" has an impossible size",
			    show(&t->name, &name));
	return 0;
}

/* One entry of the list; `offset` is relative to the data, which is not located yet. */
static int read_tensor(struct reader *r, struct gguf_tensor *t, uint64_t *offset)
{
	struct shown name;

	t->name = read_string(&r->in);
	t->dims = bytes_u32(&r->in);
	if (r->in.failed || !t->name.bytes || t->name.bytes > NAME_BYTES_MAX)
		return FAIL(r, -EINVAL, "a tensor of the list has no valid name");
	if (t->dims < 1 || t->dims > 4)
		return FAIL(r, -EINVAL, "tensor \"%s\" has %u dimensions, not 1 to 4",
			    show(&t->name, &name), t->dims);
	for (uint32_t i = 0; i < 4; i++)
		t->ne[i] = i < t->dims ? bytes_u64(&r->in) : 1;
	t->type = bytes_u32(&r->in);
	*offset = bytes_u64(&r->in);
	if (r->in.failed)
		return FAIL(r, -EINVAL, "the file ends inside its list of tensors");
	return tensor_bytes(r, t);
}

/* Turns offsets into addresses, checked against the end of the file. */
static int locate_tensors(struct reader *r, const uint64_t *offsets)
{
	struct gguf *g = r->g;
	struct shown name;
	uint32_t alignment = ALIGNMENT_DEFAULT;
	int status = gguf_get_u32(g, "general.alignment", &alignment);

	if (status == -EINVAL || !bits_is_pow2(alignment) || alignment > ALIGNMENT_MAX)
		return FAIL(r, -EINVAL, "general.alignment is not a power of two up to %u",
			    ALIGNMENT_MAX);
	uint64_t start = bits_align_up((uint64_t)(r->in.pos - g->map), alignment);
	uint64_t room = start < g->bytes ? g->bytes - start : 0;
	for (uint32_t i = 0; i < g->tensor_count; i++) {
		struct gguf_tensor *t = &g->tensor[i];

		if (offsets[i] % alignment)
			return FAIL(r, -EINVAL, "tensor \"%s\" is not aligned to %u bytes",
				    show(&t->name, &name), alignment);
		if (offsets[i] > room || t->bytes > room - offsets[i])
			return FAIL(r, -EINVAL,
				    "tensor \"%s\" ends beyond the file: is it complete?",
				    show(&t->name, &name));
		t->data = g->map + start + offsets[i];
		g->by_name[i] = t;
	}
	return 0;
}

static int check_tensors(struct reader *r)
{
	struct gguf *g = r->g;
	struct shown a, b;

	qsort(g->by_name, g->tensor_count, sizeof(*g->by_name), by_address);
	for (uint32_t i = 1; i < g->tensor_count; i++) {
		const struct gguf_tensor *x = g->by_name[i - 1], *y = g->by_name[i];

		if (x->data + x->bytes > y->data)
			return FAIL(r, -EINVAL, "tensors \"%s\" and \"%s\" overlap",
				    show(&x->name, &a), show(&y->name, &b));
	}
	qsort(g->by_name, g->tensor_count, sizeof(*g->by_name), by_tensor_name);
	for (uint32_t i = 1; i < g->tensor_count; i++) {
		if (by_tensor_name(&g->by_name[i - 1], &g->by_name[i]) == 0)
			return FAIL(r, -EINVAL, "the tensor \"%s\" appears twice",
				    show(&g->by_name[i]->name, &a));
	}
	return 0;
}

static int read_tensors(struct reader *r)
{
	struct gguf *g = r->g;
	size_t count = r->tensor_count ? r->tensor_count : 1;
	uint64_t *offsets = calloc(count, sizeof(*offsets));
	int status = 0;

	g->tensor = calloc(count, sizeof(*g->tensor));
	g->by_name = calloc(count, sizeof(*g->by_name));
	if (!offsets || !g->tensor || !g->by_name)
		status = FAIL(r, -ENOMEM, "no memory for a list of %zu tensors", count);
	for (uint64_t i = 0; !status && i < r->tensor_count; i++)
		status = read_tensor(r, &g->tensor[i], &offsets[i]);
	g->tensor_count = status ? 0 : (uint32_t)r->tensor_count;
	if (!status)
		status = locate_tensors(r, offsets);
	if (!status)
		status = check_tensors(r);
	free(offsets);
	return status;
}

static int read_header(struct reader *r)
{
	const uint8_t *magic = bytes_take(&r->in, 4);
	uint32_t version = bytes_u32(&r->in);

	r->tensor_count = bytes_u64(&r->in);
	r->kv_count = bytes_u64(&r->in);
	if (!magic || memcmp(magic, "GGUF", 4) != 0)
		return FAIL(r, -EINVAL, "this is not a GGUF file");
	if (version != VERSION)
		return FAIL(r, -ENOTSUP, "GGUF version %u is not supported, only %u", version,
			    VERSION);
	if (r->in.failed)
		return FAIL(r, -EINVAL, "the file ends inside its header");
	if (r->kv_count > KEYS_MAX || r->kv_count > bytes_left(&r->in) / KEY_ENTRY_BYTES ||
	    r->tensor_count > TENSORS_MAX ||
	    r->tensor_count > bytes_left(&r->in) / TENSOR_ENTRY_BYTES)
		return FAIL(r, -EINVAL,
			    "the file claims %llu keys and %llu tensors, too many for its size: "
			    "is it complete?",
			    (unsigned long long)r->kv_count, (unsigned long long)r->tensor_count);
	return 0;
}

/* Takes over the map: gguf_close() unmaps it if `mapped`, and so does a failure here. */
static int open_map(const void *data, size_t bytes, bool mapped, struct gguf **out, char *error,
		    size_t size)
{
	struct gguf *g = calloc(1, sizeof(*g));
	int status;

	if (!g) {
		if (mapped)
			munmap((void *)(uintptr_t)data, bytes);
		return fail_with(error, size, -ENOMEM, "no memory to open the file");
	}
	*g = (struct gguf){.map = data, .bytes = bytes, .mapped = mapped};
	struct reader r = {
		.g = g, .in = bytes_over(data, bytes), .error = error, .error_size = size};
	status = read_header(&r);
	if (!status)
		status = read_keys(&r);
	if (!status)
		status = read_tensors(&r);
	if (status) {
		gguf_close(g);
		return status;
	}
	*out = g;
	return 0;
}

int gguf_open_memory(const void *data, size_t bytes, struct gguf **out, char *error, size_t size)
{
	return open_map(data, bytes, false, out, error, size);
}

int gguf_open(const char *path, struct gguf **out, char *error, size_t size)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int status = 0;

	if (fd < 0 || fstat(fd, &st) < 0) {
		status = -errno;
		fail_with(error, size, status, "cannot open it: %s", strerror(-status));
	} else if (!S_ISREG(st.st_mode) || st.st_size == 0) {
		status = fail_with(error, size, -EINVAL, "this is %s",
				   S_ISDIR(st.st_mode)	 ? "a folder: name the GGUF file in it"
				   : S_ISREG(st.st_mode) ? "an empty file: is it complete?"
							 : "not a regular file");
	}
	if (status) {
		if (fd >= 0)
			close(fd);
		return status;
	}
	void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	status = map == MAP_FAILED ? -errno : 0;
	close(fd);
	if (status)
		return fail_with(error, size, status, "cannot map it: %s", strerror(-status));
	return open_map(map, (size_t)st.st_size, true, out, error, size);
}

void gguf_close(struct gguf *g)
{
	if (!g)
		return;
	if (g->mapped)
		munmap((void *)(uintptr_t)g->map, g->bytes);
	free(g->by_name);
	free(g->tensor);
	free(g->kv);
	free(g);
}

uint64_t gguf_file_bytes(const struct gguf *g)
{
	return g->bytes;
}

const struct gguf_kv *gguf_kv_find(const struct gguf *g, const char *key)
{
	struct gguf_kv want = {.key = {key, strlen(key)}};

	return bsearch(&want, g->kv, g->kv_count, sizeof(want), by_key);
}

uint32_t gguf_tensor_count(const struct gguf *g)
{
	return g->tensor_count;
}

const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, uint32_t i)
{
	return &g->tensor[i];
}

const struct gguf_tensor *gguf_tensor_find(const struct gguf *g, const char *name)
{
	struct gguf_tensor want = {.name = {name, strlen(name)}};
	const struct gguf_tensor *key = &want;
	const struct gguf_tensor *const *found =
		bsearch(&key, g->by_name, g->tensor_count, sizeof(key), by_tensor_name);

	return found ? *found : NULL;
}

int gguf_next_string(const struct gguf_array *a, size_t *offset, struct gguf_string *out)
{
	struct bytes in = bytes_over(a->data + *offset, a->bytes - *offset);

	if (*offset >= a->bytes)
		return 0;
	*out = read_string(&in);
	*offset = (size_t)(in.pos - a->data);
	return 1;
}
