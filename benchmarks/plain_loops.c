/* The arithmetic of three sweeps as plain C loops, one configuration after the other: what compiled code can do.

   Built by plain_loops.py with -O3 -fopenmp; all cores share the configurations. Sizes in bytes, times in seconds;
   a ring between `workers` single-accelerator nodes, without utilization. Configurations are the grid
   ratios x latencies x bandwidths, the last fastest; `out` gets the scaling factor. */
#include <math.h>
#include <stdlib.h>

typedef struct {
    long ratios, latencies, bandwidths;
    const double *ratio, *latency, *bandwidth;
} Networks;

typedef struct {
    double forward, backward, optimizer;
} Compute;

static double ring(double size, long workers, double latency, double bandwidth) {
    return 2 * (workers - 1) * latency + 2.0 * (workers - 1) / workers * size / bandwidth;
}

static double scaling(Compute c, double end) {
    return (c.forward + c.backward + c.optimizer) / (c.forward + fmax(c.backward, end) + c.optimizer);
}

#define EACH_NETWORK                                                        \
    for (long n = 0; n < net.ratios * net.latencies * net.bandwidths; n++) { \
        double bandwidth = net.bandwidth[n % net.bandwidths];               \
        double latency = net.latency[n / net.bandwidths % net.latencies];   \
        double ratio = net.ratio[n / net.bandwidths / net.latencies];

/* First come, first served: `messages` fixed messages with their vector additions. */
void fifo(Networks net, Compute c, long workers, long messages, const double *size, const double *ready,
          const double *add, double *out) {
#pragma omp parallel for schedule(static)
    EACH_NETWORK
        double free = 0;
        for (long m = 0; m < messages; m++) {
            double begin = free > ready[m] ? free : ready[m];
            free = begin + (ring(size[m] / ratio, workers, latency, bandwidth) + add[m]);
        }
        out[n] = scaling(c, free);
    }
}

/* MG-WFBP: add[a * tensors + b] is the addition of a message of the tensors a to b, add_0 of an empty one. */
void mg_wfbp(Networks net, Compute c, long workers, long tensors, const double *size, const double *ready,
             const double *add, double add_0, double *out) {
    double total = 0;
    for (long t = 0; t < tensors; t++) total += size[t];
#pragma omp parallel for schedule(static)
    EACH_NETWORK
        double startup = ring(0, workers, latency, bandwidth) + add_0;
        double whole = ring(total / ratio, workers, latency, bandwidth) + add[tensors - 1];
        double per_byte = fmax(0, whole - startup) / total;
        double planned = 0, free = 0, held = 0;
        long first = 0;
        for (long t = 0; t < tensors; t++) {
            held += size[t];
            double start = planned > ready[t] ? planned : ready[t];
            if (t + 1 < tensors) {
                double wait = ready[t + 1] - start;
                if (wait <= 0 || wait < startup) continue;
            }
            planned = start + startup + per_byte * held;
            double begin = free > ready[t] ? free : ready[t];
            free = begin + (ring(held / ratio, workers, latency, bandwidth) + add[first * tensors + t]);
            held = 0;
            first = t + 1;
        }
        out[n] = scaling(c, free);
    }
}

static void sink(long *heap, long count) {
    for (long at = 0;;) {
        long child = 2 * at + 1;
        if (child >= count) return;
        if (child + 1 < count && heap[child + 1] < heap[child]) child++;
        if (heap[at] <= heap[child]) return;
        long held = heap[at];
        heap[at] = heap[child];
        heap[child] = held;
        at = child;
    }
}

static void rise(long *heap, long at) {
    while (at > 0 && heap[at] < heap[(at - 1) / 2]) {
        long held = heap[at];
        heap[at] = heap[(at - 1) / 2];
        heap[(at - 1) / 2] = held;
        at = (at - 1) / 2;
    }
}

/* ByteScheduler in steady state: partitions by priority, at most `credit` bytes handed over but unfinished. */
void priority(Networks net, Compute c, long workers, long count, const double *size, const double *ready,
              const double *add, const long *tensor, double credit, long tensors, const double *tensor_bytes,
              const double *forward_gap, double *out) {
    double total = 0;
    for (long t = 0; t < tensors; t++) total += tensor_bytes[t];
#pragma omp parallel for schedule(dynamic, 16)
    EACH_NETWORK
        long *heap = malloc(count * sizeof(long)), *sent = malloc(count * sizeof(long));
        double *end = malloc(count * sizeof(double)), *arrived = calloc(tensors, sizeof(double));
        long waiting = 0, sents = 0, come = 0, finished = 0;
        double handed = 0, free_s = 0;
        while (sents < count) {
            double now = come < count ? ready[come] : INFINITY;
            if (finished < sents && end[finished] < now) now = end[finished];
            while (finished < sents && end[finished] <= now) handed -= size[sent[finished++]];
            if (finished == sents) handed = 0;
            while (come < count && ready[come] <= now) {
                heap[waiting] = come - tensor[come] * count;
                rise(heap, waiting++);
                come++;
            }
            while (waiting > 0) {
                long p = ((heap[0] % count) + count) % count;
                if (finished < sents && handed + size[p] > credit) break;
                heap[0] = heap[--waiting];
                sink(heap, waiting);
                free_s = fmax(free_s, now) + (ring(size[p] / ratio, workers, latency, bandwidth) + add[p]);
                handed += size[p];
                sent[sents] = p;
                end[sents++] = free_s;
                arrived[tensor[p]] = fmax(arrived[tensor[p]], free_s);
            }
        }
        double now = c.backward;
        for (long t = tensors - 1; t >= 0; t--)
            now = fmax(now, arrived[t]) + c.optimizer * tensor_bytes[t] / total + forward_gap[t];
        double compute = c.forward + c.backward + c.optimizer;
        out[n] = compute / fmax(compute, now);
        free(heap), free(sent), free(end), free(arrived);
    }
}
