#if defined(__unix__) || defined(__APPLE__)
#define BERTC_MAPS 1
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#else
#define BERTC_MAPS 0
#endif
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize "no-trapping-math" /* or loops with exp_of are no vectors */
#endif
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


/* Where the network hands out results: numbers in rows, which it may change afterwards. */
typedef void (*receiver)(void *context, int result, const float *values, long rows, long width);

enum {
    NO_FILE = 1, ANOTHER_MODEL, DAMAGED, NO_MEMORY, TOO_LONG, NO_TOKENS, NO_SUCH_TOKEN, NOT_UTF8,
    NOT_A_REQUEST
};
