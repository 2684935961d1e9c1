/* A stand-in for libcuda.so.1 without a GPU. CUDA_LOG names a file, to which each load and call adds a line:
 * the pid and the function. FAKE_CUINIT is what cuInit returns, or "hang". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, NO_DEVICE = 100 };

static void note(const char *event) {
    const char *path = getenv("CUDA_LOG");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (!file) return;
    fprintf(file, "%d %s\n", getpid(), event);
    fclose(file);
}

__attribute__((constructor)) static void loaded(void) { note("loaded"); }

int cuInit(unsigned int flags) {
    (void)flags;
    note("cuInit");
    const char *wanted = getenv("FAKE_CUINIT");
    while (wanted && !strcmp(wanted, "hang")) pause();
    return wanted ? atoi(wanted) : NO_DEVICE;
}

int cuDriverGetVersion(int *version) {
    note("cuDriverGetVersion");
    *version = 12080;
    return SUCCESS;
}

int cuDeviceGetCount(int *count) {
    note("cuDeviceGetCount");
    *count = 0;
    return NO_DEVICE;
}
