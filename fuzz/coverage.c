/* Counts which edges of the kernels an execution takes.

   clang's -fsanitize-coverage=inline-8bit-counters gives each edge of a kernel a byte that it
   increments, and calls the function below when the kernel is loaded. This library is preloaded
   before the runtime of the sanitizers, whose function of this name does nothing. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MAX_KERNELS 64

static struct {
    const char *path;
    uint8_t *counters;
    uint8_t *seen; /* for each edge, a bit for each magnitude of its counter */
    size_t edges;
    uintptr_t base;
    const uintptr_t *places; /* for each edge, its address and flags */
} kernels[MAX_KERNELS];
static int num_kernels;

void __sanitizer_cov_8bit_counters_init(uint8_t *start, uint8_t *end)
{
    Dl_info info;
    for (int i = 0; i < num_kernels; i++)
        if (kernels[i].counters == start)
            return;
    if (start == end || num_kernels == MAX_KERNELS || !dladdr(start, &info))
        return;
    kernels[num_kernels].path = strdup(info.dli_fname);
    kernels[num_kernels].counters = start;
    kernels[num_kernels].seen = calloc(end - start, 1);
    kernels[num_kernels].edges = end - start;
    kernels[num_kernels].base = (uintptr_t)info.dli_fbase;
    num_kernels++;
}

void __sanitizer_cov_pcs_init(const uintptr_t *start, const uintptr_t *end)
{
    Dl_info info;
    if (start == end || !dladdr(start, &info))
        return;
    for (int i = 0; i < num_kernels; i++)
        if (kernels[i].base == (uintptr_t)info.dli_fbase)
            kernels[i].places = start;
}

/* The address of an edge in the file of its kernel. */
uintptr_t fuzz_place(int kernel, size_t edge)
{
    return kernels[kernel].places ? kernels[kernel].places[2 * edge] - kernels[kernel].base : 0;
}

int fuzz_num_kernels(void) { return num_kernels; }
const char *fuzz_path(int kernel) { return kernels[kernel].path; }
uint8_t *fuzz_seen(int kernel) { return kernels[kernel].seen; }
size_t fuzz_edges(int kernel) { return kernels[kernel].edges; }

void fuzz_reset(void)
{
    for (int i = 0; i < num_kernels; i++)
        memset(kernels[i].counters, 0, kernels[i].edges);
}

static uint8_t magnitude(uint8_t count)
{
    return count < 3 ? count : count < 4 ? 4 : count < 8 ? 8 : count < 16 ? 16 : count < 32 ? 32
         : count < 128 ? 64 : 128;
}

/* Add the counters, and return how many edges were never taken before. */
int fuzz_collect_edges(void)
{
    int found = 0;
    for (int i = 0; i < num_kernels; i++)
        for (size_t k = 0; k < kernels[i].edges; k++)
            if (kernels[i].counters[k] && !kernels[i].seen[k]) {
                kernels[i].seen[k] = 1;
                found++;
            }
    return found;
}

/* Add the counters to what was seen, and return how many of them are new. */
int fuzz_collect(void)
{
    int found = 0;
    for (int i = 0; i < num_kernels; i++) {
        uint8_t *counters = kernels[i].counters, *seen = kernels[i].seen;
        for (size_t k = 0; k < kernels[i].edges; k++) {
            uint8_t bit = magnitude(counters[k]);
            if (bit & ~seen[k]) {
                seen[k] |= bit;
                found++;
            }
        }
    }
    return found;
}
